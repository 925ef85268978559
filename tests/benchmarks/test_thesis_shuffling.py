"""Figures 5.5 to 5.7 of the thesis: every point has the terms that its method says, and is told beside what the thesis prints."""

import io
import math

import numpy as np
import pytest
from rich.console import Console

from bench.homo_nn_training import path_of
from bench.thesis import shuffling as thesis_shuffling
from bench.thesis.shuffling import NO_NOISE, POINTS, PURE, SPARSE, UPDATES, terms_of, train_all
from bench.thesis.shuffling_report import THESIS, Point, figure_name, table_of, write_page
from fate_dp.components.protocols.noisy_rounds.account import epsilon_of


def all_points():
    return [point for make in POINTS.values() for point in make()]


def test_every_data_set_has_every_method_and_points_have_names_of_their_own():
    for name, make in POINTS.items():
        points = make()
        assert {point.data for point in points} == set(THESIS)
        assert len({figure_name(name, point) for point in points}) == len(points) == len(set(points))


def test_the_thesis_clients_are_among_those_that_are_trained():
    points = POINTS["clients"]()
    for data, printed in THESIS.items():
        epsilon, clients = printed.by_clients
        found = [point for point in points if (point.data, point.epsilon, point.clients) == (data, epsilon, clients)]
        assert {point.method for point in found} == {"shuffle", "secure_sum", NO_NOISE}
        assert {point.part for point in found} == {clients / 500}


@pytest.mark.parametrize("method", ["secure_sum", "shuffle", "local", SPARSE, UPDATES])
def test_noise_is_calibrated_to_the_epsilon_of_the_point(method):
    terms = terms_of(Point("mnist", method, 4.0, 100, 20), 60_000, 40)
    assert 0.9 * 4 < epsilon_of(terms, terms.delta, "replace_one") <= 4
    assert terms.unit == ("client" if method == UPDATES else "record")
    assert terms.upload_fraction == (0.1 if method == SPARSE else 1)


def test_a_pure_answer_has_the_epsilon_itself_and_no_noise_has_none_to_speak_of():
    assert terms_of(Point("mnist", PURE, 4.0, 100, 20), 60_000, 40).epsilon0 == 4.0
    assert terms_of(Point("mnist", NO_NOISE, 4.0, 100), 60_000, 40).noise_multiplier == 1e-6


def test_clients_bring_their_part_of_the_records():
    terms = terms_of(Point("cifar10", NO_NOISE, 10.0, 50, 20, part=0.1), 50_000, 40)
    assert terms.records == 5_000 and terms.sampling_probability == 0.25


class AtOnce:
    """Jobs in this process."""

    def run(self, jobs):
        return [job.function(*job.arguments) for job in jobs]


def test_points_are_trained_on_the_part_that_their_clients_bring(tmp_path):
    generator = np.random.default_rng(3)
    folder = tmp_path / "mnist_few"
    folder.mkdir()
    for part, count in (("train", 600), ("test", 300)):
        labels = generator.integers(0, 10, count)
        features = np.eye(10, dtype=np.float32)[labels] * 10
        np.save(path_of(folder, part, "features"), features)
        np.save(path_of(folder, part, "labels"), labels)
    points = [Point("mnist", NO_NOISE, 1.0, 10, 10, part=1 / 6), Point("mnist", "secure_sum", 1e-3, 10, 10, part=1 / 6)]
    found = train_all(AtOnce(), tmp_path, points, 1)
    assert found[points[0]] > 0.9 > 0.6 > found[points[1]]


@pytest.mark.parametrize("name", POINTS)
def test_tables_and_pages_hold_every_value_and_the_printed_ones(name, tmp_path):
    found = {point: 0.1 + place / 1000 for place, point in enumerate(POINTS[name]())}
    text = io.StringIO()
    Console(file=text, width=300).print(table_of(name, found))
    page = tmp_path / "out" / "page.html"
    write_page(page, name, found)
    for shown in (text.getvalue(), page.read_text(encoding="utf-8")):
        assert all(f"{value:.4f}" in shown for value in found.values())
        assert name != "methods" or all(f"{printed.accuracy:.4f}" in shown for printed in THESIS.values())
    assert "<img" in page.read_text(encoding="utf-8")


def test_every_point_has_terms_that_hold(monkeypatch):
    monkeypatch.setattr(thesis_shuffling, "calibrate_terms", lambda terms, *_: terms)
    for point in all_points():
        terms = terms_of(point, 60_000, 40)
        assert terms.clients == point.clients and math.isfinite(terms.batch_size)
