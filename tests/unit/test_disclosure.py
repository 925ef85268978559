"""Labels are followed through a job's DAG, and what its components show of them is told in sentences."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.components.common.job_files import JobPlan
from fate_dp.components.disclosure import declaration, running, tracing
from fate_dp.components.disclosure.declaration import ComponentDisclosure, Output, Shown
from fate_dp.components.disclosure.tracing import Labels, Party, trace
from fate_dp.components.disclosure.verdicts import Change, advice, enforce, refusal, refusal_for_labels, status, told
from fate_dp.privacy.validation import InvalidArgument

PARTIES = [{"role": "guest", "party_id": ["9999"]}, {"role": "host", "party_id": ["10000", "10001"]}]


def shown(**changes):
    """A statement that every host reads every label, with some fields changed."""
    fields = {
        "what": "labels",
        "of": ("guest",),
        "to": ("host",),
        "form": "encrypted_unblinded",
        "learns": "every",
        "message": "ciphertexts",
        "computes": "the host compares",
        "evidence": ("ml/x.py:1",),
    }
    return Shown(**{**fields, **changes})


def component(name, *shows, outputs=(), settings=(), stages=("train", "predict", "default")):
    return ComponentDisclosure(name, stages, dict(settings), outputs, (), shows)


KNOWN = [
    component("reader"),
    component("psi", shown(what="ids", learns="some", of=("guest", "host"), to=("guest", "host"), form="clear")),
    component("label_flip", outputs=(Output(("output_data",), "flipped"),)),
    component("hides_labels", outputs=(Output(("output_data",), "none"),)),
    component("binning", shown(when={"skip_metrics": [False]}), settings={"skip_metrics": False}.items()),
    component("nested", shown(when={"he_param.kind": ["paillier"]}), settings={"he_param.kind": "paillier"}.items()),
    component("at_predict", shown(stages=("predict",))),
    component("of_hosts", shown(what="features", of=("host",), to=("guest", "host"))),
    component("validates", shown(inputs=("validate_data",))),
    component("sums", shown(learns="sums", form="aggregated")),
    component("published", shown(to=("model",))),
    component(
        "shuffled",
        shown(of=("guest", "host"), to=("host",), learns="sums", form="differentially_private"),
        shown(of=("guest", "host"), to=("shuffler",), learns="nothing"),
    ),
]


@pytest.fixture(autouse=True)
def known(monkeypatch):
    by_name = {each.component: each for each in KNOWN}
    monkeypatch.setattr(tracing, "disclosure_of", by_name.get)
    # What FATE says of components of these names is another matter.
    monkeypatch.setattr(running, "stages_declared", lambda component: {})


def task(component_ref, parameters=None, stage=None, **inputs):
    """A task whose data inputs read output_data of other tasks."""
    data = {
        key: {"task_output_artifact": [{"producer_task": source, "output_artifact_key": "output_data"}]}
        for key, source in inputs.items()
    }
    found = {"component_ref": component_ref, "parameters": parameters or {}, "inputs": {"data": data}}
    return found if stage is None else {**found, "stage": stage}


def plan(parties=PARTIES, **tasks):
    first = {"reader_0": task("reader"), "psi_0": task("psi", input_data="reader_0")}
    return JobPlan({"stage": "train", "parties": parties, "tasks": {**first, **tasks}})


def leaks(of):
    return [(sight.task, str(sight.observer), str(sight.owner)) for sight in trace(of).leaks]


def test_a_host_that_shuffles_holds_no_rows_and_sees_what_is_sealed_alone():
    found = trace(plan(shuffled_0=task("shuffled", {"shuffler": "10001"}, train_data="psi_0")))
    assert [told(sight) for sight in found.sights if sight.task == "shuffled_0"] == [
        "host 10000 learns aggregates of the true labels of guest 9999 with differential privacy in shuffled_0",
        "host 10001 cannot read the labels of guest 9999 that it receives in shuffled_0",
        "host 10001 cannot read the labels of host 10000 that it receives in shuffled_0",
    ]
    nobody = trace(plan(shuffled_0=task("shuffled", train_data="psi_0")))
    assert {sight.shown.learns for sight in nobody.sights if sight.task == "shuffled_0"} == {"sums"}


def test_every_host_reads_labels_that_were_never_flipped():
    found = trace(plan(binning_0=task("binning", train_data="psi_0")))
    assert [told(sight) for sight in found.leaks] == [
        f"host {each} can read every true label of guest 9999 in binning_0" for each in ("10000", "10001")
    ]
    assert status(found) == 1
    assert advice(found, found.leaks[0]) == "put label_flip before it, directly behind psi_0"


def test_behind_label_flip_a_host_reads_flips_which_is_no_leak():
    flip = task("label_flip", {"epsilon": 2.0}, input_data="psi_0")
    found = trace(plan(label_flip_0=flip, binning_0=task("binning", train_data="label_flip_0")))
    (first, _) = [sight for sight in found.sights if sight.shown.what == "labels"]
    assert first.labels == Labels("flipped", 2.0, "label_flip_0", (0.0, 1.0))
    assert told(first) == "host 10000 can read every flipped (epsilon 2) label of guest 9999 in binning_0"
    assert (found.leaks, status(found), refusal(found)) == ((), 0, None)


@pytest.mark.parametrize(
    "given, hidden",
    [
        ({"epsilon": 9.0}, True),
        ({"epsilon": 9.3}, False),
        ({"epsilon": 9.3, "classes": [0, 1, 2]}, True),
        ({"epsilon": 18.0, "bounds": [-1, 1]}, True),
        ({"epsilon": 18.5, "bounds": [-1, 1]}, False),
        ({"epsilon": 1e6, "bounds": [-1, 1], "bins": 4096}, False),
    ],
)
def test_noise_that_nobody_would_notice_hides_no_labels(given, hidden):
    found = plan(
        label_flip_0=task("label_flip", given, input_data="psi_0"), b=task("binning", train_data="label_flip_0")
    )
    assert bool(leaks(found)) is not hidden


def test_a_flip_beside_or_behind_the_leak_stops_nothing():
    flip = task("label_flip", {"epsilon": 2.0}, input_data="psi_0")
    assert leaks(plan(label_flip_0=flip, binning_0=task("binning", train_data="psi_0")))
    late = task("label_flip", {"epsilon": 2.0}, input_data="binning_0")
    assert leaks(plan(binning_0=task("binning", train_data="psi_0"), label_flip_0=late))


@pytest.mark.parametrize(
    "parameters, happens", [({}, True), ({"skip_metrics": True}, False), ({"skip_metrics": False}, True)]
)
def test_a_setting_decides_and_its_default_where_it_is_not_given(parameters, happens):
    assert bool(leaks(plan(binning_0=task("binning", parameters, train_data="psi_0")))) is happens


@pytest.mark.parametrize("he_param, happens", [({}, True), ({"key_length": 1024}, True), ({"kind": "ou"}, False)])
def test_a_nested_setting_has_its_default_beside_others(he_param, happens):
    assert bool(leaks(plan(nested_0=task("nested", {"he_param": he_param}, train_data="psi_0")))) is happens


def test_the_setting_of_a_single_party_counts():
    found = plan(binning_0=task("binning", {"skip_metrics": True}, train_data="psi_0"))
    own = {"parties": PARTIES[:1], "tasks": {"binning_0": {"parameters": {"skip_metrics": False}}}}
    assert leaks(JobPlan({**found.dag, "party_tasks": {"guest_9999": own}}))


def test_a_stage_decides():
    assert not leaks(plan(a=task("at_predict", train_data="psi_0")))
    assert leaks(plan(a=task("at_predict", stage="predict", test_data="psi_0")))


def test_another_hosts_features_are_a_leak_and_nobody_observes_itself():
    found = leaks(plan(a=task("of_hosts", train_data="psi_0")))
    assert found == [
        ("a", "guest 9999", "host 10000"),
        ("a", "guest 9999", "host 10001"),
        ("a", "host 10000", "host 10001"),
        ("a", "host 10001", "host 10000"),
    ]


def test_the_label_that_is_validated_on_is_not_the_one_that_is_trained_on():
    flip = task("label_flip", {"epsilon": 1.0}, input_data="psi_0")
    assert leaks(plan(label_flip_0=flip, a=task("validates", train_data="label_flip_0", validate_data="psi_0")))
    assert not leaks(plan(label_flip_0=flip, a=task("validates", train_data="label_flip_0")))
    assert not leaks(plan(label_flip_0=flip, a=task("binning", train_data="label_flip_0", validate_data="psi_0")))


def test_an_output_holds_what_its_own_input_held():
    flip = task("label_flip", {"epsilon": 1.0}, input_data="psi_0")
    tasks = {
        "label_flip_0": flip,
        "sums_0": task("sums", train_data="label_flip_0", test_data="psi_0"),
        "of_train": task("binning", train_data="sums_0"),
        "of_test": task("binning", train_data="sums_0"),
    }
    for name, key in (("of_train", "train_output_data"), ("of_test", "test_output_data")):
        (channel,) = tasks[name]["inputs"]["data"]["train_data"]["task_output_artifact"]
        channel["output_artifact_key"] = key
    assert {task for task, _, _ in leaks(plan(**tasks))} == {"of_test"}


def test_no_labels_are_left_where_a_component_drops_them():
    assert not leaks(plan(a=task("hides_labels", input_data="psi_0"), b=task("binning", train_data="a")))


def test_an_unknown_component_is_told_with_the_labels_that_it_gets():
    flip = task("label_flip", {"epsilon": 1.0}, input_data="psi_0")
    found = trace(plan(label_flip_0=flip, x=task("nobodys", train_data="label_flip_0")))
    assert status(found) == 3 and "nobodys, the component of task x" in refusal(found)
    assert refusal_for_labels(found) is None
    assert "nobodys" in refusal_for_labels(trace(plan(x=task("nobodys", train_data="psi_0"))))


def test_whoever_gets_the_model_is_an_observer_of_its_own():
    (sight,) = [s for s in trace(plan(a=task("published", train_data="psi_0"))).sights if s.task == "a"]
    assert (sight.observer, str(sight.observer)) == (Party("model"), "whoever gets the model")


def test_the_refusal_names_party_task_reason_and_cure():
    found = trace(plan(binning_0=task("binning", train_data="psi_0")))
    assert refusal(found) == (
        "Host 10000 can read every true label of guest 9999 in binning_0: the host compares (and 1 more leak); "
        "put label_flip before it, directly behind psi_0."
    )


def test_a_policy_refuses_warns_or_asks_nothing(caplog):
    with pytest.raises(InvalidArgument, match="^Leaks. To run it all the same, .* job_check"):
        enforce("refuse", "Leaks.")
    enforce("off", "Leaks.")
    assert not caplog.records
    enforce("warn", "Leaks.")
    assert caplog.messages == ["Leaks."]
    enforce("refuse", None)


def test_a_circle_a_missing_task_and_missing_parties_are_refused_in_a_sentence():
    with pytest.raises(InvalidArgument, match="in a circle"):
        trace(plan(a=task("sums", train_data="b"), b=task("sums", train_data="a")))
    with pytest.raises(InvalidArgument, match="The input of task a must be .*, got 'gone'"):
        trace(plan(a=task("sums", train_data="gone")))
    with pytest.raises(InvalidArgument, match="has no parties"):
        trace(plan(parties=[], a=task("sums", train_data="psi_0")))


def test_what_if_puts_label_flip_in_between_and_changes_nothing_else():
    before = plan(binning_0=task("binning", train_data="psi_0"))
    kept = copy.deepcopy(before.dag)
    after = Change.parse("label_flip@psi_0:epsilon=0.5").apply(before)
    assert before.dag == kept
    assert (leaks(before) != [], leaks(after)) == (True, [])
    assert {sight.labels.epsilon for sight in trace(after).sights if sight.shown.what == "labels"} == {0.5}


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("psi_0", "--what-if must be label_flip@TASK.*, got 'psi_0'"),
        ("label_flip@gone", "behind one of the tasks"),
        ("label_flip@binning_0", "one data output that others read"),
        ("label_flip@psi_0:epsilon=1.2.3", "epsilon of --what-if must be .*, got '1.2.3'"),
        ("label_flip@psi_0:epsilon=0", "epsilon"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(text, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        Change.parse(text).apply(plan(binning_0=task("binning", train_data="psi_0")))


@given(
    st.lists(st.tuples(st.sampled_from(["binning", "sums", "at_predict", "nobodys"]), st.integers(0, 9)), max_size=8)
)
def test_a_flip_behind_psi_never_adds_a_leak_of_labels(steps):
    names, tasks = ["psi_0"], {}
    for number, (kind, back) in enumerate(steps):
        tasks[f"t{number}"] = task(kind, train_data=names[back % len(names)])
        names.append(f"t{number}")
    if not tasks:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracing, "disclosure_of", {each.component: each for each in KNOWN}.get)
        assert not trace(Change("psi_0", 1.0).apply(plan(**tasks))).leaks


def test_a_name_that_is_no_components_name_opens_no_file():
    assert declaration.disclosure_of("../align") is None


def test_statements_about_settings_that_are_not_declared_are_refused(tmp_path, monkeypatch):
    (tmp_path / "odd.yaml").write_text(
        "component: odd\nstages: [train]\nsettings: {}\noutputs: []\nrows: []\nshows:\n- {what: labels, of: [guest], to: [host], "
        "form: clear, learns: every, message: m, computes: c, evidence: [tests/x.py::test_x], when: {gone: [1]}}\n"
    )
    monkeypatch.setattr(declaration, "CATALOGUE", tmp_path)
    with pytest.raises(InvalidArgument, match="when in .*odd.yaml must be settings of .*, got {'gone': \\[1\\]}"):
        declaration.disclosure_of("odd")


def test_of_flips_from_several_sources_the_largest_epsilon_is_told_in_any_order():
    flips = [Labels("flipped", 1.0, "a"), Labels("flipped", 4.0, "b"), Labels("none")]
    assert Labels.worst(flips) == Labels.worst(flips[::-1]) == flips[1]
