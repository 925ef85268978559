"""Start and stop the processes of a server: itself and the tasks that it started."""
from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from fate_dp.deploy.site.warm_handover import FOLDER as WARM_FOLDER
from fate_dp.privacy.party_files import HOME_VARIABLE

from .flow_home import FlowHome

# Every process of a server inherits this variable, and no other process has it with this home.
MARK = "FATE_DP_FLOW_HOME"
# Its sitecustomize.py makes tasks start warm, and wait for the broker's queues.
SITE = Path(__file__).parent / "site"
SECONDS_TO_END = 5.0
SECONDS_BETWEEN_LOOKS = 0.05
# Three parties' tasks run at once; with a thread per core and library each they only fight.
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "RAYON_NUM_THREADS")
# With it MKL gives a row of a product the same bits wherever it stands, on more processors than without. No guarantee
# rests on that (see components/dp_homo_nn/record_layers.py): it is a second line, and read when the library is loaded.
ARITHMETIC = {"MKL_CBWR": "AVX2"}
# FATE-Flow writes the environment of every task into its log: nothing goes there that a task does not need.
INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
INHERITED_PREFIX = "FATE_DP_"


def server_environment(home: FlowHome) -> dict[str, str]:
    """The environment of the server, which its tasks inherit."""
    environment = {
        name: value for name, value in os.environ.items() if name in INHERITED or name.startswith(INHERITED_PREFIX)
    }
    environment.update(dict.fromkeys(ONE_THREAD, "1"))
    environment.update({name: os.environ.get(name, value) for name, value in ARITHMETIC.items()})
    environment[MARK] = str(home.root)
    environment[HOME_VARIABLE] = str(home.parties)
    environment[WARM_FOLDER] = str(home.warm)
    path = [str(home.python), str(SITE), os.environ.get("PYTHONPATH")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    return environment


def start_server(home: FlowHome, further: Mapping[str, str] = MappingProxyType({})) -> subprocess.Popen:
    """Start the server of a home; `further` are variables of its environment beside the usual ones."""
    command = [sys.executable, "-m", "fate_dp.deploy.flow_process"]
    return start_detached(command, home.root, {**server_environment(home), **further}, home.server_log)


def start_detached(command: list, folder: Path, environment: Mapping[str, str], log_file: Path) -> subprocess.Popen:
    """Start a program in a process group of its own, so that it outlives the caller's terminal.

    What it writes is for its owner's eyes: the logs of tasks tell what a party trains on.
    """
    with log_file.open("wb") as log:
        return subprocess.Popen(
            command, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True, umask=0o077,
        )  # fmt: skip


def marked_processes(home: FlowHome) -> list:
    """The server of this home and its tasks, tasks of a server that was killed included."""
    return processes_of(home.root)


def processes_of(folder: Path) -> list:
    """Every process that carries the mark of a folder."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(folder) and runs(process):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    # A task may itself ask for `down`; it is ended by the server's end, not by its own hand.
    return [process for process in found if process.pid != os.getpid()]


def stop_processes(home: FlowHome) -> int:
    """End every process of this home, the stubborn ones by force; returns how many there were."""
    return end_all(lambda: marked_processes(home))


def end_all(find: Callable[[], Iterable]) -> int:
    """End every process that `find` finds, the stubborn ones by force; returns how many there were."""
    processes = list(find())
    for process in processes:
        send(process.terminate)
    stubborn = [*left_after(SECONDS_TO_END, processes), *find()]
    for process in stubborn:
        send(process.kill)
    left_after(SECONDS_TO_END, stubborn)
    return len(processes)


def left_after(seconds: float, processes: list) -> list:
    """Wait until these processes have ended, for so many seconds at most; returns those that run still.

    One that has ended and that its parent has not waited for counts as ended: where the machine's first process waits
    for no orphans, as in many containers, it stays for ever.
    """
    import psutil

    deadline = time.monotonic() + seconds
    while True:
        _, processes = psutil.wait_procs(processes, timeout=0)
        processes = [each for each in processes if runs(each)]
        if not processes or time.monotonic() > deadline:
            return processes
        time.sleep(SECONDS_BETWEEN_LOOKS)


def runs(process) -> bool:
    """Whether a process has not ended yet."""
    import psutil

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def send(signal_sender) -> None:
    """Signal a process that may have ended meanwhile."""
    import psutil

    try:
        signal_sender()
    except psutil.NoSuchProcess:
        pass
