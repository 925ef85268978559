"""The ``fate-dp`` command."""

import argparse
import codecs
import io
import os
import shutil
import sys

from fate_dp.deploy.flow.programs import FlowServerError

from .console import add_commands, declared

AS_GIVEN = "fate_dp.as_given"
FATE_EXTRA = "fate fate_client fate_flow fate_utils imblearn packaging pandas pkg_resources psutil pyarrow sklearn"
EXTRAS = {
    **dict.fromkeys(FATE_EXTRA.split(), "fate"),
    **dict.fromkeys(("jinja2", "markupsafe", "matplotlib"), "report"),
    **dict.fromkeys(("kymatio", "torch"), "nn"),
}
"""Which extra of the package brings a module that the privacy core does without."""


def main(arguments: list[str] | None = None) -> int:
    return run_command(parser(), arguments)


def run_command(commands: argparse.ArgumentParser, arguments: list[str] | None) -> int:
    """Parse, run, and turn a refusal into one sentence on standard error and exit status 1."""
    options = commands.parse_args(arguments)
    options.words = sys.argv[1:] if arguments is None else arguments
    codecs.register_error(AS_GIVEN, _as_given)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=AS_GIVEN)
    try:
        status = options.run(options) or 0
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("Interrupted; a job that ran was stopped, and no file was left half-written.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read the output has seen enough; the interpreter would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, FlowServerError) as refusal:
        print(refusal, file=sys.stderr)
        return 1
    except ModuleNotFoundError as missing:
        # What an extra would have brought; any other module that is missing is a bug.
        extra = EXTRAS.get((missing.name or "").partition(".")[0])
        if extra is None:
            raise
        print(_of_an_extra(missing.name, extra), file=sys.stderr)
        return 1
    except OSError as error:
        # An error of the system names its number; others, but those of copied folders, are bugs and keep their traceback.
        if error.errno is None and not isinstance(error, shutil.Error):
            raise
        print(_of_the_system(error), file=sys.stderr)
        return 1


def _as_given(error: UnicodeError) -> tuple[str | bytes, int]:
    """Of what a terminal cannot show: a path in another encoding byte by byte, so that it can be pasted; else its code."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(error)


def _of_the_system(error: OSError) -> str:
    """One sentence for a full disk, a missing permission, a folder where a file should be, and their like."""
    if error.errno is None:
        return f"A folder cannot be copied: {error.args[0][0][2]}."
    what, reason = error.filename or "A file or a socket", os.strerror(error.errno or 0)
    if isinstance(error, PermissionError):
        return f"{what} is not accessible to this user: {reason}; name another place with --out or --home."
    return f"{what} cannot be used: {reason}."


def _of_an_extra(package: str | None, extra: str) -> str:
    where = (
        " with Python 3.10 or 3.11, for which FATE is made" if extra == "fate" and sys.version_info >= (3, 12) else ""
    )
    return f'This command needs the package {package}; run `pip install "fate-dp[{extra}]"`{where}.'


def parser() -> argparse.ArgumentParser:
    """That of all commands; its help lists them by their groups, each with an example."""
    top = argparse.ArgumentParser(
        prog="fate-dp",
        description="Differential privacy for FATE 2.2: run jobs on FATE-Flow and see what privacy they really spent.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands, text = top.add_subparsers(title="commands", metavar="COMMAND", required=True), ""
    for group, listed in declared()["commands"].items():
        add_commands(commands, listed)
        told = "".join(
            f"  {name:<17}{each['help']}\n{'':19}fate-dp {each['example']}\n" for name, each in listed.items()
        )
        text += f"{group}:\n{told}\n"
    # The list of all in one goes.
    commands._choices_actions.clear()
    top.epilog = f"{text}Keys, ledgers and policies are in HOME/parties/party-ID and never leave it."
    return top
