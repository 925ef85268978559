"""Who takes part in a cluster, at which ports, and its programs besides the FATE-Flow servers: broker and router."""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import secrets
import shutil
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from fate_dp.deploy.flow.client import ask_broker, opened
from fate_dp.deploy.flow.programs import HOST, FlowServerError, free_port, is_free, log_end, wait_until
from fate_dp.deploy.flow.server import MARK, end_all, processes_of, processes_where, start_detached
from fate_dp.privacy.private_files import make_closed_folder, publish_if_absent, replace_file


@dataclass(frozen=True)
class ClusterParty:
    """A party with a server of its own; `role` is the one it usually plays."""

    role: str
    party_id: str

    @property
    def name(self) -> str:
        """The name of its home in the cluster's folder."""
        return f"{self.role}-{self.party_id}"


PARTIES = (
    ClusterParty("guest", "9999"),
    ClusterParty("host", "10000"),
    ClusterParty("arbiter", "10001"),
    # The study of three institutions and the pipelines with a shuffler need two hosts.
    ClusterParty("host", "9998"),
)


@contextmanager
def private_umask() -> Iterator[None]:
    """Meanwhile, whatever this process creates is for its owner's eyes, what others' code creates included."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def make_private_folder(folder: Path) -> None:
    """Create a folder of mode 0700; one that exists and that others may enter is closed to them."""
    try:
        make_closed_folder(folder)
        folder.chmod(0o700)
    except OSError as error:
        raise FlowServerError(
            f"The folder {folder} cannot be made private ({error.strerror}); choose another one with --home."
        ) from error


def kept_secret(path: Path) -> str:
    """The secret in a file, drawn at random where the file does not exist yet; all who ask at once get the same."""
    if not path.is_file():
        publish_if_absent(path, f"{secrets.token_urlsafe(32)}\n".encode())
    return path.read_text(encoding="utf-8").strip()


@dataclass(frozen=True)
class BrokerPorts:
    """RabbitMQ's: messages, management over HTTP, Erlang's distribution and its port mapper."""

    messages: int
    management: int
    distribution: int
    mapper: int


@dataclass(frozen=True)
class ClusterRecord:
    """What a cluster's folder remembers: engine and ports; `servers` is party id -> [HTTP port, gRPC port]."""

    engine: str
    router: int
    broker: BrokerPorts
    servers: dict[str, list[int]]

    def all_ports(self) -> Iterable[int]:
        yield self.router
        yield from asdict(self.broker).values()
        for pair in self.servers.values():
            yield from pair


def new_record(engine: str) -> ClusterRecord:
    """Free ports for every piece."""
    taken: list[int] = []

    def next_port() -> int:
        taken.append(free_port(besides=tuple(taken)))
        return taken[-1]

    broker = BrokerPorts(*(next_port() for _ in range(4)))
    servers = {party.party_id: [next_port(), next_port()] for party in PARTIES}
    return ClusterRecord(engine, next_port(), broker, servers)


def taken_port(record: ClusterRecord) -> int | None:
    """The first port of a cluster that does not run which another program has taken meanwhile."""
    return next((port for port in record.all_ports() if not is_free(port)), None)


def read_record(path: Path) -> ClusterRecord | None:
    """The record at `path`; None where there is none or a crash left it unreadable."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        servers = {party.party_id: content["servers"][party.party_id] for party in PARTIES}
        return ClusterRecord(content["engine"], content["router"], BrokerPorts(**content["broker"]), servers)
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


ENGINES = ("standalone", "spark")
# The commands of this name on PATH change to the account of the system's broker first, or refuse to run.
BROKER_PROGRAMS = Path("/usr/lib/rabbitmq/bin")
EXTRA = 'pip install "fate-dp[fate,cluster]"'


def missing(engine: str) -> str | None:
    """One sentence about the first thing that is not installed, or None where all is."""
    if not (BROKER_PROGRAMS / "rabbitmq-server").is_file():
        return "RabbitMQ, which carries the parties' messages, is not installed; run `apt-get install rabbitmq-server`."
    if router_program() is None:
        return "nginx, which routes the servers' commands, is not installed; run `apt-get install nginx-light`."
    if importlib.util.find_spec("fate_flow") is None:
        return f"FATE-Flow is not installed; run `{EXTRA}`."
    if importlib.util.find_spec("pika") is None:
        return f"The Python package pika, FATE's way to RabbitMQ, is not installed; run `{EXTRA}`."
    if engine == "spark" and importlib.util.find_spec("pyspark") is None:
        return f"The Python package pyspark is not installed; run `{EXTRA}`."
    if engine == "spark" and java_program() is None:
        return "Java, which Spark runs on, is not installed; run `apt-get install default-jre-headless`."
    return None


def check_engine(engine: str) -> None:
    """Refuse an engine that is unknown or whose programs are not installed."""
    if engine not in ENGINES:
        raise FlowServerError(f"The engine must be {' or '.join(ENGINES)}, got {engine!r}.")
    sentence = missing(engine)
    if sentence is not None:
        raise FlowServerError(sentence)


def router_program() -> str | None:
    """nginx, also where an ordinary user's PATH leaves out the administrator's programs."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def java_program() -> str | None:
    """The Java that Spark's own scripts would take."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")


@dataclass(frozen=True)
class PieceStatus:
    """`state` is 'running', 'not answering' or 'stopped'."""

    name: str
    state: str
    address: str
    pid: int | None = None


class Program(ABC):
    """A program that works in a folder of its own, where `name`.log is its log."""

    name: str
    patience: float
    folder: Path

    @property
    @abstractmethod
    def address(self) -> str: ...

    @abstractmethod
    def answers(self) -> bool: ...

    @abstractmethod
    def processes(self) -> list:
        """All its processes, those included that an earlier start has left."""

    @abstractmethod
    def install(self) -> tuple[list[str], dict[str, str]]:
        """Write what the program reads; returns its command and environment."""

    def status(self) -> PieceStatus:
        """What it is doing; the oldest of its processes stands for all."""
        processes = self.processes()
        if not processes:
            return PieceStatus(self.name, "stopped", self.address)
        oldest = min(processes, key=lambda process: process.create_time())
        return PieceStatus(self.name, "running" if self.answers() else "not answering", self.address, oldest.pid)

    def start(self, progress: Callable[[str], None]) -> None:
        """Start it and wait until it answers, after ending what an earlier one left behind; raises FlowServerError."""
        self.stop()
        make_private_folder(self.folder)
        command, environment = self.install()
        progress(f"The {self.name} starts at {self.address}.")
        log = self.folder / f"{self.name}.log"
        process = start_detached(command, self.folder, environment, log)
        if wait_until(self.answers, lambda: process.poll() is None, self.patience):
            return
        ended = process.poll()
        did = f"did not answer within {self.patience:g} seconds" if ended is None else f"ended with exit status {ended}"
        failure = FlowServerError(f"The {self.name} {did}; the end of {log}:\n{log_end(log)}")
        self.stop()
        raise failure

    def stop(self) -> int:
        """End all its processes; returns how many there were."""
        return end_all(self.processes)


# The message broker: a RabbitMQ of the cluster's own, beside whatever broker the system runs.
#
# Everything of it lies in one folder, its node has a name and a port mapper of its own, and it listens on the loopback
# interface only. It keeps nothing from one start to the next: it carries messages of running tasks, which FATE sends as
# transient ones, so that no task outlives its broker.

USER = "fate"
ANSWER_SECONDS = 5.0
BROKER_CONFIGURATION = """\
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
class Broker(Program):
    """RabbitMQ in `folder`."""

    folder: Path
    ports: BrokerPorts
    name = "broker"
    patience = 90.0

    @property
    def address(self) -> str:
        return f"{HOST}:{self.ports.messages}"

    def password(self) -> str:
        """The password of the broker's administrator, as which FATE makes a user for every task."""
        make_private_folder(self.folder)
        return kept_secret(self.folder / "password")

    def processes(self) -> list:
        return processes_of(self.folder)

    def answers(self) -> bool:
        """Whether the broker takes connections and knows its administrator."""
        try:
            ask_broker(f"{HOST}:{self.ports.management}", "overview", USER, self.password(), ANSWER_SECONDS)
            with socket.create_connection((HOST, self.ports.messages), timeout=ANSWER_SECONDS):
                return True
        except (OSError, ValueError):
            return False

    def install(self) -> tuple[list[str], dict[str, str]]:
        folder, password = self.folder, self.password()
        for old in ("data", "log"):
            shutil.rmtree(folder / old, ignore_errors=True)
            make_private_folder(folder / old)
        configuration = BROKER_CONFIGURATION.format(
            host=HOST, user=USER, password=password, messages=self.ports.messages, management=self.ports.management
        )
        replace_file(folder / "rabbitmq.conf", configuration.encode())
        replace_file(folder / "advanced.config", b"[].\n")
        replace_file(folder / "rabbitmq-env.conf", b"")
        replace_file(folder / "enabled_plugins", b"[rabbitmq_management].\n")
        # What lets another Erlang node give this one orders.
        kept_secret(folder / ".erlang.cookie")
        (folder / ".erlang.cookie").chmod(0o400)
        # All of RabbitMQ's places are in this folder, none of them the system's.
        environment = {
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
        # RabbitMQ would start the port mapper itself, but on a port and on interfaces that it shares with others.
        subprocess.Popen(
            ["epmd", "-address", HOST, "-port", str(self.ports.mapper)],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return [str(BROKER_PROGRAMS / "rabbitmq-server")], environment


# The router of the command channel: an nginx that hands each command to the server of the party that it is for.
#
# FATE-Flow sends every command, those to its own party included, as HTTP to one address, and names the receiver in the
# header `dest-party-id`. nginx is what operators would put there between sites, where it also does TLS; so it is here.

# FATE-Flows ask each other for nothing but /v2/partner/ and /v2/scheduler/. The rest is for a party itself: FATE-Flow
# asks nobody for a signature at /v2/worker/, where tasks report and models are.
ROUTER_CONFIGURATION = """\
daemon off;
{user}pid {folder}/router.pid;
error_log stderr;
worker_processes 1;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_max_body_size 0;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/unused;
    uwsgi_temp_path {folder}/unused;
    scgi_temp_path {folder}/unused;
    map $http_dest_party_id $server_of_party {{
        default "";
{routes}
    }}
    server {{
        listen {host}:{port};
        default_type application/json;
        location = /router {{ return 200 '{{"code": 0, "message": "success"}}'; }}
        location ~ ^/v2/(partner|scheduler)/ {{
            if ($server_of_party = "") {{
                return 404 '{{"code": 404, "message": "The cluster has no party $http_dest_party_id."}}';
            }}
            proxy_pass http://$server_of_party;
            proxy_http_version 1.1;
            proxy_connect_timeout 5s;
            proxy_read_timeout 600s;
            proxy_send_timeout 600s;
        }}
        location / {{
            return 403 '{{"code": 403, "message": "Parties may ask for /v2/partner/ and /v2/scheduler/ only."}}';
        }}
    }}
}}
"""


@dataclass(frozen=True)
class Router(Program):
    """nginx in `folder`; `servers` is party id -> HTTP port."""

    folder: Path
    port: int
    servers: Mapping[str, int]
    name = "router"
    patience = 20.0

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def processes(self) -> list:
        """nginx overwrites the environment that would mark its processes, but all stay in the folder they began in."""
        return processes_where(lambda process: process.name() == "nginx" and process.cwd() == str(self.folder))

    def answers(self) -> bool:
        try:
            with opened(f"http://{self.address}/router", ANSWER_SECONDS) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def install(self) -> tuple[list[str], dict[str, str]]:
        configuration = self.folder / "nginx.conf"
        replace_file(configuration, self._configuration().encode())
        command = [str(router_program()), "-p", str(self.folder), "-c", str(configuration), "-e", "stderr"]
        return command, {"PATH": os.environ.get("PATH", os.defpath)}

    def _configuration(self) -> str:
        # Started by root, nginx would give its worker to an account that cannot enter this folder.
        user = f"user {pwd.getpwuid(0).pw_name};\n" if os.geteuid() == 0 else ""
        routes = "\n".join(f'        "{party_id}" {HOST}:{port};' for party_id, port in self.servers.items())
        return ROUTER_CONFIGURATION.format(user=user, folder=self.folder, routes=routes, host=HOST, port=self.port)
