"""A FATE-Board of the user's own, started for one FATE-Flow: its folder, its login, its start and stop."""

import os
import re
import secrets
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fate_dp.privacy.private_files import publish_if_absent, replace_file

from ..flow.client import FlowAddress, FlowSilent, ask, opened
from ..flow.programs import HOST, FlowServerError, check_requested_port, free_port, is_free, log_end, wait_until
from ..flow.server import MARK, refuses_client, start_detached, stop_processes
from .install import SUFFIX, checked_folder, install

JAR = "fateboard-*.jar"
MAIN_CLASS = "org.fedai.fate.board.bootstrap.Bootstrap"
# FATE-Board's own; another one where it is taken.
PORT = 8080
START_SECONDS = 180.0
MEMORY = "-Xmx512m"
# What a Java properties file holds as it stands; of a backslash or of spaces at an end it makes something else.
LOGIN = re.compile(r"[!-\[\]-~]+")
# Where the board looks for its own folders. The folder of SSH hosts must be there; with none in it the board asks
# FATE-Flow for the logs.
CONFIGURATION, DESCRIPTIONS_FOLDER, SSH_HOSTS = Path("conf", "application.properties"), "dag", "ssh"
INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "LD_LIBRARY_PATH")


@dataclass(frozen=True)
class BoardFiles:
    jar: Path
    libraries: Path
    descriptions: Path
    """FATE's component descriptions: dag/ of the release, static/ of the source."""


def find_board(place: str | os.PathLike) -> BoardFiles:
    """The board at `place`: its jar, the folder of its release, or its source, built with Maven."""
    path = Path(place).resolve()
    found = (
        [path] if path.is_file() else [jar for folder in (path, path / "target") for jar in sorted(folder.glob(JAR))]
    )
    jars = [jar for jar in found if jar.match(JAR)]
    if not jars:
        raise FlowServerError(
            f"{path} has no FATE-Board; give {JAR} or its folder, unpacked from the release or built with `mvn package`."
        )
    # Of several versions the last.
    jar = jars[-1]
    libraries, folder = jar.parent / "lib", jar.parent
    if not any(libraries.glob("*.jar")):
        raise FlowServerError(
            f"{libraries} has no libraries of FATE-Board; unpack the whole release, or build it again."
        )
    descriptions = folder.parent / "static" if folder.name == "target" else folder / DESCRIPTIONS_FOLDER
    return BoardFiles(jar, libraries, checked_folder(descriptions))


@dataclass(frozen=True)
class RunningBoard:
    """Where a board answers, and who may sign in: the password stands in a file."""

    port: int
    user: str
    password_file: Path

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


def board_folder(home: Path) -> Path:
    """The working directory of a home's board; the server's `down` knows the home only, and leaves the board alone."""
    return Path(home).resolve() / "board"


def start(
    files: BoardFiles,
    flow: FlowAddress,
    folder: Path,
    descriptions: Path,
    version: str,
    *,
    port: int | None = None,
    user: str = "admin",
    progress: Callable[[str], None] = lambda sentence: None,
) -> RunningBoard:
    """Start a board in `folder`, for loopback only, in place of the one that runs there; returns where it answers.

    `descriptions` of ours go beside FATE's into its dag/ folder; `port` is that of last time, 8080 or a free one unless
    given.
    """
    java = find_java()
    if not LOGIN.fullmatch(user):
        raise FlowServerError(f"The user must be printable characters without space and backslash, got {user!r}.")
    check_unsigned(flow)
    if stop_processes(folder):
        progress("The board that ran is stopped.")
    if port is not None:
        check_requested_port(port)
    else:
        port = next((each for each in (last_port(folder), PORT) if each and is_free(each)), None) or free_port()
    board = RunningBoard(port, user, folder / "password")
    password = kept_password(board.password_file)
    fill_descriptions(folder / DESCRIPTIONS_FOLDER, files, descriptions, version)
    (folder / SSH_HOSTS).mkdir(exist_ok=True)
    replace_file(folder / CONFIGURATION, properties(board, flow, password).encode())
    command = [java, MEMORY, f"-Dspring.config.location={folder / CONFIGURATION}", f"-Dssh_config_file={SSH_HOSTS}/"]
    command += ["-cp", f"{files.jar}{os.pathsep}{files.libraries}/*", MAIN_CLASS]
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ} | {MARK: str(folder)}
    log = folder / "board.log"
    progress(f"FATE-Board starts at {board.url}.")
    process = start_detached(command, folder, environment, log)
    if not wait_until(lambda: answers(board.url), lambda: process.poll() is None, START_SECONDS):
        ended = process.poll()
        stop_processes(folder)
        happened = f"did not answer within {START_SECONDS:g} seconds" if ended is None else f"ended with status {ended}"
        raise FlowServerError(f"FATE-Board {happened}; the end of {log}:\n{log_end(log)}")
    return board


def stop(folder: Path) -> bool:
    """Stop the board of `folder`; False if none ran."""
    return stop_processes(folder) > 0


def find_java() -> str:
    """The Java that JAVA_HOME names, else the one on the path."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if java is None:
        where = f"JAVA_HOME, {home}, has no bin/java" if home else "No java is on the path"
        raise FlowServerError(f"{where}; FATE-Board needs Java 8 or later, Debian's openjdk-17-jre-headless for one.")
    return java


def check_unsigned(flow: FlowAddress) -> None:
    """Refuse a FATE-Flow that is not there, or that asks its clients for a signature: the board's is of an older kind."""
    try:
        answer = ask(flow, "server/fateflow")
    except FlowSilent as silence:
        raise FlowServerError(f"No FATE-Flow answers at {flow}: {silence}.") from silence
    if refuses_client(answer):
        raise FlowServerError(
            f"FATE-Flow at {flow} authenticates clients, and the board of FATE 2.2.0 cannot sign requests as it requires; use "
            "fate-dp and flow, or switch client authentication off."
        )


def last_port(folder: Path) -> int | None:
    try:
        text = (folder / CONFIGURATION).read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r"^server\.port=(\d+)$", text, re.MULTILINE)
    return int(match[1]) if match else None


def kept_password(file: Path) -> str:
    """The password in a file, drawn at random where the file does not exist yet."""
    publish_if_absent(file, f"{secrets.token_urlsafe(18)}\n".encode())
    password = file.read_text(encoding="utf-8", errors="replace").strip()
    if not LOGIN.fullmatch(password):
        raise FlowServerError(f"{file} must hold one line of printable characters without space and backslash.")
    return password


def properties(board: RunningBoard, flow: FlowAddress, password: str) -> str:
    values = {
        "server.address": HOST,
        "server.port": board.port,
        "fateflow.url": f"http://{flow}",
        "server.board.login.username": board.user,
        "server.board.login.password": password,
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


def fill_descriptions(dag: Path, files: BoardFiles, ours: Path, version: str) -> None:
    dag.mkdir(exist_ok=True)
    for path in files.descriptions.glob(f"*{SUFFIX}"):
        if not (Path(ours) / path.name).exists():
            shutil.copyfile(path, dag / path.name)
    install(dag, ours, version)


def answers(url: str) -> bool:
    """Whether a page is there; whose it is, nobody asks: the port was free a moment ago."""
    try:
        with opened(url, 5.0) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False
