"""Start and stop the processes of an embedded server: itself and the tasks that it started."""
from __future__ import annotations

import os
import subprocess
import sys

from fate_dp.privacy.party_files import HOME_VARIABLE

from .flow_home import FlowHome

# Every process of a server inherits this variable, and no other process has it with this home.
MARK = "FATE_DP_FLOW_HOME"
SECONDS_TO_END = 5.0
# Three parties' tasks run at once; with a thread per core and library each they only fight.
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "RAYON_NUM_THREADS")
# FATE-Flow writes the environment of every task into its log: nothing goes there that a task does not need.
INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
INHERITED_PREFIX = "FATE_DP_"


def server_environment(home: FlowHome) -> dict[str, str]:
    """The environment of the server, which its tasks inherit."""
    environment = {
        name: value for name, value in os.environ.items() if name in INHERITED or name.startswith(INHERITED_PREFIX)
    }
    environment.update(dict.fromkeys(ONE_THREAD, "1"))
    environment[MARK] = str(home.root)
    environment[HOME_VARIABLE] = str(home.parties)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(home.python), os.environ.get("PYTHONPATH")]))
    return environment


def start_server(home: FlowHome) -> subprocess.Popen:
    """Start the server in a process group of its own, so that it outlives the caller's terminal."""
    with home.server_log.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "fate_dp.deploy.flow_process"],
            cwd=home.root,
            env=server_environment(home),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def marked_processes(home: FlowHome) -> list:
    """The server of this home and its tasks, tasks of a server that was killed included."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(home.root) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    # A task may itself ask for `down`; it is ended by the server's end, not by its own hand.
    return [process for process in found if process.pid != os.getpid()]


def stop_processes(home: FlowHome) -> int:
    """End every process of this home, the stubborn ones by force; returns how many there were."""
    import psutil

    processes = marked_processes(home)
    for process in processes:
        send(process.terminate)
    _, stubborn = psutil.wait_procs(processes, timeout=SECONDS_TO_END)
    for process in stubborn + marked_processes(home):
        send(process.kill)
    psutil.wait_procs(stubborn, timeout=SECONDS_TO_END)
    return len(processes)


def send(signal_sender) -> None:
    """Signal a process that may have ended meanwhile."""
    import psutil

    try:
        signal_sender()
    except psutil.NoSuchProcess:
        pass
