"""label_count between parties: what it tells, what it spends before, what it refuses, and the law of its noise."""

import numpy as np
import pytest
from scipy.stats import chisquare

from fate_dp.components.common.federation import own_party
from fate_dp.components.label_count.party import document, noisy_counts
from fate_dp.components.label_count.settings import Settings
from fate_dp.privacy.noise.stream import ReproducibleStream

from .scenarios import GUEST, HOST, SECOND_HOST, Artifact, Scenario, assert_refused, frame_at, play, tables

EVERYBODY = (GUEST, HOST, SECOND_HOST)
VERTICAL = tables(rows=200, hosts=(2, 2))
LABELLED = {party: table.assign(y=[0, 1, 1, 5] * 50) for party, table in VERTICAL.items()}


class Model:
    content = None

    def write(self, content, metadata):
        self.content = content


def count(ctx, earlier, tables, epsilon=2.0, classes=(0, 1, 2), own=None):
    """The component as FATE calls it; ``own`` are parameters of single parties."""
    from fate_dp.components.label_count.component import label_count

    frame, model = frame_at(ctx, tables), Model()
    given = {"epsilon": epsilon, "classes": Settings(1.0, classes).classes, **(own or {}).get(own_party(ctx), {})}
    label_count.execute(ctx, None, input_data=frame and Artifact(frame), output_model=model, **given)
    return model.content


def changed(party, **columns):
    return {**LABELLED, party: LABELLED[party].assign(**columns)}


SYNTHETIC = ["synthetic-10000-4", *LABELLED[HOST]["id"][1:]]
RAN = {"horizontal": LABELLED, "vertical": VERTICAL, "guest alone": {GUEST: LABELLED[GUEST]}}
REFUSED = {
    "no labels": ({"tables": {**LABELLED, GUEST: VERTICAL[HOST]}}, "The guest's table has no label column"),
    "synthetic rows": ({"tables": changed(HOST, id=SYNTHETIC)}, "The table was over-sampled; put label_count before"),
    "repeated id": ({"tables": changed(HOST, id="a")}, "An id occurs more than once"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    arguments = {
        **{name: {"tables": each} for name, each in RAN.items()},
        **{name: each for name, (each, *_) in REFUSED.items()},
    }
    scenarios = {name: Scenario(count, {"tables": LABELLED, **each}, EVERYBODY) for name, each in arguments.items()}
    return play(scenarios, tmp_path_factory.mktemp("homes"), EVERYBODY)


@pytest.mark.parametrize("name", RAN)
def test_all_parties_get_one_document_of_noisy_counts_and_those_with_labels_paid(runs, name):
    (told,) = {repr(outcome.value): outcome.value for outcome in runs[name].values()}.values()
    for party, outcome in runs[name].items():
        table = RAN[name].get(party, VERTICAL[HOST])
        charged = [(each["unit"], each["relation"], each["mechanism"]) for each in outcome.ledger["entries"]]
        assert charged == [("record", "replace_one", "PureDP")] * ("y" in table)
        assert (" ".join(party) in told["counts"]) is ("y" in table)
        if "y" in table:
            true = [(table["y"] == value).sum() for value in (0, 1, 2)]
            assert np.abs(told["counts"][" ".join(party)] - np.array([*true, 200 - sum(true)])).max() < 40
    assert sum(told["prior"]) == pytest.approx(1) and min(told["prior"]) > 0


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_everybodys_before_anything_is_charged_or_counted(runs, name):
    assert_refused(runs[name], *REFUSED[name][1:])
    for outcome in runs[name].values():
        assert not outcome.ledger["entries"] and '"counts"' not in repr(outcome.received).replace("'", '"')


class Blocks(list):
    """Stands for FATE's table of blocks."""

    def mapValues(self, function):
        return Blocks(map(function, self))

    def reduce(self, function):
        first, *others = self
        for each in others:
            first = function(first, each)
        return first


def counted(labels, epsilon=1.0, classes=(0.0, 1.0, 2.0)):
    return noisy_counts(Blocks(np.array_split(labels, 3)), Settings(epsilon, classes), ReproducibleStream(7)).value


def test_a_replaced_label_moves_the_counts_by_two_at_most_whatever_it_is():
    labels, values = np.zeros(9), [0.0, 1.0, 2.0, 7.0, np.nan, np.inf]
    moved = [np.abs(counted(labels) - counted(np.append(labels[1:], value))).sum() for value in values]
    assert moved == [0, 2, 2, 2, 2, 2]


@pytest.mark.statistical
@pytest.mark.parametrize("factor, fits", [(1, True), (2 / 3, False), (3 / 2, False)])
def test_the_noise_of_empty_classes_is_discrete_laplace_of_scale_two_over_epsilon(factor, fits):
    noise = counted(np.full(3, -1.0), classes=tuple(map(float, range(3000))))[:-1]
    decay, most = np.exp(-1 / (2 * factor)), 8
    law = (1 - decay) / (1 + decay) * decay ** np.abs(np.arange(-most, most + 1))
    inside = [(noise == step).sum() for step in range(-most, most + 1)]
    p = chisquare([*inside, len(noise) - sum(inside)], len(noise) * np.array([*law, 1 - law.sum()])).pvalue
    assert (p > 0.001) if fits else (p < 1e-9)


def test_no_share_of_the_prior_is_zero():
    assert document({"guest 9999": {"counts": [-3, 9, 4]}, "host 1": {}})["prior"] == [0.1, 0.9]
