"""FATE-Flow's `settings.py`, a program that holds what no configuration file can say."""

import importlib.util
import os
import re
import secrets
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from fate_dp.privacy.private_files import make_closed_folder, publish_if_absent, replace_file

from .programs import EMBEDDED, HOST, FlowServerError, ServerRecord, ServerSetup


def set_settings(path: Path, values: Mapping[str, str]) -> None:
    """Assign texts to names that `path` assigns once each, else change nothing and raise; its owner alone has it then."""
    text = path.read_text(encoding="utf-8")
    for name, value in values.items():
        line = f"{name} = {value!r}".replace("\\", "\\\\")
        text, found = re.subn(rf"^{name} = .*$", line, text, flags=re.MULTILINE)
        if found != 1:
            raise FlowServerError(f"{path} sets {name} {found} times; FATE-Flow 2.2.0 sets it once.")
    replace_file(path, text.encode())


# The administrator's key of a FATE-Flow, in place of the one that stands in its published source: with authentication
# on, whoever has it may let in others. FATE-Flow takes it from its `settings.py` only.
KEY_FILE = "administrator.key"
KEY = re.compile(r"[A-Za-z0-9_-]{16,}")


def kept_key(key_file: Path) -> str:
    """The key in a file, drawn at random where the file does not exist yet."""
    publish_if_absent(key_file, secrets.token_urlsafe(24).encode())
    key = key_file.read_text(encoding="utf-8", errors="replace").strip()
    if not KEY.fullmatch(key):
        raise FlowServerError(f"The administrator's key in {key_file} must be 16 or more letters, digits, - and _.")
    return key


# The folder that holds everything of one embedded FATE-Flow: program, configuration, database, data, logs.
#
# The layout is FATE-Flow's own for a server outside site-packages: it looks for `conf/` and `fateflow.env` three
# folders above its modules and writes its database, `jobs/`, `logs/`, `data/` and `model/` beside them. A server that
# runs from a copy of the package in `python/` therefore keeps all it writes in the home, and the installed package,
# which every other server of the same environment shares, stays as it is.

# As FATE-Flow is published. `fate_flow init --home` writes its server's folders over these in the installed package; a
# copy that kept them would work on that server's database and tables.
BESIDE_ITS_MODULES = {
    **dict.fromkeys(("LOG_DIR", "DATA_DIR", "MODEL_DIR", "JOB_DIR", "UPLOAD_DATA_HOME"), ""),
    **dict.fromkeys(("DEFAULT_SERVER_CONF_PATH", "SQLITE_FILE_DIR"), ""),
    "SQLITE_FILE_NAME": "fate_flow_sqlite.db",
}
# What a server without `--home` keeps beside its modules, besides its configuration.
KEPT_BESIDE = {"conf", "data", "jobs", "localfs", "logs", "model", "temps", "pids"}
# What every server of ours has otherwise than FATE-Flow's own job_default_config.yaml. Its timeout goes by the wall clock, and
# would end a job whose machine wakes up or sets its clock; 0 is none, and `run_job` ends a job in which a party hangs.
JOBS = {"computing_partitions": 4, "job_cores": 4, "task_timeout": 0}


class FlowHome:
    """The paths inside one home folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.python, self.conf, self.logs = root / "python", root / "conf", root / "logs"
        # What each party keeps to itself: key, ledger and policy in `party-<id>/`.
        self.parties = root / "parties"
        # The sockets of the fork servers from which tasks start.
        self.warm = root / "warm"
        self.record, self.lock, self.server_log = root / "server.json", root / "server.lock", root / "server.log"


def open_home(folder: str | os.PathLike) -> FlowHome:
    """The home at `folder`, which need not exist yet."""
    root = Path(folder).expanduser().resolve()
    # FATE-Flow takes any module path that contains this text for an installation inside the environment.
    if sys.prefix in str(root):
        raise FlowServerError(
            f"The FATE-Flow home {root} is in the Python environment {sys.prefix}; choose a folder outside it."
        )
    return FlowHome(root)


def make_home(home: FlowHome) -> None:
    """Create the folders that must exist before the server; others' eyes are kept out of keys and data."""
    try:
        for folder in (home.root, home.parties, home.warm):
            make_closed_folder(folder)
    except OSError as error:
        raise FlowServerError(
            f"The FATE-Flow home {home.root} cannot be created ({error.strerror}); choose another folder."
        ) from error


def install_server(home: FlowHome, record: ServerRecord, setup: ServerSetup = EMBEDDED) -> None:
    """Copy the FATE-Flow package into the home and write its configuration.

    The package may be one that serves an operator already: nothing of that server comes along.
    """
    package = installed_flow_package()

    def left_out(folder: str, names: list) -> set:
        # Compiled modules, and what a server that runs from the package keeps in it.
        kept = KEPT_BESIDE if Path(folder) == package else set()
        return {name for name in names if name == "__pycache__" or name in kept or ".db" in name}

    shutil.rmtree(home.python, ignore_errors=True)
    shutil.copytree(package, home.python / "fate_flow", ignore=left_out)
    shutil.copytree(package / "conf", home.conf, dirs_exist_ok=True, ignore=shutil.ignore_patterns("local.*", "*.pem"))
    shutil.copy2(package / "fateflow.env", home.root)
    key = kept_key(home.conf / KEY_FILE)
    set_settings(home.python / "fate_flow" / "settings.py", {**BESIDE_ITS_MODULES, "ADMIN_KEY": key})
    replace_yaml(home.conf / "service_conf.yaml", service_settings(record, setup))
    jobs = home.conf / "job_default_config.yaml"
    replace_yaml(jobs, {**yaml.safe_load(jobs.read_text(encoding="utf-8")), **JOBS})
    for name, content in setup.files.items():
        replace_yaml(home.conf / name, content)


def installed_flow_package() -> Path:
    """Where fate_flow is installed, found without importing it."""
    specification = importlib.util.find_spec("fate_flow")
    if specification is None or specification.origin is None:
        raise FlowServerError(f'FATE-Flow is not installed in {sys.prefix}; run `pip install "fate-dp[fate]"`.')
    return Path(specification.origin).parent


def service_settings(record: ServerRecord, setup: ServerSetup = EMBEDDED) -> dict[str, Any]:
    """The whole of service_conf.yaml; the database is SQLite in the home."""
    ports = {"http_port": record.http_port, "grpc_port": record.grpc_port}
    alone = yaml.safe_load(Path(__file__).with_name("service_conf.yaml").read_text(encoding="utf-8"))
    return {**alone, "fateflow": {"host": HOST, **ports, "proxy_name": "osx"}, **setup.service}


def replace_yaml(path: Path, content: dict[str, Any]) -> None:
    """Write a YAML file for its owner's eyes: it may hold a password."""
    replace_file(path, yaml.safe_dump(content).encode())
