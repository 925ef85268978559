"""What the benchmark of attacks on trained models makes of its trainings, on tiny ones and made-up ones."""

import dataclasses

import numpy as np
import pytest

from bench import attacks_generative as generative
from bench import attacks_membership as membership
from bench.attacks_bounds import beyond_bounds, bounded, section_of_bounds
from bench.attacks_labels import flips, share_line
from bench.attacks_models import NOTE, PICTURED, printed, section_of_members
from bench.attacks_page import section, write_page
from bench.attacks_trainings import Setting, client_rows, delta_profile, plain_mean, train
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, flat_weights
from fate_dp.components.protocols.noisy_rounds.account import epsilon_of

SETTING = Setting(records=40, clients=4, rounds=6, clip=1.0, rate=0.05)


def held(seed=0):
    generator = np.random.default_rng(seed)
    features = generator.standard_normal((40, 6)).astype(np.float32)
    labels = (features[:, 0] > 0) + (features[:, 1] > 0).astype(np.int64)
    return [(features[part], labels[part]) for part in np.array_split(np.arange(40), SETTING.clients)]


def module():
    return build_model(ModelSpec("mlp", 6, 3, {"hidden": [5]}))


def test_a_plain_mean_is_that_of_the_records_gradients():
    net, parts = module(), held()
    features, labels = (np.concatenate(each) for each in zip(*parts))
    weights = flat_weights(net)
    expected = RecordGradients(net).rows(weights, features, labels).mean(axis=0)
    assert np.allclose(plain_mean(client_rows(net, parts), weights, 40), expected, atol=2e-5)


def test_trainings_with_and_without_privacy_end_at_other_weights_and_show_every_round():
    net, seen = module(), []
    terms = SETTING.terms(net, 8.0)
    assert epsilon_of(terms, 1e-5, "add_or_remove") <= 8.0
    assert delta_profile(terms)(8.0) <= 1e-5
    for given in (None, terms):
        weights = train(net, client_rows(net, held()), SETTING, given, lambda number, weights: seen.append(number))
        assert np.isfinite(weights).all() and not np.allclose(weights, flat_weights(net))
    assert seen == 2 * list(range(SETTING.rounds))


def population(models=9, candidates=400, shift=2.0):
    generator = np.random.default_rng(0)
    members = generator.random((models, candidates)) < 0.5
    confidences = generator.standard_normal(members.shape) + shift * members
    public = generator.standard_normal((models, 50))
    return membership.Population(members, confidences, public, np.tile([0.6, 0.8, 0.79], (models, 1)))


@pytest.fixture
def lines(monkeypatch):
    """Of made-up populations: one that memorised, and one that did not."""
    features = np.random.default_rng(0).random((450, 3)).astype(np.float32)
    monkeypatch.setattr(membership, "records_of", lambda *where: (features, np.arange(450) % 3))
    scene = dataclasses.replace(membership.FASHION, candidates=400, public=50)
    monkeypatch.setattr(membership, "FASHION", scene)
    terms = SETTING.terms(module(), 8.0)
    said = []
    found = membership.lines_of(scene, None, population(), None, 0.0, said.append)
    found += membership.lines_of(scene, None, population(shift=0.0), terms, 8.0, said.append)
    assert len(said) == len(found) == 12
    return found


def test_figures_are_those_of_the_online_attack(lines):
    figures = {figure.name: figure.value for figure in membership.summarised(lines)}
    assert figures["lira_tpr_no_privacy"] > 0.1 and figures["lira_tpr_eps_8"] < 0.03
    assert len(figures) == 2 and membership.summarised([]) == []
    first = lines[0]
    assert first.results[0].reaches_yardstick and first.results[0].yardstick is membership.CONTROL
    assert first.loses == pytest.approx(0.01) and first.allowed == (1.0, 1.0)
    # One non-member in a thousand is none of 200.
    assert len(first.results) == 1


def test_what_epsilon_allows_stands_beside_what_was_found(lines):
    private = lines[-1]
    assert membership.beyond_epsilon(lines).value == 0
    caught = dataclasses.replace(lines[0], tight=(0.02, 0.02))
    assert membership.beyond_epsilon([caught, *lines[1:]]).value == 1
    assert 0.01 < private.tight[0] < private.allowed[0] < 1.0
    cells = dict(zip(membership.HEADINGS, membership.row(private), strict=True))
    assert cells["defence"] == "epsilon 8" and cells["found at 0.1 %"] == ""


def test_every_candidate_is_with_one_party_and_only_members_count():
    features = np.arange(590 * 2, dtype=np.float32).reshape(590, 2)
    members = np.random.default_rng(0).random(580) < 0.5
    parts = membership.held_records(membership.THESIS, features, np.arange(590), members)
    assert len(parts) == 30
    assert np.concatenate([labels for _, labels in parts[:-1]]).tolist() == np.flatnonzero(members).tolist()
    assert parts[-1][1].tolist() == list(range(580, 590))


def test_the_page_shows_sections_of_members_and_of_pictures(lines, monkeypatch, tmp_path):
    generator = np.random.default_rng(0)
    pictures, labels = generator.random((40, 784)).astype(np.float32), np.arange(40) % 10
    monkeypatch.setattr(generative, "records_of", lambda *where: (pictures, labels))
    monkeypatch.setattr(generative, "JUDGED", 20)
    monkeypatch.setattr(generative, "recognised", lambda network, pictures, digit: 0.25)
    generative.judge.cache_clear()
    plan = generative.Plan((0, 3), (8.0,))
    found = [generative.Attacked(pictures[:5], pictures[5], 0.7, 1.0)] * 2
    made = generative.lines_of(None, plan, "no defence", "Nothing.", found)
    made += generative.lines_of(None, plan, "epsilon 8", "Noise.", found)
    generative.judge.cache_clear()
    names = [figure.name for figure in generative.summarised(made)]
    assert names == ["gan_no_privacy", "gan_eps_8"] and made[0].result.value == 0.25
    assert not made[0].result.reaches_yardstick
    sections = [section_of_members("Members", lines), section(PICTURED, made, NOTE)]
    assert printed(sections[0]).row_count == 12
    write_page(tmp_path / "index.html", {}, membership.summarised(lines), True, sections)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "which reaches a control" in page and "which does not reach a control" in page
    assert page.count("data:image/png;base64,") == 4 and NOTE[:40] in page and "median PSNR" not in page


def test_every_share_stands_beside_its_bound_and_one_that_beats_it_is_counted(lines):
    right = np.arange(10_000) < 7_310
    label = share_line(("signs", "coins"), flips(1.0), right, 0.5, None, seconds=1.0, bound=0.731)
    open_ones = share_line(("signs", "coins"), flips(1.0), right, 0.5, None, seconds=1.0, bound=1.0)
    found = bounded([label, open_ones], {"Members": lines})
    assert [each.figure for each in found] == ["labels, coins", *["Members at 1.0% false positives"] * 6]
    assert beyond_bounds(found).value == 0 and found[0].least < found[0].found <= found[0].allowed
    assert len(section_of_bounds(found).table.rows) == 7
    better = share_line(("magic", "coins"), flips(1.0), np.arange(10_000) < 7_600, 0.5, None, seconds=1.0, bound=0.731)
    assert beyond_bounds(bounded([label, better], {})).value == 1
