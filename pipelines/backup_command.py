"""The ``fate-dp backup`` command: copies of keys, ledgers and policies."""
from __future__ import annotations

from pathlib import Path


def add_backup(commands) -> None:
    """Add ``backup`` to the command line."""
    from .cli import DEFAULT_HOME

    text = "copy the key, the ledger and the policy of every party on this machine, while jobs run"
    command = commands.add_parser("backup", help=text, description=text[0].upper() + text[1:] + ".")
    command.set_defaults(run=backup)
    command.add_argument("folder", type=Path, help="where the copies go, each in a new folder party-ID-TIME")
    command.add_argument(
        "--home", type=Path, default=Path(DEFAULT_HOME), help=f"folder of the server and the parties ({DEFAULT_HOME})")


def backup(options) -> None:
    from fate_dp.deploy.backup import back_up

    from .cli import parties_folder

    back_up(parties_folder(options.home), options.folder, done=tell)


def tell(done) -> None:
    print(f"Party {done.party_id}: {', '.join(done.files)} in {done.folder}.", flush=True)
