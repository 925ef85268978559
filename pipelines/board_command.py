"""The ``fate-dp board`` command: the component descriptions in a FATE-Board."""
from __future__ import annotations

from pathlib import Path

DESCRIPTIONS = Path(__file__).parent / "components"
NOT_CURRENT = 3


def add_board(commands) -> None:
    """Add ``board install`` to the command line."""
    text = "make FATE-Board draw jobs with our components"
    kinds = commands.add_parser("board", help=text, description=text[0].upper() + text[1:] + ".").add_subparsers(
        title="what to do", metavar="WHAT", required=True
    )
    text = "install the component descriptions into the board's dag/ folder"
    command = kinds.add_parser("install", help=text, description=text[0].upper() + text[1:] + ".")
    command.add_argument("dag", metavar="DAG_FOLDER", type=Path, help="dag/ in the working directory of FATE-Board")
    command.add_argument("--check", action="store_true", help="only compare; exit status 3 unless all are current")
    command.set_defaults(run=install)


def install(options) -> int:
    from importlib.metadata import version

    from fate_dp.deploy.board.install import CURRENT, MISSING, OTHER_VERSION, compare
    from fate_dp.deploy.board.install import install as install_descriptions

    work = compare if options.check else install_descriptions
    found = work(options.dag, DESCRIPTIONS, version("fate-dp"))
    done = {} if options.check else {MISSING: "installed", OTHER_VERSION: "replaced"}
    for item in found:
        print(f"{item.path.name}: {done.get(item.state, item.state)}")
    changed = sum(item.state != CURRENT for item in found)
    if options.check:
        print(f"{len(found) - changed} of {len(found)} descriptions in {options.dag} are current.")
        return NOT_CURRENT if changed else 0
    print(f"{changed} of {len(found)} descriptions written to {options.dag}.")
    if any(item.state == OTHER_VERSION for item in found):
        print("Browsers keep the ports that they saw until their local storage for the board is cleared.")
    return 0
