"""Calls of a task's queries: kept where the operator wants it, replayed by the audit of the job, and void where they cannot be."""

import stat
from types import SimpleNamespace

import numpy as np
import pytest

from fate_dp.attacks.recorded_view import Task
from fate_dp.components.common.charges import PartyHome
from fate_dp.components.common.wire import codec
from fate_dp.components.dp_homo_gbdt import trees
from fate_dp.components.dp_homo_gbdt.boosting import sums_of_records
from fate_dp.components.dp_homo_gbdt.growth import Growth
from fate_dp.components.dp_homo_gbdt.settings import TrainSettings
from fate_dp.components.dp_homo_nn.models.registry import ModelSource, build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, dimension
from fate_dp.deploy.recorder import calls as calls_module
from fate_dp.deploy.recorder import recording as recorder_module
from fate_dp.deploy.recorder.calls import call_of, calls_of, read_calls
from fate_dp.deploy.recorder.recording import recording
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.jobs.audits import Asked, audit_job
from fate_dp.privacy import BudgetCap, InvalidPolicy, Ledger
from fate_dp.privacy.auditing.certificate import CONSISTENT, REFUTED, SENSITIVITY, VOID, Certificate, Claim, read
from fate_dp.privacy.auditing.replay import Moved, replay_all
from fate_dp.privacy.events import Event, Gaussian
from fate_dp.privacy.ledger.policy import Policy, load_policy
from fate_dp.privacy.mechanisms import aggregates, clipping
from fate_dp.privacy.mechanisms.clipping import ClippedSum, clip_records
from fate_dp.privacy.recorded import heard_by, repeat_for_listener
from fate_dp.privacy.recorded import recording as recording_here
from fate_dp.privacy.validation import InvalidArgument

PARTY, JOB, COMPONENT = "10000", "202611230000000000010", "dp_homo_nn"
SPEC, CLIP = ModelSpec("mlp", 3, 2, {"hidden": [4]}), 0.5
ON = f"record_calls: [{COMPONENT}]\n"
# Long enough that its gradient is beyond the clip, whatever the weights.
ROWS = np.array([[0.1, -0.2, 0.3], [30.0, 10.0, -20.0], [0.0, 0.3, 0.1]], dtype=np.float32)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The home of a party with a training in its ledger, whose policy says nothing yet."""
    monkeypatch.setenv("FATE_DP_HOME", str(tmp_path / "parties"))
    monkeypatch.setenv("FATE_JOB_ID", JOB)
    folder = tmp_path / "parties" / f"party-{PARTY}"
    folder.mkdir(mode=0o700, parents=True)
    charged(folder)
    return folder


def charged(folder, job=JOB):
    """What a training of one round writes to the ledger."""
    party = PartyHome(folder)
    tags = {"records": [b"r" * 32], "key_id": party.key_id, "tables": ["bank/loans"]}
    party.ledger.record(
        dataset=party.ledger.remember_dataset("columns:0", ["a", "b"], **tags),
        event=Event(Gaussian(1.0), "record", "add_or_remove", ("server",)),
        count=1,
        cap=BudgetCap(50.0, 1e-5),
        release_key="k",
        job_id=job,
        task_id="t",
        fingerprint="f",
        purpose="dp_homo_nn, aggregation secure_sum",
    )


def config(component=COMPONENT):
    """As FATE gives it where a component begins."""
    given = {"role": "host", "party_id": PARTY, "stage": "train", "parameters": {}}
    return SimpleNamespace(component=component, task_name="nn_0", party_task_id=f"{JOB}_nn_0", **given)


def task(rounds=2):
    """What a training asks: the sum of each round, at weights that it changes in place afterwards."""
    source = ModelSource.of(SPEC, "cross_entropy", {})
    weights = np.linspace(-0.5, 0.5, dimension(build_model(SPEC)))
    for _ in range(rounds):
        source.gradients().clipped_sum(weights, ROWS, np.array([0, 1, 1]), CLIP)
        weights += 0.1


def run(home, policy=ON, asks=task, **more):
    (home / "policy.yaml").write_text(policy)
    with recording(config(**more)):
        asks()


def of_calls(home, delta=1e-5):
    """The certificates of recorded calls, beside that of the training's line, which is void without canaries."""
    _, *found = audit_job(Asked(home.parent, PARTY, JOB, delta=delta))
    return found


@pytest.mark.parametrize("policy", ["", "record_calls: false\n", "record_calls: [label_count]\n", "record_views: []\n"])
def test_nothing_is_kept_unless_the_operator_wants_it_and_the_audit_says_so(home, policy):
    run(home, policy)
    assert not (home / "calls").exists()
    assert all(line["mechanism"] != "recorded calls" for line in Ledger(home / "ledger.sqlite").entries())
    (certificate,) = of_calls(home)
    assert certificate.verdict == VOID and "record_calls in policy.yaml" in certificate.reason


def test_calls_are_kept_privately_and_the_ledger_says_that_the_recorder_was_on(home):
    run(home)
    (path,) = calls_of(home, JOB)
    assert path == home / "calls" / JOB / "nn_0.host.calls"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parents[1])} == {0o700}
    kept = read_calls(path)
    assert (len(kept.calls), kept.seen, kept.problems, kept.finished) == (2, 2, (), True)
    line = Ledger(home / "ledger.sqlite").entries()[-1]
    assert (line["source"], line["mechanism"], line["jobs"]) == (COMPONENT, "recorded calls", [JOB])
    assert "the recorder was on" in line["note"] and line["epsilon"] == 0.0 and not line["counted"]


def test_an_audit_of_the_job_replays_them_and_breaks_its_control(home, capsys, tmp_path):
    run(home)
    (certificate,) = of_calls(home)
    assert certificate.verdict == CONSISTENT, certificate.reason
    assert certificate.claim.subject.startswith("2 of 2 calls in nn_0.host.calls")
    (moved,) = certificate.replayed
    assert moved.query == "clipped_sum" and 0.999 < moved.moved / moved.claimed <= 1
    assert set(certificate.inputs) == {"calls"} and read(certificate.to_json()).verdict == CONSISTENT
    command = ["audit", JOB, "--party", PARTY, "--home", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    assert "One record moved clipped_sum by 1 times the sensitivity" in " ".join(capsys.readouterr().out.split())


def grove(rounds=2):
    """What a training of trees asks in its rounds, the second of which begins at the scores of the first."""
    bins = TrainSettings(records=9, epsilon=1.0).bins_of(["a", "b", "c"])
    growth, grown = Growth(bins, np.random.default_rng(2)), []
    for number in range(rounds):
        splits = growth.draw(3, 2)
        sums_of_records(
            bins.to_wire(), grown, (splits.columns, splits.right), ROWS.astype(float), np.array([0.0, 1.0, 1.0]), number
        )
        grown = [*grown, (splits.columns, splits.right, np.full((3, 4), 0.3))]


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_sums_by_leaf_of_trees_are_replayed_from_the_table(home, relation):
    with recording_here() as heard:
        grove()
    assert [call.query.__name__ for call in heard.calls] == ["sums_of_records"] * 2
    run(home, asks=grove)
    (certificate,) = of_calls(home)
    assert certificate.verdict == CONSISTENT, certificate.reason
    (moved,) = replay_all([call_of(data, {}) for data in read_calls(calls_of(home, JOB)[0]).calls], relation)
    # Under replace-one the label stays, so that a record moves from leaf to leaf: the root of two records, of two.
    least = {"add_or_remove": 0.999, "replace_one": 0.7}[relation]
    assert moved.query == "sums_of_records" and least < moved.moved / moved.claimed <= 1


def too_heavy(scores, labels, weight, bound, grid):
    """A mutant of `trees.record_steps`: curvatures count more than the bound allows, and nothing holds them."""
    return KEPT_STEPS(scores, labels, 4 * weight, 2 * bound, grid)


def centred(scores, labels, weight, bound, grid):
    """Another one: each record's gradient depends on its companions."""
    steps = KEPT_STEPS(scores, labels, weight, bound, grid)
    return steps - np.rint(steps.mean(axis=0)).astype(np.int64) * len(steps)


KEPT_STEPS = trees.record_steps


@pytest.mark.parametrize("mutant", [too_heavy, centred])
def test_trees_whose_records_weigh_more_than_their_sums_report_are_refuted(home, monkeypatch, mutant):
    monkeypatch.setattr(trees, "record_steps", mutant)
    run(home, asks=grove)
    (certificate,) = of_calls(home)
    assert certificate.verdict == REFUTED and "moved sums_of_records by" in certificate.reason


def test_calls_are_kept_as_they_were_asked_whatever_a_task_does_to_its_arrays_later(home):
    run(home)
    (path,) = calls_of(home, JOB)
    first, second = (call_of(data, {}) for data in read_calls(path).calls)
    assert np.allclose(second.arguments[1] - first.arguments[1], 0.1)
    assert np.array_equal(first.repeated(first.records).steps, first.result.steps)


def understated(clipped, relation):
    return SENSITIVITY_IN_STEPS(clipped, relation) / 2


def unclipped(rows, clip, grid):
    return np.rint(rows / grid).astype(np.int64)


SENSITIVITY_IN_STEPS = ClippedSum.sensitivity_in_steps


def test_a_job_that_claimed_half_of_its_sensitivity_is_refuted_though_the_audit_knows_better(
    home, monkeypatch, tmp_path
):
    with monkeypatch.context() as patched:
        patched.setattr(ClippedSum, "sensitivity_in_steps", understated)
        run(home)
    (certificate,) = of_calls(home)
    assert certificate.verdict == REFUTED and "times the sensitivity that it reports" in certificate.reason
    assert read(certificate.to_json()).verdict == REFUTED


def test_a_job_whose_clip_was_off_is_void_since_the_program_of_the_audit_gives_another_sum(home, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(clipping, "_clipped_steps", unclipped)
        run(home, asks=lambda: clip_records(ROWS, CLIP))
    (certificate,) = of_calls(home)
    assert certificate.verdict == VOID and "clip_records gives another sum than it did" in certificate.reason
    with monkeypatch.context() as patched:
        patched.setattr(clipping, "_clipped_steps", unclipped)
        (certificate,) = of_calls(home)
    assert certificate.verdict == REFUTED


def test_replays_that_move_little_are_void():
    claim = Claim("calls", float("inf"), 0.0, "record", "add_or_remove", (), SENSITIVITY)
    weak = Certificate(claim, 0.95, replayed=(Moved("clipped_sum", "add_or_remove", 10.0, 5.0, 3),))
    assert weak.verdict == VOID and "half the sensitivity of clipped_sum would not have been refuted" in weak.reason
    with pytest.raises(InvalidArgument, match="or replayed calls alone, or a hindrance"):
        Certificate(claim, 0.95)


def rewritten(path, **changes):
    """The file with another version, or other contents."""
    kept = read_calls(path)
    content = {"task": 0, "program": kept.version, "calls": list(kept.calls), "seen": kept.seen, "problems": []}
    content["task"] = {name: getattr(kept.task, name) for name in Task.__dataclass_fields__}
    content |= {name: value for name, value in changes.items() if name in content}
    heading = codec.encode(("fate-dp calls", changes.get("version", 1)))
    path.write_bytes(heading + codec.encode((*content.values(), True)))


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"version": 2}, "holds calls of version 2 but this program reads version 1"),
        ({"program": "0.0.1"}, "were recorded by FATE-DP 0.0.1, and another version"),
        ({"calls": []}, "None of the 2 calls was kept with a record in it"),
        ({"calls": [b"l"]}, "are damaged"),
        ({"calls": [codec.encode(("system", [], ([], 1.0, 1.0, {})))]}, "are damaged"),
        ({"problems": ["What other processes computed differs."]}, "What other processes computed differs."),
    ],
)
def test_calls_that_cannot_be_replayed_give_a_certificate_that_is_void(home, changes, sentence):
    run(home)
    (path,) = calls_of(home, JOB)
    rewritten(path, **changes)
    (certificate,) = of_calls(home)
    assert certificate.verdict == VOID and sentence in certificate.reason


def test_a_recorder_that_kept_nothing_and_a_file_of_something_else_are_void(home):
    run(home)
    (path,) = calls_of(home, JOB)
    path.write_bytes(b"PK\x03\x04")
    assert "holds no calls that a recorder wrote" in of_calls(home)[0].reason
    path.unlink()
    (certificate,) = of_calls(home)
    assert certificate.verdict == VOID and "was on, but kept none" in certificate.reason


def test_no_more_is_kept_than_the_operator_allows_and_the_certificate_says_how_many(home):
    run(home, ON + "record_bytes: 2000\n", lambda: task(rounds=9))
    kept = read_calls(calls_of(home, JOB)[0])
    assert 0 < len(kept.calls) < 9 == kept.seen and sum(map(len, kept.calls)) <= 2000
    assert of_calls(home)[0].claim.subject.startswith(f"{len(kept.calls)} of 9 calls")


def test_what_no_audit_repeats_is_told_and_ends_no_task(home, monkeypatch):
    run(home, asks=lambda: aggregates.bounded_mean(ROWS, -1.0, 1.0))
    assert "calls of bounded_mean are not repeated by any audit" in of_calls(home)[0].reason
    monkeypatch.setattr(calls_module, "replace_file", None)
    run(home)
    monkeypatch.setattr(recorder_module, "load_policy", None)
    run(home)


def test_a_task_that_fails_leaves_its_calls_and_the_error(home):
    def failing():
        task(rounds=1)
        raise RuntimeError("the other party is gone")

    with pytest.raises(RuntimeError, match="is gone"):
        run(home, asks=failing)
    kept = read_calls(calls_of(home, JOB)[0])
    assert len(kept.calls) == 1 and not kept.finished


def test_calls_of_other_processes_are_repeated_where_somebody_records_and_nowhere_else():
    asked = []

    def computation():
        asked.append(clip_records(ROWS, CLIP))
        return asked[-1].steps

    expected = clip_records(ROWS, CLIP).steps
    repeat_for_listener(computation, expected)
    assert not asked
    with recording_here() as recorder:
        with heard_by(None):
            clip_records(ROWS, CLIP)
        repeat_for_listener(computation, expected)
        repeat_for_listener(computation, expected + 1)
        repeat_for_listener(lambda: asked[9], expected)
    assert len(recorder.calls) == 2 and len(recorder.problems) == 2
    assert "differs" in recorder.problems[0] and "IndexError" in recorder.problems[1]


PROMISES = {
    "nothing unless it is switched on": (Policy, "records_calls", lambda policy, component: True),
    "bounded": (Policy, "record_bytes", property(lambda policy: 10**6, lambda policy, value: None)),
    "noted": (Ledger, "note_recorder", lambda ledger, what, **task: None),
}


def broken_promises(home):
    broken = set()
    for policy in ("", ON + "record_bytes: 400\n"):
        run(home, policy, lambda: task(rounds=9))
        kept = calls_of(home, JOB)
        if kept and not policy:
            broken.add("nothing unless it is switched on")
        if any(path.stat().st_size > 1500 for path in kept):
            broken.add("bounded")
    if not any(line["mechanism"] == "recorded calls" for line in Ledger(home / "ledger.sqlite").entries()):
        broken.add("noted")
    return broken


def test_the_recorder_of_calls_keeps_its_promises(home):
    assert broken_promises(home) == set()


@pytest.mark.parametrize("promise", PROMISES)
def test_a_recorder_of_calls_that_breaks_a_promise_is_noticed(home, monkeypatch, promise):
    monkeypatch.setattr(*PROMISES[promise])
    assert promise in broken_promises(home)


def test_the_word_of_the_policy_is_checked(home):
    (home / "policy.yaml").write_text("record_calls: dp_homo_nn\n")
    with pytest.raises(InvalidPolicy, match="record_calls is 'dp_homo_nn' but must be true, false or a list"):
        load_policy(home / "policy.yaml")
