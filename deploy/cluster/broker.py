"""The message broker: a RabbitMQ of the cluster's own, beside whatever broker the system runs.

Everything of it lies in one folder, its node has a name and a port mapper of its own, and it listens on the loopback
interface only. It keeps nothing from one start to the next: it carries messages of running tasks, which FATE sends as
transient ones, so that no task outlives its broker.
"""
from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fate_dp.deploy.ports import HOST
from fate_dp.deploy.program_start import wait_until
from fate_dp.deploy.server_processes import MARK, end_all, processes_of, start_detached
from fate_dp.privacy.private_file import replace_file

from .cluster_ports import BrokerPorts
from .engine import BROKER_PROGRAMS
from .piece import PieceStatus, failed_start, status_of
from .private_files import kept_secret, make_private_folder

USER = "fate"
START_SECONDS = 90.0
ANSWER_SECONDS = 5.0
CONFIGURATION = """\
listeners.tcp.default = {host}:{messages}
management.tcp.ip = {host}
management.tcp.port = {management}
# No figures but states are read, and they cost a processor that trains.
management.rates_mode = none
collect_statistics_interval = 60000
default_user = {user}
default_pass = {password}
log.file.level = warning
"""


@dataclass(frozen=True)
class Broker:
    """RabbitMQ in `folder`."""

    folder: Path
    ports: BrokerPorts
    name: str = "broker"

    def password(self) -> str:
        """The password of the broker's administrator, as which FATE makes a user for every task."""
        make_private_folder(self.folder)
        return kept_secret(self.folder / "password")

    def status(self) -> PieceStatus:
        address = f"{HOST}:{self.ports.messages}"
        return status_of(self.name, address, processes_of(self.folder), self.answers)

    def answers(self) -> bool:
        """Whether the broker takes connections and knows its administrator."""
        url = f"http://{HOST}:{self.ports.management}/api/overview"
        token = base64.b64encode(f"{USER}:{self.password()}".encode()).decode()
        request = urllib.request.Request(url, headers={"Authorization": f"Basic {token}"})
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(request, timeout=ANSWER_SECONDS) as response:
                overview = response.status == 200
            with socket.create_connection((HOST, self.ports.messages), timeout=ANSWER_SECONDS):
                return overview
        except OSError:
            return False

    def start(self, progress: Callable[[str], None]) -> None:
        self.stop()
        self._install()
        progress(f"The broker starts at {HOST}:{self.ports.messages}.")
        # RabbitMQ would start the port mapper itself, but on a port and on interfaces that it shares with others.
        subprocess.Popen(
            ["epmd", "-address", HOST, "-port", str(self.ports.mapper)], env=self._environment(), cwd=self.folder,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        log = self.folder / "broker.log"
        process = start_detached([str(BROKER_PROGRAMS / "rabbitmq-server")], self.folder, self._environment(), log)
        if not wait_until(self.answers, lambda: process.poll() is None, START_SECONDS):
            failure = failed_start(self.name, process, START_SECONDS, log)
            self.stop()
            raise failure

    def stop(self) -> int:
        return end_all(lambda: processes_of(self.folder))

    def _install(self) -> None:
        password = self.password()
        for old in ("data", "log"):
            shutil.rmtree(self.folder / old, ignore_errors=True)
            make_private_folder(self.folder / old)
        ports = {"messages": self.ports.messages, "management": self.ports.management}
        replace_file(
            self.folder / "rabbitmq.conf", CONFIGURATION.format(host=HOST, user=USER, password=password, **ports).encode())
        replace_file(self.folder / "advanced.config", b"[].\n")
        replace_file(self.folder / "rabbitmq-env.conf", b"")
        replace_file(self.folder / "enabled_plugins", b"[rabbitmq_management].\n")
        # What lets another Erlang node give this one orders.
        kept_secret(self.folder / ".erlang.cookie")
        (self.folder / ".erlang.cookie").chmod(0o400)

    def _environment(self) -> dict[str, str]:
        """All of RabbitMQ's places in this folder, none of them the system's."""
        folder = self.folder
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            MARK: str(folder),
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_PORT": str(self.ports.mapper),
            "RABBITMQ_NODENAME": f"fate-dp-{self.ports.messages}@localhost",
            "RABBITMQ_DIST_PORT": str(self.ports.distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONF_ENV_FILE": str(folder / "rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
        }
