"""The benchmark of horizontal training, on a few small pictures: no real data, no figure."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest

from bench import homo_nn, homo_nn_features, homo_nn_sweeps
from bench.homo_nn_features import FewCoordinates, InputsOf, write_parts
from bench.homo_nn_pictures import TEST, TRAIN
from bench.homo_nn_report import write_report
from bench.homo_nn_training import parties, path_of, round_seconds, shape_of, stored, train
from bench.homo_nn_workers import Job, Workers
from fate_dp.components.dp_homo_nn.models.made_up_pictures import synthetic_pictures
from fate_dp.components.dp_homo_nn.models.whitening import NORM
from fate_dp.components.protocols.noisy_rounds.account import epsilon_of

SETTING = homo_nn.Setting("mnist", 4, 4.0, 3, 0.5, 1.0, 3.0, 0.9, (0.9624, 4))


@pytest.fixture(scope="module")
def grey_inputs():
    return InputsOf(replace(homo_nn_features.MODELS["mnist"], params={"whitened": True, "pictures": 64}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Features of two kinds of records, which a linear model tells apart."""
    folder, generator = tmp_path_factory.mktemp("features"), np.random.default_rng(0)
    for part, count in ((TRAIN, 4000), (TEST, 500)):
        labels = generator.integers(0, 2, count)
        features = generator.normal(size=(count, 6)).astype(np.float32)
        features[:, 0] += 8 * labels - 4
        np.save(path_of(folder, part, "features"), features)
        np.save(path_of(folder, part, "labels"), labels)
    return folder


@pytest.fixture(scope="module")
def terms(folder):
    return homo_nn.terms_of(SETTING, *shape_of(folder))


@pytest.mark.parametrize("channels, side", [(1, 28), (3, 32)])
def test_synthetic_pictures_are_the_same_for_a_seed_and_lie_between_0_and_1(channels, side):
    pictures = synthetic_pictures(6, channels, side, seed=3)
    assert pictures.shape == (6, channels, side, side) and pictures.dtype == np.float32
    assert pictures.min() >= 0 and pictures.max() <= 1 and pictures.std() > 0.05
    assert np.array_equal(pictures, synthetic_pictures(6, channels, side, seed=3))
    assert not np.array_equal(pictures, synthetic_pictures(6, channels, side, seed=4))


class InOrder:
    """Runs jobs at once."""

    def run(self, jobs):
        return [job.function(*job.arguments, tick=lambda number: None) for job in jobs]


def test_features_are_written_block_by_block(tmp_path, grey_inputs, monkeypatch):
    monkeypatch.setattr(homo_nn_features, "PICTURES_AT_ONCE", 3)
    pictures = (255 * synthetic_pictures(7, 1, 28, seed=9)).astype(np.uint8)
    parts = {"train": (pictures, np.arange(7)), "test": (pictures[:2], np.arange(2))}
    write_parts(InOrder(), "features", parts, grey_inputs, tmp_path / "mnist")
    features, labels = stored(tmp_path / "mnist", "train")
    assert features == pytest.approx(grey_inputs(pictures / 255), abs=1e-4)
    assert np.array_equal(labels, np.arange(7)) and stored(tmp_path / "mnist", "test")[0].shape == (2, 3969)
    assert [path.name for path in tmp_path.iterdir()] == ["mnist"]


def test_few_coordinates_have_one_norm():
    features = FewCoordinates(7, made_up=20)(synthetic_pictures(3, 1, 28, seed=9))
    assert features.shape == (3, 7) and np.linalg.norm(features, axis=1) == pytest.approx(np.full(3, NORM), rel=1e-5)


def doubled(number, tick):
    return 2 * number


def test_workers_return_results_in_order_and_an_error_ends_all(terms):
    from rich.console import Console

    with Workers(1, Console(file=io.StringIO())) as workers:
        assert workers.run([Job("doubled", 4, doubled, (number,)) for number in (4, 3)]) == [8, 6]
        assert set(workers.seconds) == {"doubled"} and 0 <= workers.seconds["doubled"] < 10
        with pytest.raises(FileNotFoundError):
            workers.run([Job("training", 1, train, ("nowhere", terms, 1.0, 0))])


def test_training_meets_its_epsilon_and_learns(folder, terms):
    assert terms.aggregation == "secure_sum" and terms.unit == "record" and terms.sampling_probability == 0.5
    assert 3.99 < epsilon_of(terms, homo_nn.DELTA, "add_or_remove") <= 4
    assert train(folder, terms, SETTING.learning_rate, seed=1) > 0.95


def test_clients_hold_every_record_once_and_other_seeds_divide_otherwise(folder, terms):
    features, labels = stored(folder, TRAIN)
    first, second = (parties(folder, terms, 1.0, seed)[1] for seed in (0, 1))
    held = np.concatenate([client.rows.features[np.arange(1000)] for client in first])
    assert np.array_equal(np.sort(held[:, 1]), np.sort(features[:, 1]))
    assert np.array_equal(features[first[2].rows.features._places], first[2].rows.features[np.arange(1000)])
    assert np.array_equal(labels[first[2].rows.features._places], first[2].rows.labels)
    assert not np.array_equal(first[0].rows.labels, second[0].rows.labels)
    assert all(client.private for client in first)


def test_the_table_names_accountant_and_both_relations_and_figures_are_means(terms):
    from rich.console import Console

    results = {SETTING.figure: (SETTING, terms, [0.5, 0.75, 1.0])}
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(homo_nn.accuracy_table(results))
    text = console.export_text()
    assert "PLD" in text and "add-or-remove" in text and f"4 / {epsilon_of(terms, 1e-5, 'replace_one'):.2f}" in text
    assert "0.7500 misses 0.900" in text
    assert json.dumps(homo_nn.figures(results)) == '{"mnist_eps_4": 0.75}'


def test_the_figures_of_the_issue_are_all_there():
    names = {setting.figure for setting in homo_nn.SETTINGS}
    assert names == {"mnist_eps_1", "mnist_eps_4", "fashion_eps_1", "fashion_eps_4", "cifar10_eps_4"}
    assert homo_nn.MASKED in names
    clients = {setting.data: setting.clients for setting in homo_nn.SETTINGS}
    assert clients == {"mnist": 100, "fashion": 200, "cifar10": 500}


def test_sweeps_follow_their_rule_and_the_report_holds_every_point(tmp_path, folder):
    points = [
        homo_nn_sweeps.points_of(trust, clients=4, rounds=2, sampling=0.5) for trust in homo_nn_sweeps.AGGREGATIONS
    ]
    terms = {point: homo_nn_sweeps.terms_of(point, *shape_of(folder)) for point in points}
    rates = {of_point.aggregation: homo_nn_sweeps.learning_rate(of_point) for of_point in terms.values()}
    assert rates["shuffle"] < rates["local"] <= rates["secure_sum"] <= homo_nn_sweeps.MAX_RATE
    outcomes = {point: (terms[point], train(folder, terms[point], 0.1, seed=0)) for point in points}
    errors = {10: {"local": 2.0, "shuffle": float("inf"), "secure_sum": 1.0}, 100: dict.fromkeys(rates, 0.5)}
    report = tmp_path / "new" / "report.html"
    write_report(report, dict.fromkeys(homo_nn_sweeps.SWEEPS, points), outcomes, [(1, errors, 40), (10, errors, None)])
    text = report.read_text(encoding="utf-8")
    assert text.count("<img") == 5 and "none up to 100" in text and "replace-one" in text
    for point in points:
        assert f"<td>{point.aggregation}</td>" in text and f"<td>{outcomes[point][1]:.4f}</td>" in text


def test_a_round_is_measured_with_and_without_masks(folder, terms):
    seconds = round_seconds(folder, terms, SETTING.learning_rate)
    assert set(seconds) == {"clients", "keys", "plain", "masked"} and min(seconds.values()) > 0
