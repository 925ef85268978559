"""Attacks on recorded views, whose labels and noise are known here, and the command that runs them."""

import json
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest

from fate_dp.attacks import recorded_round as rounds
from fate_dp.attacks.label_ciphertexts import encrypted_labels, label_defence, residual_labels
from fate_dp.attacks.of_views import Truth, fitting, read_truth
from fate_dp.attacks.recorded_view import Ciphertexts, Message, RecordedView, Task, to_bytes
from fate_dp.components.common.federation import name_of
from fate_dp.components.common.wire import codec
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import ModelSource, spec_of_job
from fate_dp.components.dp_homo_nn.models.spec import flat_weights
from fate_dp.components.dp_homo_nn.round_terms import calibrated, guarantee_of, round_terms, settled
from fate_dp.components.dp_homo_nn.settings import TrainSettings
from fate_dp.pipelines.cli.main import main
from fate_dp.privacy.mechanisms.randomized_response import keep_probability
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument
from tests.support.simulated_rounds import ArrayRows, Client, Transport

N = (2**127 - 1) * (2**89 - 1)
DIGITS = 13
"""Of base 16, about what a float64 has."""
JOB, GUEST = "202611230000000000010", "guest-9999"
ROWS, EPOCHS, FEATURES = 200, 4, 3
TASK = Task(JOB, "lr_0", "coordinated_lr", "train", "host", "10000")
BINNING = replace(TASK, name="binning_0", component="hetero_feature_binning")


def encrypted(numbers, blinding=1):
    """Numbers as FATE encrypts them without blinding, or multiplied with the n-th power of a blinding number."""
    factor = pow(blinding, N, N * N)
    values = np.empty(len(numbers), dtype=object)
    values[:] = [
        (1 + round(float(number) * 16**DIGITS) % N * N) * factor % (N * N) for number in np.asarray(numbers, float)
    ]
    return Ciphertexts(N, values, np.full(len(numbers), -DIGITS, dtype=np.int32))


def view_of(task, messages, rows=ROWS):
    kept = tuple(Message(GUEST, name, "default", content) for name, content in messages)
    return RecordedView(task, kept, (tuple(f"row {row}" for row in range(rows)),))


def regression(rng, weights_of_first=0.0):
    """Labels, and a view of the residuals 0.25 x w - 0.5 y of several epochs, in float32 as FATE computes them."""
    labels, features = rng.integers(2, size=ROWS), rng.normal(size=(ROWS, FEATURES))
    epochs = [weights_of_first + 0.3 * epoch * rng.normal(size=FEATURES) for epoch in range(EPOCHS)]
    residuals = [np.float32(0.25 * features @ weights - 0.5 * (2 * labels - 1)) for weights in epochs]
    return labels, view_of(TASK, [("half_d", encrypted(each)) for each in residuals])


@pytest.mark.parametrize("numbers", [[0.0, 1.0], [-0.5, 0.5, 12.25], [-1e6]])
def test_the_numbers_in_a_recorded_vector_are_those_that_were_encrypted(numbers):
    view = view_of(BINNING, [("enc_y", encrypted(numbers))], rows=len(numbers))
    np.testing.assert_allclose(encrypted_labels(view).numbers, numbers, rtol=1e-12)
    hidden = view_of(BINNING, [("enc_y", encrypted(numbers, blinding=3))], rows=len(numbers))
    assert np.isnan(encrypted_labels(hidden).numbers).all() and np.isnan(encrypted_labels(hidden).labels).all()


@pytest.mark.parametrize("first", [0.0, 1.0])
def test_residuals_show_every_label_whatever_the_weights_began_with(first):
    labels, view = regression(np.random.default_rng(1), first)
    assert (residual_labels(view).labels == labels).all()


def test_one_epoch_from_zeros_suffices():
    labels, view = regression(np.random.default_rng(2))
    assert (residual_labels(replace(view, messages=view.messages[:1])).labels == labels).all()


def test_encrypted_labels_show_themselves_and_blinded_ones_nothing():
    labels = np.random.default_rng(3).integers(2, size=ROWS)
    assert (encrypted_labels(view_of(BINNING, [("enc_y", encrypted(labels))])).labels == labels).all()
    hidden = view_of(BINNING, [("enc_y", encrypted(labels, blinding=5))])
    (attack,) = fitting(hidden)
    finding = attack.run(hidden, Truth(hidden.tables[0], labels, np.empty((ROWS, 0))))
    assert finding.value == 0.0 and f"0 of {ROWS} rows" in finding.says


def test_labels_are_compared_by_ids_and_beside_the_commoner_one():
    labels, view = regression(np.random.default_rng(4))
    order = np.random.default_rng(0).permutation(ROWS)
    truth = Truth(tuple(view.tables[0][place] for place in order), labels[order], np.empty((ROWS, 0)))
    (attack,) = fitting(view)
    finding = attack.run(view, truth)
    assert finding.value == 1.0 and finding.interval.high == 1.0 and finding.interval.low > 0.97
    assert finding.baseline == max(labels.mean(), 1 - labels.mean()) and finding.bound == 1.0
    assert attack.run(view, None).value is None
    with pytest.raises(InvalidArgument, match="must have all 200 rows of the view, got none of 1"):
        attack.run(view, Truth(truth.ids[1:], truth.labels[1:], truth.features[1:]))


def test_behind_label_flip_the_bound_is_that_of_its_epsilon():
    """The flips are read, all of them; of the labels as many as flips agree with them."""
    rng = np.random.default_rng(5)
    flips, view = regression(rng)
    keep = keep_probability(1.0, 2)
    labels = np.where(rng.random(ROWS) < keep, flips, 1 - flips)
    rows = {"data": {"input_data": {"task_output_artifact": {"producer_task": "reader_0", "output_artifact_key": "x"}}}}
    flipped = {
        "data": {
            "train_data": {"task_output_artifact": {"producer_task": "flip_0", "output_artifact_key": "output_data"}}
        }
    }
    tasks = {
        "reader_0": {"component_ref": "reader", "parameters": {}},
        "flip_0": {"component_ref": "label_flip", "parameters": {"epsilon": 1.0}, "inputs": rows},
        "lr_0": {"component_ref": "coordinated_lr", "parameters": {}, "inputs": flipped},
    }
    parties = [{"role": "guest", "party_id": ["9999"]}, {"role": "host", "party_id": ["10000"]}]
    plan = json.dumps({"tasks": tasks, "parties": parties, "stage": "train"})
    view = replace(view, task=replace(TASK, plan=plan))
    assert (label_defence(view).epsilon, label_defence(view).name) == (1.0, "flips of flip_0 at epsilon 1")
    finding = fitting(view)[0].run(view, Truth(view.tables[0], labels, np.empty((ROWS, 0))))
    assert (
        finding.bound == pytest.approx(keep)
        and finding.epsilon == 1.0
        and "flips of flip_0 at epsilon 1" in finding.says
    )
    assert finding.value == (flips == labels).mean() and finding.interval.low < keep < finding.interval.high


def test_a_view_without_the_ciphertexts_says_what_is_missing():
    with pytest.raises(InvalidArgument, match="no ciphertexts named half_d, so that nothing"):
        residual_labels(view_of(TASK, []))
    left_out = RecordedView(TASK, (Message(GUEST, "half_d", "t", None, "it is too large"),))
    with pytest.raises(InvalidArgument, match="half_d: it is too large"):
        residual_labels(left_out)


RECORDS = 80
SERVER = Task(JOB, "nn_0", "dp_homo_nn", "train", "arbiter", "10001")


@lru_cache
def agreed_terms(noise, aggregation):
    """What two clients agree on: (source of the model, terms, what the guest tells all)."""
    settings = TrainSettings(
        records=RECORDS, batch_size=RECORDS, rounds=1, clip=1.0, noise_multiplier=noise, aggregation=aggregation
    )
    source = ModelSource.of(spec_of_job(settings, FEATURES), settings.loss, {})
    terms = calibrated(settings, round_terms(settings, ["9999", "10000"], len(flat_weights(source.module()))))
    settings, terms = settled(settings, terms)
    agreed = {
        "parameters": settings.to_json(),
        "dimension": terms.dimension,
        "client_records": None,
        "noise_multiplier": noise,
        "epsilon0": None,
        "promise": guarantee_of(settings, terms).to_json(),
    }
    return source, terms, agreed


def training(noise, aggregation="secure_sum", seed=6):
    """A view of the arbiter of a real round of two clients in one process, and the truth of it.

    Features are so short that nothing is clipped.
    """
    rng = np.random.default_rng(seed)
    features = rng.uniform(-0.5, 0.5, (RECORDS, FEATURES)).astype(np.float32)
    labels = (rng.random(RECORDS) < 0.7).astype(np.int64)
    source, terms, agreed = agreed_terms(noise, aggregation)
    module, start = source.module(), flat_weights(source.module())
    halves = [slice(0, RECORDS // 2), slice(RECORDS // 2, None)]
    held = [
        Client(
            ArrayRows(features[half], labels[half], RecordGradients(module)),
            terms,
            position=place,
            rng=ReproducibleStream(2 * seed + place),
        )
        for place, half in enumerate(halves)
    ]
    # The parties' own masks, which only cancel in the sum.
    transport = Transport(terms, encrypted=aggregation == "secure_sum")
    sent = encoded_by(transport, [client.contribution(start, 0) for client in held])
    messages = [
        Message(GUEST, "verdict", "tables", {"problem": None, "terms": agreed}),
        Message(GUEST, "verdict", "terms", {"problem": None, "terms": {}}),
        Message(GUEST, "start_weights", "start", start),
        *(Message(sender, "message", "iterations.0", data) for sender, data in zip((GUEST, "host-10000"), sent)),
        Message(GUEST, "message", "iterations.1", b"of the next round"),
    ]
    ids = tuple(map(str, range(RECORDS)))
    return RecordedView(SERVER, tuple(messages)), Truth(ids, labels, features.astype(np.float64))


def encoded_by(transport, contributions):
    """What each client sends, under the masks that it has agreed on with the other."""
    clients = transport.federation.data
    present = frozenset(map(name_of, clients))
    return [
        transport.parties[client][0].encode(contribution, present)
        for client, contribution in zip(clients, contributions)
    ]


@pytest.mark.parametrize("aggregation", ["secure_sum", "local"])
def test_a_round_with_hardly_any_noise_shows_the_mean_gradient_the_count_and_every_label(aggregation):
    view, truth = training(1e-3, aggregation)
    found = rounds.recorded_round(view)
    rows = found.gradients.rows(found.start, truth.features.astype(np.float32), truth.labels)
    # Noise and the grid of the clip, of which a coordinate may be off by five deviations.
    assert np.abs(found.received - rows.mean(axis=0)).max() < 5 * found.deviation + 1e-6
    count = rounds.ones_in_round(found)
    assert count.ones == truth.labels.sum() and count.low <= count.ones <= count.high
    informed = rounds.informed_labels(found, truth.features, truth.labels)
    assert (informed.labels == truth.labels).all() and informed.expected_share > 0.999999
    assert found.bound == pytest.approx(1.0)


@pytest.fixture(scope="module")
def noisy_rounds():
    """Rounds of other records each, with noise as wide as the clip."""
    recorded = [training(1.0, seed=seed) for seed in range(40)]
    return [(rounds.recorded_round(view), truth) for view, truth in recorded]


def test_the_informed_server_is_right_as_often_as_the_law_of_the_noise_says_and_no_more_than_epsilon_allows(
    noisy_rounds,
):
    informed = [rounds.informed_labels(found, truth.features, truth.labels) for found, truth in noisy_rounds]
    shares = [(each.labels == truth.labels).mean() for each, (_, truth) in zip(informed, noisy_rounds)]
    expected = np.mean([each.expected_share for each in informed])
    # The labels of one round share one draw of noise, so that a round is one trial.
    error = np.std(shares) / np.sqrt(len(shares))
    assert abs(np.mean(shares) - expected) < 5 * error < 0.2
    assert 0.6 < expected < noisy_rounds[0][0].bound


def test_the_deviation_of_the_noise_is_that_of_the_received_sum(noisy_rounds):
    """Two thirds and three halves of it do not pass."""
    ratios = []
    for found, truth in noisy_rounds:
        rows = found.gradients.rows(found.start, truth.features.astype(np.float32), truth.labels)
        ratios.append((found.received - rows.mean(axis=0)) / found.deviation)
    spread = np.std(ratios)
    fits = [0.75 < spread * factor < 1.3 for factor in (1, 2 / 3, 3 / 2)]
    assert fits == [True, False, False]


def test_a_single_masked_message_is_not_a_sum():
    view, _ = training(1e-3)
    alone = replace(view, messages=tuple(each for each in view.messages if each.sender == GUEST))
    with pytest.raises((InvalidArgument, ValueError)):
        rounds.recorded_round(alone)


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"privacy": "client"}, "privacy client and 1 local steps"),
        ({"model": {"name": "cnn"}}, r"model must be logistic_regression or mlp, whose rounds are read, got 'cnn'\."),
        ({"batch_size": RECORDS / 2}, "draw some 40 of 80 records by coins"),
    ],
)
def test_a_round_that_is_not_read_says_so(change, sentence):
    view, _ = training(1.0)
    agreed = view.messages[0].content["terms"]
    parameters = {**agreed["parameters"], **change}
    changed = Message(GUEST, "verdict", "tables", {"problem": None, "terms": {**agreed, "parameters": parameters}})
    with pytest.raises(InvalidArgument, match=sentence):
        rounds.recorded_round(replace(view, messages=(changed, *view.messages[1:])))


def test_a_round_of_an_earlier_release_is_read():
    view, _ = training(1.0)
    agreed = view.messages[0].content["terms"]
    parameters = {**agreed["parameters"], "adaptive": {**agreed["parameters"]["adaptive"], "f": 0.15, "p": 0.85}}
    earlier = Message(GUEST, "verdict", "tables", {"problem": None, "terms": {**agreed, "parameters": parameters}})
    assert rounds.recorded_round(replace(view, messages=(earlier, *view.messages[1:]))).terms.rounds


def test_a_round_without_a_party_that_was_ready_is_not_read():
    view, _ = training(1.0)
    ready = tuple(Message(f"host-{party}", "ready", "iterations.0", True) for party in range(3))
    with pytest.raises(InvalidArgument, match="2 of 3 parties"):
        rounds.recorded_round(replace(view, messages=(*view.messages, *ready)))


def test_the_bound_is_that_of_replace_one_or_of_one_record_out_and_another_in():
    view, _ = training(1.0)
    agreed, law = view.messages[0].content["terms"], np.exp(1) / (1 + np.exp(1))

    def bound(**epsilons):
        promise = {**agreed["promise"], "epsilon": epsilons, "delta": 1e-9}
        told = {"problem": None, "terms": {**agreed, "promise": promise}}
        messages = (Message(GUEST, "verdict", "tables", told), *view.messages[1:])
        return rounds.recorded_round(replace(view, messages=messages)).bound

    assert bound(add_or_remove=3.0, replace_one=1.0) == pytest.approx(law, abs=1e-6)
    assert bound(add_or_remove=0.5) == pytest.approx(law, abs=1e-6)
    assert bound(add_or_remove="infinity", replace_one="infinity") == bound(add_or_remove="infinity") == 1.0


@pytest.fixture
def home(tmp_path):
    """An embedded server's home with a host whose recorder is on, and a view of it."""
    parties = tmp_path / "home" / "parties"
    folder = parties / "party-10000" / "views" / JOB
    folder.mkdir(parents=True)
    labels, view = regression(np.random.default_rng(7))
    (folder / "lr_0.host.view").write_bytes(to_bytes(view))
    pd.DataFrame({"id": view.tables[0], "y": labels}).to_csv(tmp_path / "truth.csv", index=False)
    return tmp_path / "home"


def run(home, *arguments):
    return main(["attack", *map(str, arguments), "--home", str(home)])


def test_the_command_lists_views_and_scores_what_it_reads(home, capsys, tmp_path):
    assert run(home) == 0 and JOB in capsys.readouterr().out
    assert run(home, JOB) == 0
    assert f"labels of {ROWS} of {ROWS} rows" in capsys.readouterr().out
    truth = ("--truth", tmp_path / "truth.csv", "--label", "y")
    assert run(home, JOB, *truth) == 0 and "1.000" in capsys.readouterr().out
    assert run(home, JOB, *truth, "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["findings"][0]["value"] == 1.0 and found["findings"][0]["epsilon"] == "infinity"
    view = home / "parties" / "party-10000" / "views" / JOB / "lr_0.host.view"
    assert run(home, view, "--attack", "residuals") == 0


def test_the_page_has_a_picture_of_what_each_attack_decided_by(home, capsys, tmp_path):
    truth, page = ("--truth", tmp_path / "truth.csv", "--label", "y"), tmp_path / "page.html"
    assert run(home, JOB, *truth, "--html", page) == 0 and f"Wrote {page}" in capsys.readouterr().out
    text = page.read_text()
    assert text.count("<svg") == 1 and "true label 1" in text and "residuals, lr_0" in text
    assert run(home, JOB, "--html", tmp_path / "no" / "page.html") == 1
    assert "could not be written" in capsys.readouterr().err


def other_component(home):
    view = RecordedView(replace(TASK, component="psi"))
    (home / "parties" / "party-10000" / "views" / JOB / "lr_0.host.view").write_bytes(to_bytes(view))
    return [JOB], "is one of psi at the host, which is not read"


def off(home):
    return ["202611239999999999990"], "the recorder is off"


def on_but_none(home):
    (home / "parties" / "party-10000" / "policy.yaml").write_text("record_views: true\n")
    return ["202611239999999999990"], "the recorder of party 10000 is on, but kept none"


def another_truth(home):
    (home.parent / "other.csv").write_text("id,y\nrow 1,0\n")
    return [JOB, "--truth", home.parent / "other.csv", "--label", "y"], "lacks 199 of the 200 rows"


def other_version(home):
    path = home / "parties" / "party-10000" / "views" / JOB / "lr_0.host.view"
    path.write_bytes(codec.encode(("fate-dp view", 2)) + b"N")
    return [path], "version 2 but this program reads version 1"


def no_file(home):
    return [home / "nowhere.view"], "cannot be read: No such file"


def other_attack(home):
    return [JOB, "--attack", "ones"], "ones reads those of dp_homo_nn at the arbiter"


def unknown_attack(home):
    return [JOB, "--attack", "magic"], "attack must be one of encrypted_labels"


def no_label(home):
    return [JOB, "--truth", home.parent / "truth.csv"], "--truth needs --label"


def no_such_column(home):
    return [JOB, "--truth", home.parent / "truth.csv", "--label", "z"], "has no column 'z'"


CASES = (
    other_component,
    off,
    on_but_none,
    other_version,
    no_file,
    other_attack,
    unknown_attack,
    no_label,
    no_such_column,
)


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_attacked_is_said_in_one_sentence(home, capsys, case):
    arguments, sentence = case(home)
    assert run(home, *arguments) == 1
    told = capsys.readouterr().err
    assert sentence in told and told.count("\n") == 1 and "Traceback" not in told


def test_a_truth_with_other_labels_is_refused(tmp_path):
    (tmp_path / "truth.csv").write_text("id,y,x\n1,0,2.5\n2,3,1\n")
    with pytest.raises(InvalidArgument, match="labels other than 0 and 1"):
        read_truth(tmp_path / "truth.csv", "id", "y")
    (tmp_path / "truth.csv").write_text("id,y,x\n01,0,2.5\n2,1,1\n")
    truth = read_truth(tmp_path / "truth.csv", "id", "y")
    assert truth.ids == ("01", "2") and truth.features.tolist() == [[2.5], [1.0]]
