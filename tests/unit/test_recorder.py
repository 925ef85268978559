"""The recorder: it writes nothing unless the operator switched it on, and breaks no task whatever goes wrong."""

import os
import stat
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from fate_dp.attacks.recorded_view import Ciphertexts, Message, RecordedView, Task, read_view, to_bytes, views_of
from fate_dp.components.common.charges import PartyHome
from fate_dp.components.common.wire import codec
from fate_dp.components.common.wire.channel import Channel
from fate_dp.deploy.fate_patches import view_hook
from fate_dp.deploy.flow.server import FATE_PATCHES
from fate_dp.deploy.recorder import recording as recorder_module
from fate_dp.deploy.recorder.fate_values import local_form, rust_ciphertexts, rust_modulus
from fate_dp.deploy.recorder.recording import recorder_of, recording
from fate_dp.pipelines.jobs.text_tables import print_ledger
from fate_dp.pipelines.report.job_ledger import ledger_of
from fate_dp.pipelines.report.job_noise import noise_of
from fate_dp.pipelines.report.ledger_page import ledger_html, spending, summary
from fate_dp.privacy import InvalidPolicy, Ledger, private_files
from fate_dp.privacy.ledger.policy import Policy, load_policy
from fate_dp.privacy.validation import InvalidArgument

GUEST, PARTY, JOB = ("guest", "9999"), "10000", "202611230000000000010"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The home of a host, whose policy says nothing yet."""
    monkeypatch.setenv("FATE_DP_HOME", str(tmp_path))
    monkeypatch.setenv("FATE_JOB_ID", JOB)
    folder = tmp_path / f"party-{PARTY}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def received(monkeypatch):
    """Our way to receive gives what a test puts here, by name; FATE's is left alone."""
    messages = {}
    monkeypatch.setattr(Channel, "receive", lambda channel, party, namespace, name: messages[name])
    return messages


def config(component="coordinated_lr", name="lr_0", **more):
    """As FATE gives it where a component begins."""
    given = {"role": "host", "party_id": PARTY, "stage": "train", "parameters": {"epochs": 2}}
    return SimpleNamespace(component=component, task_name=name, party_task_id=f"{JOB}_{name}", **given, **more)


def switch(home, text):
    (home / "policy.yaml").write_text(text)


def task_that_receives(*names):
    for name in names:
        Channel.receive(None, GUEST, "default", name)


def listing(home):
    return sorted(str(path.relative_to(home)) for path in home.rglob("*"))


def the_view(home):
    (path,) = views_of(home.parent)
    return path, read_view(path)


@pytest.mark.parametrize("text", ["", "record_views: false\n", "record_views: [dp_hetero_lr]\n", "record_views: []\n"])
def test_nothing_is_written_unless_the_operator_wants_the_component(home, received, text):
    switch(home, text)
    before, received["sum"] = listing(home), 1.5
    with recording(config()):
        task_that_receives("sum")
    assert listing(home) == before == ["policy.yaml"]


def test_no_job_switches_it_on(home, received):
    """Neither a parameter of the task nor a variable of its environment."""
    received["sum"] = 1.5
    with recording(config(record_views=True)):
        task_that_receives("sum")
    assert listing(home) == []


def test_a_view_holds_what_came_and_is_private(home, received):
    switch(home, "record_views: [coordinated_lr]\n")
    received |= {"key": {"n": 35}, "half_d": np.arange(3.0)}
    with recording(config()):
        task_that_receives("key", "half_d")
    path, view = the_view(home)
    assert path == home / "views" / JOB / "lr_0.host.view"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parents[1])} == {0o700}
    assert [(each.sender, each.name, each.tag) for each in view.messages] == [
        ("guest-9999", "key", "default"),
        ("guest-9999", "half_d", "default"),
    ]
    assert view.named("key") == [{"n": 35}] and view.named("half_d")[0].tolist() == [0, 1, 2]
    assert view.finished and view.problems == () and view.task.component == "coordinated_lr"


def test_the_ledger_says_that_the_recorder_was_on_even_of_a_task_that_is_killed(home):
    switch(home, "record_views: true\n")
    assert recorder_of(config()) is not None
    (entry,) = Ledger(home / "ledger.sqlite").entries()
    assert (entry["source"], entry["mechanism"], entry["jobs"]) == ("coordinated_lr", "recorded view", [JOB])
    assert "the recorder was on" in entry["note"] and entry["epsilon"] == 0.0 and not entry["counted"]
    assert Ledger(home / "ledger.sqlite").totals() == []
    assert views_of(home.parent) == []


def test_the_ledgers_command_page_and_report_show_the_line_and_count_no_release(home, capsys, tmp_path):
    switch(home, "record_views: true\n")
    with recording(config()):
        pass
    print_ledger({"party": Ledger(home / "ledger.sqlite").entries()}, Console(width=120))
    shown = " ".join(capsys.readouterr().out.split())
    assert "recorded view" in shown and "the recorder was on" in shown
    (party,) = spending(tmp_path, 1e-5)
    assert "recorded view" in ledger_html([party], 1e-5, datetime(2026, 1, 1, tzinfo=timezone.utc))
    assert summary([party]).startswith("The ledger holds no release")
    (line,) = ledger_of(PartyHome(home), tmp_path, PARTY, JOB, 1e-5).lines
    assert noise_of(line, []).sentence.startswith("Nothing is released")


def broken_promises(home, received):
    """What does not hold of two tasks of which the second one only is to be recorded."""
    received["sum"] = 1.5
    broken = set()
    for text in ("record_views: [dp_hetero_lr]\n", "record_views: [coordinated_lr]\nrecord_bytes: 400\n"):
        switch(home, text)
        with recording(config()):
            task_that_receives(*["sum"] * 100)
        if "dp_hetero_lr" in text and listing(home) != ["policy.yaml"]:
            broken.add("nothing unless it is switched on")
    for path in views_of(home.parent):
        if stat.S_IMODE(path.stat().st_mode) != 0o600:
            broken.add("private")
        if path.stat().st_size > 1000:
            broken.add("bounded")
    if not any(line["mechanism"] == "recorded view" for line in Ledger(home / "ledger.sqlite").entries()):
        broken.add("noted")
    return broken


def open_to_all(path, content):
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    path.chmod(0o644)


MUTANTS = {
    "nothing unless it is switched on": (Policy, "records", lambda policy, component: True),
    "private": (recorder_module, "replace_file", open_to_all),
    "bounded": (Policy, "record_bytes", property(lambda policy: 10**6, lambda policy, value: None)),
    "noted": (Ledger, "note_recorder", lambda ledger, **task: None),
}


def test_the_recorder_keeps_its_promises(home, received):
    assert broken_promises(home, received) == set()


@pytest.mark.parametrize("promise", MUTANTS)
def test_a_recorder_that_breaks_a_promise_is_noticed(home, received, monkeypatch, promise):
    monkeypatch.setattr(*MUTANTS[promise])
    assert promise in broken_promises(home, received)


def test_without_a_ledger_nothing_is_recorded(home, received, caplog):
    switch(home, "record_views: true\n")
    (home / "ledger.sqlite").write_bytes(b"no ledger" * 200)
    received["sum"] = 1.5
    with recording(config()):
        task_that_receives("sum")
    assert views_of(home.parent) == [] and "is not recorded" in caplog.text


def test_a_task_that_fails_leaves_its_view_and_its_error(home, received):
    switch(home, "record_views: true\n")
    received["sum"] = 1.5
    with pytest.raises(ZeroDivisionError), recording(config()):
        task_that_receives("sum")
        raise ZeroDivisionError
    assert not the_view(home)[1].finished and the_view(home)[1].named("sum") == [1.5]


def test_after_a_task_nothing_is_recorded_any_more(home, received):
    switch(home, "record_views: true\n")
    received["sum"] = 1.5
    before = Channel.receive
    with recording(config()):
        pass
    assert Channel.receive is before


def test_what_is_too_large_is_left_out_by_name_and_a_flood_ends(home, received):
    switch(home, "record_views: true\nrecord_bytes: 2000\n")
    received |= {"small": 1.0, "large": bytes(5000)}
    with recording(config()):
        task_that_receives("small", "large", *["small"] * 500)
    path, view = the_view(home)
    large = next(each for each in view.messages if each.name == "large")
    assert large.content is None and "bytes, and" in large.left_out
    assert view.messages[0].content == 1.0 and view.finished
    assert path.stat().st_size < 4000 and len(view.messages) < 100
    assert view.problems == (
        f"{502 - len(view.messages)} further messages were received: the view has its record_bytes already.",
    )


def test_what_is_of_an_unknown_class_is_left_out(home, received):
    switch(home, "record_views: true\n")
    received["odd"] = SimpleNamespace(secret=1)
    with recording(config()):
        task_that_receives("odd")
    (message,) = the_view(home)[1].messages
    assert message.content is None and "SimpleNamespace" in message.left_out


def test_a_message_that_cannot_be_taken_apart_does_not_break_the_task(home, received, monkeypatch):
    switch(home, "record_views: true\n")
    monkeypatch.setattr(recorder_module, "plain_form", lambda value, most: 1 / 0)
    received["sum"] = 1.5
    with recording(config()):
        task_that_receives("sum")
    assert the_view(home)[1].problems == ("The message 'sum' was not recorded (ZeroDivisionError).",)


def test_a_full_disk_does_not_break_the_task(home, received, monkeypatch, caplog):
    def full(path, content):
        raise OSError(28, "No space left on device")

    switch(home, "record_views: true\n")
    monkeypatch.setattr(recorder_module, "replace_file", full)
    received["sum"] = 1.5
    with recording(config()):
        task_that_receives("sum")
    assert views_of(home.parent) == [] and "No space left on device" in caplog.text


def test_a_malformed_policy_does_not_break_the_task(home, received, caplog):
    switch(home, "record_views: 7\n")
    with recording(config()):
        pass
    assert "record_views" in caplog.text and listing(home) == ["policy.yaml"]


@pytest.mark.parametrize("name", ["../../evil", ".hidden", "a/b", "x" * 200, ""])
def test_a_name_that_a_peer_chose_leaves_the_folder_never(home, name, caplog):
    switch(home, "record_views: true\n")
    with recording(config(name=name)):
        pass
    assert views_of(home.parent) == [] and "cannot name a file" in caplog.text
    assert not (home.parent / "evil.host.view").exists() and Ledger(home / "ledger.sqlite").entries() == []


def test_a_process_that_is_killed_while_it_writes_leaves_no_view(home):
    program = f"""
import os
from types import SimpleNamespace
from fate_dp.deploy.recorder import recording
def replace_file(path, content):
    os.fsync = lambda descriptor: os.path.isfile(f"/proc/self/fd/{{descriptor}}") and os.kill(os.getpid(), 9)
    written(path, content)
written, recording.replace_file = recording.replace_file, replace_file
task = dict(component="c", task_name="t", party_task_id="p", role="host", party_id="{PARTY}", stage="train", parameters={{}})
with recording.recording(SimpleNamespace(**task)):
    pass
"""
    switch(home, "record_views: true\n")
    done = subprocess.run([sys.executable, "-c", program], timeout=120, env=dict(os.environ))
    assert done.returncode == -9 and len(listing(home / "views")) == 2, "a folder, and a half file of another name"
    assert views_of(home.parent) == []


def test_the_hook_asks_the_policy_before_it_imports_anything(home, monkeypatch):
    entered = []
    monkeypatch.setattr(recorder_module, "recorder_of", lambda config: entered.append(config.component))
    module = SimpleNamespace(execute_component_from_config=lambda config, path: entered.append(path))
    view_hook.record_views(module)
    module.execute_component_from_config(config(), "first")
    switch(home, "record_views: true\n")
    module.execute_component_from_config(config(), "second")
    assert entered == ["first", "coordinated_lr", "second"]


def test_a_recorder_that_cannot_be_imported_does_not_break_the_task(home, monkeypatch):
    switch(home, "record_views: true\n")
    monkeypatch.setitem(sys.modules, "fate_dp.deploy.recorder.recording", None)
    ran = []
    module = SimpleNamespace(execute_component_from_config=lambda config, path: ran.append(path))
    view_hook.record_views(module)
    module.execute_component_from_config(config(), "task")
    assert ran == ["task"]


def test_the_hook_looks_where_the_party_has_its_policy():
    assert (view_hook.HOME_VARIABLE, view_hook.PARTY_PREFIX, view_hook.POLICY_FILE) == (
        private_files.HOME_VARIABLE,
        private_files.PARTY_PREFIX,
        private_files.POLICY_FILE,
    )


def test_fate_executes_components_through_the_hook_where_our_folder_is_on_the_path():
    program = (
        "from fate.components.entrypoint.cli.component import execute_cli; "
        "print(execute_cli.execute_component_from_config.__module__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(FATE_PATCHES)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=environment)
    assert done.stdout.split() == ["view_hook"], done.stderr


@pytest.mark.parametrize(
    "line", ["record_views: 3", "record_views: [1]", "record_views: {a: 1}", "record_bytes: 0", "record_bytes: many"]
)
def test_a_wrong_switch_is_refused_by_its_name(home, line):
    switch(home, line)
    with pytest.raises(InvalidPolicy, match=line.partition(":")[0]):
        load_policy(home / "policy.yaml")


def test_a_view_is_the_same_after_it_was_written_and_read():
    cipher = Ciphertexts(15, np.array([10**40, 4], dtype=object), np.array([-2, 0], dtype=np.int32))
    messages = (Message("guest-1", "c", "t", cipher), Message("guest-1", "w", "t", None, "it is too large"))
    view = RecordedView(
        Task(JOB, "lr", "coordinated_lr", "train", "host", "2"), messages, (("a", "b"),), ("Odd.",), False
    )
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"view-{os.getpid()}"
    try:
        path.write_bytes(to_bytes(view))
        again = read_view(path)
    finally:
        path.unlink(missing_ok=True)
    (found,) = again.named("c")
    assert found.n == 15 and found.values.tolist() == [10**40, 4] and found.exponents.tolist() == [-2, 0]
    assert (again.task, again.tables, again.problems, again.finished) == (view.task, (("a", "b"),), ("Odd.",), False)
    assert again.messages[1].left_out == "it is too large" and again.ids_of(2) == ("a", "b")
    with pytest.raises(InvalidArgument, match="no table of that many"):
        again.ids_of(3)


@pytest.mark.parametrize(
    "content, sentence",
    [
        (b"", "is no view that a recorder wrote"),
        (b"PK\x03\x04", "is no view that a recorder wrote"),
        (codec.encode((1, 2, 3)), "is no view that a recorder wrote"),
        (codec.encode(("fate-dp view", 9)) + codec.encode(None), "version 9 but this program reads version 1"),
        (codec.encode(("fate-dp view", 1)) + b"l", "is damaged"),
        (codec.encode(("fate-dp view", 1)) + codec.encode(({}, [], [], [], True)), "is damaged"),
    ],
)
def test_a_file_that_is_no_view_of_this_version_is_refused_in_one_sentence(tmp_path, content, sentence):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InvalidArgument, match=sentence):
        read_view(tmp_path / "file")


def test_numbers_of_fates_library_are_read_as_it_encrypted_them():
    import torch
    from fate.arch.protocol.phe.paillier import evaluator, keygen
    from fate.arch.tensor.phe._keypair import PHETensorCipher

    _, pk, coder = keygen(1024)
    cipher = PHETensorCipher.from_raw_cipher(pk, coder, None, evaluator)
    tensor = cipher.pk.encrypt_tensor(torch.tensor([0.5, -2.0], dtype=torch.float64))
    found = local_form(tensor)
    assert found.n == rust_modulus(pk.pk) == local_form(cipher.pk)["n"] and found.n.bit_length() >= 1023
    assert [tuple(pair) for pair in zip(found.values, found.exponents)] == rust_ciphertexts(tensor._data)


def test_encrypted_numbers_among_others_are_left_out():
    with pytest.raises(codec.NotPlain, match="SimpleNamespace"):
        local_form([1, SimpleNamespace()])
