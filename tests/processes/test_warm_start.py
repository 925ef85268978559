"""A task that starts from a fork server is the same as one that starts cold, and where it cannot be, it starts cold."""

import gzip
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fate_dp.deploy.fate_patches import warm_handover
from fate_dp.deploy.warm_start import control
from tests.fork_servers import SERVER, end, lives, make_place, number_in, serving, wait_until

HELLO = "print('hello')"


@pytest.fixture
def place(tmp_path):
    return make_place(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A place with a fork server for tests that do not harm it; with many threads numpy would take up much address space."""
    place = make_place(tmp_path_factory.mktemp("shared"), OMP_NUM_THREADS="1")
    with serving(place, ("numpy", "multiprocessing.pool", "uuid")):
        yield place


def warm_and_cold(place, text, *arguments, **options):
    """The same task warm and cold; fails where the first did not start warm."""
    before = place.counts()[0]
    warm = place.run_task(text, *arguments, **options)
    assert place.counts()[0] == before + 1, place.counts()
    more = {**options.pop("more", {}), warm_handover.SWITCH: "off"}
    return warm, place.run_task(text, *arguments, more=more, **options)


EVERYTHING = """
import json, os, resource, signal, sys, threading
name = os.environ.pop("FATE_DP_WARM_START", None)
print(json.dumps({
    "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path, "folder": os.getcwd(), "umask": os.umask(0),
    "environment": dict(os.environ), "name": __name__, "file": __file__, "main": sys.modules["__main__"].__file__,
    "files": sorted(set(os.listdir("/proc/self/fd")) - {"3"}), "threads": threading.active_count(),
    "limits": [resource.getrlimit(each) for each in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)],
    "nice": os.nice(0), "group": os.getgid(), "user": os.getuid(), "child": repr(signal.getsignal(signal.SIGCHLD)),
    "interrupt": repr(signal.getsignal(signal.SIGINT)).partition(" at ")[0], "frozen": sys.flags.isolated,
    "encoding": sys.stdout.encoding, "text": "äöü",
}))
"""


def test_a_task_finds_itself_as_it_would_cold(shared, tmp_path):
    options = {
        "cwd": tmp_path,
        "umask": 0o027,
        "more": {"A_VARIABLE": "of this task\udcff alone"},
        "pass_fds": (0, 1, 2),
    }
    warm, cold = warm_and_cold(shared, EVERYTHING, "--config", "x y", "ä", **options)
    assert warm.stderr == cold.stderr == ""
    assert json.loads(warm.stdout) == json.loads(cold.stdout)


@pytest.mark.parametrize(
    "text, status",
    [
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit('what went wrong')", 1),
        ("import sys; sys.exit(259)", 3),
        ("def f():\n    raise ValueError('of the task')\nf()", 1),
        ("print('no end of text", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import os; os._exit(7)", 7),
        ("import sys; sys.stdout.close(); sys.exit(0)", 0),
        ("import atexit; atexit.register(print, 'at the end'); print('first')", 0),
        ("import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.3), print('a thread'))).start()", 0),
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start(); print('x')",
            0,
        ),
        ("from concurrent.futures import ThreadPoolExecutor as P; p = P(2); print(list(p.map(abs, [-1])))", 0),
        ("from multiprocessing import Pool\nwith Pool(2) as p: print(p.map(abs, [-1, -2]))", 0),
    ],
)
def test_a_task_ends_as_it_would_cold(shared, text, status):
    warm, cold = warm_and_cold(shared, text)
    assert (warm.returncode, warm.stdout, warm.stderr) == (cold.returncode, cold.stdout, cold.stderr)
    assert warm.returncode == status


def test_what_a_task_leaves_unwritten_is_written(shared, tmp_path):
    text = """
import gzip, os, tempfile
os.chdir({folder!r})
plain, raw, packed = open("plain", "w"), open("raw", "wb"), gzip.open("packed", "wt")
for each in (plain, packed): each.write("to the end")
raw.write(b"to the end")
temporary = tempfile.NamedTemporaryFile(dir=".", prefix="gone")
"""
    contents = []
    for kind in ("warm", "cold"):
        folder = tmp_path / kind
        folder.mkdir()
        more = {} if kind == "warm" else {warm_handover.SWITCH: "off"}
        assert shared.run_task(text.format(folder=str(folder)), more=more).returncode == 0
        contents.append(
            {
                path.name: (gzip.open(path).read() if path.name == "packed" else path.read_bytes())
                for path in folder.iterdir()
            }
        )
    assert contents[0] == contents[1] == dict.fromkeys(("plain", "raw", "packed"), b"to the end")


def test_signals_reach_the_task(shared, tmp_path):
    mark = tmp_path / "pid"
    text = f"""
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(5))
open({str(mark)!r}, "w").write(str(os.getpid()))
time.sleep(600)
"""
    task = shared.start_task(text)
    child = number_in(mark)
    assert child != task.pid, "a warm task runs in a child of the fork server"
    task.terminate()
    assert task.wait(timeout=300) == 5
    wait_until(lambda: not lives(child))


def test_a_task_that_is_killed_leaves_nothing(shared, tmp_path):
    """As FATE-Flow stops a task: it kills the process that it knows; children that the task forked go as well."""
    marks = [tmp_path / name for name in ("child", "grandchild")]
    text = f"""
import os, time
grandchild = os.fork()
open({str(tmp_path)!r} + ("/child" if grandchild else "/grandchild"), "w").write(str(os.getpid()))
time.sleep(600)
"""
    task = shared.start_task(text)
    pids = [number_in(mark) for mark in marks]
    task.kill()
    assert task.wait() == -signal.SIGKILL
    wait_until(lambda: not any(map(lives, pids)))


WITH_POOL = """
import concurrent.futures, os, pathlib, subprocess, sys, time
if sys.argv[-1] == "outer":
    subprocess.run([sys.executable, *sys.argv[:-1], "inner"])
else:
    pool = concurrent.futures.ProcessPoolExecutor(1)
    pathlib.Path({marks[0]!r}).write_text(str(pool.submit(os.getpid).result()))
    pathlib.Path({marks[1]!r}).write_text(str(os.getpid()))
    time.sleep(600)
"""


@pytest.mark.parametrize(("killed", "started"), [("server", "alone"), ("child", "alone"), ("server", "outer")])
def test_no_process_of_a_tasks_pool_outlives_it(place, tmp_path, killed, started):
    """They hold both ends of their own queue, so that they never see that nobody is left who would write to it."""
    marks = [str(tmp_path / name) for name in ("member", "child")]
    with serving(place) as server:
        task = place.start_task(WITH_POOL.format(marks=marks), started)
        member, child = (number_in(Path(mark)) for mark in marks)
        os.kill(server.pid if killed == "server" else child, signal.SIGKILL)
        try:
            assert task.wait(timeout=300) == -signal.SIGKILL
            wait_until(lambda: not lives(member) and not lives(child))
        finally:
            end(member)


def test_no_two_tasks_draw_the_same(shared):
    text = """
import json, multiprocessing, os, random, secrets, tempfile, uuid
import numpy
print(json.dumps([
    random.random(), float(numpy.random.rand()), float(numpy.random.randn()), float(numpy.random.default_rng().random()),
    secrets.token_hex(), uuid.uuid1().hex, uuid.uuid4().hex, bytes(multiprocessing.current_process().authkey).hex(),
    next(tempfile._get_candidate_names()),
]))
"""
    drawn = [json.loads(shared.run_task(text).stdout) for _ in range(3)]
    for kind in zip(*drawn):
        assert len(set(kind)) == 3, kind


def test_many_tasks_at_once(shared):
    tasks = [shared.start_task("import time; time.sleep(0.2); print('done')") for _ in range(12)]
    assert [task.communicate(timeout=300)[0] for task in tasks] == ["done\n"] * 12


def test_a_fork_server_that_is_killed_takes_its_tasks_along_and_the_next_start_cold(place, tmp_path):
    mark = tmp_path / "pid"
    with serving(place) as server:
        task = place.start_task(f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
        child = number_in(mark)
        server.kill()
        assert task.wait(timeout=300) == -signal.SIGKILL, "as if the task itself had been killed"
        wait_until(lambda: not lives(child))
    assert place.run_task(HELLO).stdout == "hello\n", "the socket is there, and nobody behind it"
    assert place.counts() == (1, {"no-server": 1})
    with serving(place):
        assert place.run_task(HELLO).stdout == "hello\n"
    assert place.counts()[0] == 2, "a successor takes the place of one that was killed"


def test_a_task_starts_cold_where_the_socket_is_gone_or_another_environment_is_wanted(place):
    with serving(place):
        place.no_new_server(OMP_NUM_THREADS="7")
        text = "import os; print(os.environ['OMP_NUM_THREADS'])"
        assert place.run_task(text, more={"OMP_NUM_THREADS": "7"}).stdout == "7\n"
        (place.folder / place.key()).unlink()
        assert place.run_task(HELLO).stdout == "hello\n"
    assert place.counts() == (0, {"no-server": 2})


def test_a_server_of_another_version_is_not_asked(place, monkeypatch):
    """Its key is another one, since the hand-over of its version is in it."""
    key = warm_handover.key_of(place.variables())
    monkeypatch.setattr(warm_handover, "PROTOCOL", warm_handover.PROTOCOL + 1)
    assert warm_handover.key_of(place.variables()) != key


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_others_can_enter_is_not_believed(place, mode):
    with serving(place):
        place.folder.chmod(mode)
        before = sorted(place.folder.iterdir())
        assert place.run_task(HELLO).stdout == "hello\n"
        assert sorted(place.folder.iterdir()) == before and place.counts() == (0, {})
        assert "is open to others" in control.look(place.folder).sentence()
        place.folder.chmod(0o700)
        assert place.run_task(HELLO).stdout == "hello\n" and place.counts() == (1, {})


def test_the_folders_above_a_new_one_are_this_users_alone_too(tmp_path, monkeypatch):
    folder = tmp_path / "home" / "warm"
    monkeypatch.setattr(warm_handover, "start_server", lambda *arguments: None)
    monkeypatch.setenv(warm_handover.FOLDER, str(folder))
    before = os.umask(0o022)
    try:
        warm_handover.start_in_new_folder()
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
    assert [each.stat().st_mode & 0o777 for each in (folder, folder.parent)] == [0o700] * 2


def test_another_users_folder_is_not_believed(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    os.close(warm_handover.open_private_folder(str(tmp_path)))
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(tmp_path).st_uid + 1)
    with pytest.raises(PermissionError):
        warm_handover.open_private_folder(str(tmp_path))


def test_code_that_has_changed_makes_a_server_stale(place):
    module = place.root / "modules" / "of_the_task.py"
    module.write_text("VALUE = 1\n")
    os.utime(module, (1, 1))
    text = "import of_the_task; print(of_the_task.VALUE)"
    with serving(place, ("of_the_task",)) as server:
        assert place.run_task(text).stdout == "1\n"
        module.write_text("VALUE = 2000\n")
        time.sleep(0.6)
        assert place.run_task(text).stdout == "2000\n"
        assert place.counts() == (1, {"stale": 1})
        assert server.wait(timeout=300) == 0
        assert f"{module} has changed since it was read" in place.state().sentence


def test_a_servers_own_bytecode_does_not_make_it_stale(place):
    modules = place.root / "modules"
    (modules / "of_the_task.py").write_text("VALUE = 1\n")
    # The folder changes later than the start by more than a tick of the file system's clock.
    (modules / "slow.py").write_text(
        "import os, shutil, time\ntime.sleep(0.1)\nshutil.rmtree(os.path.dirname(__cached__))\nimport of_the_task\n"
    )
    for path in modules.iterdir():
        os.utime(path, (1, 1))
    with serving(place, ("slow",), PYTHONDONTWRITEBYTECODE=""):
        assert (modules / "__pycache__").is_dir()
        time.sleep(0.6)
        assert place.run_task(HELLO).stdout == "hello\n"
        assert place.counts() == (1, {})
        (modules / "installed.py").touch()
        time.sleep(0.6)
        assert place.run_task(HELLO).stdout == "hello\n"
        assert place.counts() == (1, {"stale": 1})


def test_a_stale_server_finishes_its_tasks_while_a_successor_serves(place, tmp_path):
    module, mark, go = (place.root / "modules" / "of_the_task.py", tmp_path / "pid", tmp_path / "go")
    module.write_text("VALUE = 1\n")
    os.utime(module, (1, 1))
    with serving(place, ("of_the_task",)) as old:
        waiting = f"""
import os, time
open({str(mark)!r}, "w").write(str(os.getpid()))
while not os.path.exists({str(go)!r}): time.sleep(0.05)
print("finished")
"""
        task = place.start_task(waiting)
        number_in(mark)
        module.write_text("VALUE = 2\n")
        os.utime(module, (2, 2))
        time.sleep(0.6)
        place.run_task(HELLO)
        with serving(place, ("of_the_task",)):
            assert place.run_task("import of_the_task; print(of_the_task.VALUE)").stdout == "2\n"
            assert place.counts() == (2, {"stale": 1})
            go.touch()
            assert task.communicate(timeout=300)[0] == "finished\n"
            assert old.wait(timeout=300) == 0


WITH_CUDA = """
import sys, types
class Generator: pass
cuda = types.SimpleNamespace(is_initialized=lambda: True)
sys.modules["torch"] = types.SimpleNamespace(Generator=Generator, cuda=cuda)
"""


@pytest.mark.parametrize(
    "module, sentence",
    [
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
            "started a thread",
        ),
        ("import os\nFILE = open(os.devnull)", "keeps /dev/null open"),
        ("class PrivateKey: pass\nKEY = PrivateKey()", "made anew for each task: of_the_task.PrivateKey"),
        (WITH_CUDA, "has initialised CUDA"),
        ("class Rng: pass\nGENERATOR = Rng()", "a key that cannot be made anew for each task: of_the_task.Rng"),
    ],
)
def test_what_a_fork_would_break_is_not_served(place, module, sentence):
    (place.root / "modules" / "of_the_task.py").write_text(module)
    with serving(place, ("of_the_task",)) as server:
        assert server.wait(timeout=300) == 0
        assert place.state().state == "ended" and sentence in place.state().sentence
        assert place.run_task(HELLO).stdout == "hello\n" and place.counts() == (0, {"no-server": 1})
        assert sentence in control.look(place.folder).sentence()


def test_too_little_memory_for_all_parties_of_the_machine(place):
    with serving(place, FATE_DP_WARM_SHARERS="1000000") as server:
        assert server.wait(timeout=300) == 0
    assert "for each of 1000000 servers on this machine" in place.state().sentence
    assert place.run_task(HELLO).stdout == "hello\n"


def test_a_fork_server_that_is_ended_takes_its_modules_temporary_folders_along(place, tmp_path):
    """As `down` ends it, be it while it still imports."""
    kept = f"import tempfile\nheld = tempfile.TemporaryDirectory(dir={str(tmp_path)!r}, prefix='torch-')"
    with serving(place, change=kept) as server:
        assert place.run_task(HELLO).stdout == "hello\n" and len(list(tmp_path.glob("torch-*"))) == 1
        server.terminate()
        server.wait(timeout=300)
    assert list(tmp_path.glob("torch-*")) == []
    slow = "import time\npreload.own_components = lambda: time.sleep(600)"
    program = SERVER.format(modules=(), change=f"{kept}\n{slow}")
    importing = subprocess.Popen([sys.executable, "-c", program, str(place.folder), "ab"], env=place.variables())
    wait_until((place.folder / "state.ab").exists)
    importing.terminate()
    importing.wait(timeout=300)
    assert list(tmp_path.glob("torch-*")) == []


def test_where_no_process_can_be_forked_the_task_starts_cold(place):
    change = "import errno, os\ndef fork(): raise OSError(errno.ENOMEM, 'Cannot allocate memory')\nos.fork = fork"
    with serving(place, change=change):
        assert place.run_task(HELLO).stdout == "hello\n"
    assert place.counts() == (0, {"fork": 1})
    assert "could not be forked and starts cold: Cannot allocate memory" in (place.folder / "log").read_text()


def test_a_task_that_runs_out_of_memory_ends_as_it_would_cold(shared):
    def small():
        resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))

    warm, cold = warm_and_cold(shared, "x = bytearray(4_000_000_000)", preexec_fn=small)
    assert warm.returncode == cold.returncode == 1
    assert warm.stderr == cold.stderr and "MemoryError" in warm.stderr


def test_a_full_disk_keeps_no_task_from_starting(shared):
    """Neither the count nor anything else can be written then."""

    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    counted = shared.counts()
    done = shared.run_task("import os; print(os.path.exists('/proc/self/stat'), os.getppid())", preexec_fn=full)
    assert done.stdout.startswith("True ") and done.stderr == ""
    assert shared.counts() == counted
    assert int(done.stdout.split()[1]) == shared.state().pid, "it was warm all the same"


def test_no_task_begins_without_the_word_of_the_process_that_it_stands_for(place, tmp_path):
    """Whoever has lost patience runs the task itself: it must not run twice."""
    mark = tmp_path / "ran"
    place.program.write_text(f"open({str(mark)!r}, 'w')")
    with serving(place) as server:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(place.folder / place.key()))
        arguments = [sys.executable, str(place.program), "component", "execute"]
        message, descriptors = warm_handover.request(arguments, set(range(3, 500)))
        socket.send_fds(connection, [len(message).to_bytes(4, sys.byteorder)], descriptors)
        connection.sendall(message)
        answer = connection.recv(64)
        child = int.from_bytes(answer[1:], sys.byteorder)
        assert answer[:1] == warm_handover.READY and lives(child)
        connection.close()
        wait_until(lambda: not lives(child))
        assert server.poll() is None
    assert not mark.exists()


def test_an_idle_server_ends_and_so_does_one_whose_owner_has_ended(place, tmp_path):
    with serving(place, options=("--idle-seconds", "0.5")) as server:
        assert server.wait(timeout=300) == 0
    assert place.state().sentence == "no task came for 0 seconds"
    owner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    mark = tmp_path / "pid"
    try:
        with serving(place, options=("--owner", str(owner.pid))) as server:
            task = place.start_task(
                f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
            )
            child = number_in(mark)
            owner.kill()
            owner.wait()
            assert server.wait(timeout=300) == 0
            assert task.wait(timeout=300) == -signal.SIGKILL
            wait_until(lambda: not lives(child))
    finally:
        end(owner.pid)


def test_one_server_has_a_place(place):
    with serving(place) as first, serving(place) as second:
        assert second.wait(timeout=300) == 0 and first.poll() is None
        assert place.run_task(HELLO).stdout == "hello\n" and place.counts()[0] == 1


def test_the_operators_switches(place):
    with serving(place):
        control.switch(place.folder, cold=True)
        assert place.run_task(HELLO).stdout == "hello\n"
        assert control.look(place.folder).sentence() == (
            "Tasks start cold: warm start is switched off. So far 0 processes of tasks started warm, 1 cold "
            "(1: warm start was switched off)."
        )
        control.switch(place.folder, cold=False)
        assert place.run_task(HELLO, more={warm_handover.SWITCH: "off"}).stdout == "hello\n"
        assert place.run_task(HELLO).stdout == "hello\n"
        assert place.counts() == (1, {"switched-off": 2})
        assert "Tasks start warm: fork server" in control.look(place.folder).sentence()


def test_a_fate_flow_whose_own_environment_says_off_tells_others(place, monkeypatch):
    for name, value in place.variables(**{warm_handover.SWITCH: "off"}).items():
        monkeypatch.setenv(name, value)
    control.start_for("")
    assert "Tasks start cold: warm start is switched off." in control.look(place.folder, {}).sentence()
    control.forget(place.folder)
    assert "switched off" not in control.look(place.folder, {}).sentence()


def test_the_first_task_starts_a_server_that_knows_nothing_of_it(place, monkeypatch):
    """The server is started with the environment of FATE-Flow, less what is of one task."""
    started = {}
    monkeypatch.setattr(os, "setsid", lambda: None)
    monkeypatch.setattr(os, "_exit", lambda status: None)
    monkeypatch.setattr(os, "waitpid", lambda *arguments: None)
    monkeypatch.setattr(os, "fork", lambda: 0)
    monkeypatch.setattr(
        warm_handover, "become", lambda command, environment, folder: started.update(environment, command=command)
    )
    folder = warm_handover.open_private_folder(str(place.folder))
    secret = {"FATE_TASK_CONFIG": "parameters: secret", "FATE_JOB_ID": "1", warm_handover.OWNER: "77", "LANG": "C"}
    warm_handover.start_server(folder, "somekey", secret)
    os.close(folder)
    assert "FATE_TASK_CONFIG" not in started and "FATE_JOB_ID" not in started
    assert started["LANG"] == "C" and started["PROCESS_ROLE"] == "worker"
    assert started["command"][-4:] == [str(place.folder), "somekey", "--owner", "77"]
    assert (place.folder / "started.somekey").exists(), "and no other is started at once"


def test_programs_that_are_no_tasks_are_left_alone(place):
    for arguments in (
        ["python", "fate_executor.py", "component", "x"],
        ["python", "-c", "1", "2"],
        ["python"],
        ["python", "-W", "/a/fate_flow/manager/worker/fate_executor.py", "component"],
    ):
        assert not warm_handover.is_executor(arguments)
    assert warm_handover.is_executor(["python", "/a/fate_flow/manager/worker/fate_executor.py", "component", "execute"])
