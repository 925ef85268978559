"""One party's FATE-Flow server: its configuration, and a home, keys, ledgers, database and data of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fate_dp.deploy.flow import server
from fate_dp.deploy.flow.home import JOBS, FlowHome, make_home, open_home
from fate_dp.deploy.flow.programs import HOST, FlowServerError, ServerRecord, ServerSetup, write_record
from fate_dp.deploy.flow.server import FATE_PATCHES, stop_processes
from fate_dp.deploy.warm_start.control import is_switched_off
from fate_dp.deploy.warm_start.fork_server import SHARERS as WARM_SHARERS
from fate_dp.privacy.private_files import replace_file

from .programs import PARTIES, USER, Broker, ClusterParty, ClusterRecord, PieceStatus, make_private_folder

SPARK_THREADS = 2
DAEMON, DAEMON_FOLDER = "cluster_spark_daemon", Path(__file__).parent / "spark_path"
# A driver that only moves small tables needs neither a second compiler nor a parallel collector to start fast.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.net.preferIPv4Stack=true"
SPARK_DEFAULTS = """\
spark.master local[{threads}]
spark.driver.host {host}
spark.driver.bindAddress {host}
spark.driver.memory 1g
spark.driver.extraJavaOptions {java}
spark.executor.extraJavaOptions {java}
spark.executorEnv.PYTHONPATH {path}
spark.pyspark.python {python}
spark.python.daemon.module {daemon}
spark.ui.enabled false
spark.ui.showConsoleProgress false
"""
SPARK_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n%ex
"""


def party_setup(record: ClusterRecord, party: ClusterParty, broker: Broker, folder: Path) -> ServerSetup:
    """The setup of a party's server whose home is `folder`."""
    messages = {
        "host": HOST,
        "port": record.broker.messages,
        "mng_port": record.broker.management,
        "user": USER,
        "password": broker.password(),
        "mode": "client",
    }
    commands = {"host": HOST, "protocol": "http", "http_port": record.router}
    storage = {"standalone": "standalone", "spark": "file"}[record.engine]
    # Jobs that a server runs side by side; further ones wait for their turn.
    jobs_at_once = max(2, (os.cpu_count() or 2) // 2)
    computing: dict[str, int | str] = {"cores": jobs_at_once * JOBS["job_cores"]}
    if record.engine == "spark":
        # Empty: `spark-submit` is that of the installed pyspark.
        computing["home"] = ""
    http_port, grpc_port = record.servers[party.party_id]
    routes = {other.party_id: {"host": HOST, "port": record.broker.messages} for other in PARTIES}
    return ServerSetup(
        service={
            "party_id": party.party_id,
            "fateflow": {"host": HOST, "http_port": http_port, "grpc_port": grpc_port, "proxy_name": "nginx"},
            "default_engines": {"computing": record.engine, "federation": "rabbitmq", "storage": storage},
            "federation": {"rabbitmq": messages, "nginx": commands},
            "computing": {record.engine: computing},
        },
        # With mode client all parties share the broker, so that this table is only looked up, never used.
        files={"rabbitmq_route_table.yaml": routes},
        environment={
            WARM_SHARERS: str(len(PARTIES)),
            **(spark_environment(folder) if record.engine == "spark" else {}),
        },
    )


def spark_environment(folder: Path) -> dict[str, str]:
    """Spark's configuration, written below a server's home, and the variables that make `spark-submit` take it."""
    spark = folder / "spark"
    make_private_folder(spark)
    make_private_folder(spark / "local")
    path = os.pathsep.join(map(str, (FATE_PATCHES, DAEMON_FOLDER)))
    defaults = SPARK_DEFAULTS.format(
        threads=SPARK_THREADS, host=HOST, java=JAVA_OPTIONS, python=sys.executable, daemon=DAEMON, path=path
    )
    replace_file(spark / "spark-defaults.conf", defaults.encode())
    replace_file(spark / "log4j2.properties", SPARK_LOGGING.encode())
    variables = {
        "SPARK_CONF_DIR": str(spark),
        "SPARK_LOCAL_DIRS": str(spark / "local"),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
    }
    java = os.environ.get("JAVA_HOME")
    return {**variables, "JAVA_HOME": java} if java else variables


# Four servers start at once, each with seconds of imports, on a machine that may have two cores.
START_SECONDS = 240.0


@dataclass(frozen=True)
class PartyServer:
    """The server of `party` in `folder`, at fixed ports."""

    party: ClusterParty
    folder: Path
    http_port: int
    grpc_port: int
    setup: Callable[[], ServerSetup]
    """Called at the start only: it writes files that a running server's tasks read."""

    @property
    def name(self) -> str:
        return f"{self.party.role} {self.party.party_id}"

    @property
    def home(self) -> FlowHome:
        return open_home(self.folder)

    def status(self) -> PieceStatus:
        found = server.status(self.folder)
        return PieceStatus(self.name, found.state, f"{HOST}:{self.http_port}", found.pid)

    def start(self, progress: Callable[[str], None]) -> None:
        make_home(self.home)
        stop_processes(self.folder)
        write_record(self.home.record, ServerRecord(self.http_port, self.grpc_port))
        try:
            server.up(
                self.folder,
                self.http_port,
                lambda sentence: progress(f"{self.name}: {sentence}"),
                START_SECONDS,
                self.setup(),
                cold=is_switched_off(self.home.warm),
            )
        except FlowServerError as error:
            raise FlowServerError(f"The server of {self.name} did not start: {error}") from error
