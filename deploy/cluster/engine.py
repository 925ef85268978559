"""What the cluster computes with, and which installed programs that takes."""
from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from fate_dp.deploy.flow_server_error import FlowServerError

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
        raise FlowServerError(f"The engine is {engine!r}; allowed are {' and '.join(ENGINES)}.")
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
