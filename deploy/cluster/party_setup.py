"""What the configuration of a cluster's FATE-Flow servers says: engines, broker, router, the party's id."""
from __future__ import annotations

import os
import sys
from pathlib import Path

from fate_dp.deploy.ports import HOST
from fate_dp.deploy.server_processes import SITE
from fate_dp.deploy.server_setup import JOB_CORES, ServerSetup
from fate_dp.deploy.warm_start.fork_server import SHARERS as WARM_SHARERS
from fate_dp.privacy.private_file import replace_file

from .broker import USER, Broker
from .cluster_ports import ClusterRecord
from .parties import PARTIES, ClusterParty
from .private_files import make_private_folder

SPARK_THREADS = 2
DAEMON = "fate_dp.deploy.cluster.spark_daemon"
# A driver that only moves small tables needs neither a second compiler nor a parallel collector to start fast.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.net.preferIPv4Stack=true"
SPARK_DEFAULTS = """\
spark.master local[{threads}]
spark.driver.host {host}
spark.driver.bindAddress {host}
spark.driver.memory 1g
spark.driver.extraJavaOptions {java}
spark.executor.extraJavaOptions {java}
spark.executorEnv.PYTHONPATH {site}
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
        "host": HOST, "port": record.broker.messages, "mng_port": record.broker.management, "user": USER,
        "password": broker.password(), "mode": "client",
    }  # fmt: skip
    commands = {"host": HOST, "protocol": "http", "http_port": record.router}
    storage = {"standalone": "standalone", "spark": "file"}[record.engine]
    computing = {"cores": jobs_at_once() * JOB_CORES}
    if record.engine == "spark":
        # Empty: `spark-submit` is that of the installed pyspark.
        computing["home"] = ""
    return ServerSetup(
        party_id=party.party_id,
        proxy="nginx",
        engines={"computing": record.engine, "federation": "rabbitmq", "storage": storage},
        service={
            "federation": {"rabbitmq": messages, "nginx": commands},
            "computing": {record.engine: computing},
        },
        # With mode client all parties share the broker, so that this table is only looked up, never used.
        routes={other.party_id: {"host": HOST, "port": record.broker.messages} for other in PARTIES},
        environment={
            WARM_SHARERS: str(len(PARTIES)), **(spark_environment(folder) if record.engine == "spark" else {}),
        },
    )


def jobs_at_once() -> int:
    """Jobs that a server runs side by side; further ones wait for their turn."""
    return max(2, (os.cpu_count() or 2) // 2)


def spark_environment(folder: Path) -> dict[str, str]:
    """Spark's configuration, written below a server's home, and the variables that make `spark-submit` take it."""
    spark = folder / "spark"
    make_private_folder(spark)
    make_private_folder(spark / "local")
    defaults = SPARK_DEFAULTS.format(
        threads=SPARK_THREADS, host=HOST, java=JAVA_OPTIONS, python=sys.executable, daemon=DAEMON,
        site=SITE)
    replace_file(spark / "spark-defaults.conf", defaults.encode())
    replace_file(spark / "log4j2.properties", SPARK_LOGGING.encode())
    variables = {
        "SPARK_CONF_DIR": str(spark), "SPARK_LOCAL_DIRS": str(spark / "local"), "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    java = os.environ.get("JAVA_HOME")
    return {**variables, "JAVA_HOME": java} if java else variables
