"""The credit study: one of few generated loans with a stand-in for FATE-Flow, verdicts on given figures, refusals."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
from json_schema import violations

from fate_dp.data_prep.lending_club.columns import FEATURES, ID
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import Division
from fate_dp.data_prep.lending_club.synthetic import write_synthetic
from fate_dp.pipelines.jobs.job import JobFailed, NoOutput
from fate_dp.pipelines.jobs.ready import HomoLRSettings
from fate_dp.pipelines.lending_club import balancing
from fate_dp.pipelines.lending_club import result as credit_verdicts
from fate_dp.pipelines.lending_club import study as credit_study
from fate_dp.pipelines.lending_club.balancing import TITLES, Balanced, described, measure_method, study_balancing
from fate_dp.pipelines.lending_club.flow import FederatedRun, flow_entry, scores_in_order
from fate_dp.pipelines.lending_club.models import (
    CENTRAL,
    CENTRAL_SCIKIT,
    CENTRAL_WEIGHTED,
    FEDERATED,
    MEASURES,
    interval,
    numbers,
    pooled_rows,
    spread_by_order,
    train,
)
from fate_dp.pipelines.lending_club.result import PREPARATION, describe_models, made_folder, write_credit_study
from fate_dp.pipelines.lending_club.study import Study, Workplace, run_credit_study
from fate_dp.privacy.private_files import atomic_write
from fate_dp.privacy.validation import InvalidArgument

ALONE = ("alone_guest_9999", "alone_host_10000", "alone_host_9998")
MODELS = (CENTRAL_SCIKIT, CENTRAL_WEIGHTED, CENTRAL, *ALONE, FEDERATED)
SEEDS = (7, 8)
# Fewer than the study's own, which take most of its time.
SHARES = ((0.05, 0.95), (0.2, 0.8), (0.5, 0.5))


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("loans") / "loans.csv"
    write_synthetic(path, 4000)
    return path


def fake_run(bias=0.0):
    """A stand-in for FATE-Flow that answers with the simulation's own model, its bias shifted."""

    def run_split(flow, clean, division, options, settings):
        fake_run.places.append(flow)
        models = credit_study.fit_models(division, options, settings)
        trained = models.trained[FEDERATED]
        scores = replace(trained, bias=trained.bias + bias).scores(numbers(division.test)[0])
        table = division.test[[ID]].assign(label=models.labels, score=scores).sort_values(ID, ignore_index=True)
        weights = {"bias": trained.bias + bias, **dict(zip(FEATURES, trained.weights))}
        return FederatedRun("job", 1.5, {}, weights, trained.losses, table, {"auc": 0.7, "ks": 0.3}, None)

    fake_run.places = []
    return run_split


@pytest.fixture(scope="module")
def outcome(csv, tmp_path_factory):
    """A study of two seeds, and what it reported and asked for on its way."""
    folder, news = tmp_path_factory.mktemp("out"), []
    place = Workplace(folder, lambda: ("address", "home"), lambda *one: news.append(one))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(credit_study, "run_split", fake_run(bias=1.0))
        patch.setattr(
            credit_study, "job_page", lambda place, job_id, guest, folder: f"{folder.name}, {job_id} of {guest}"
        )
        patch.setattr(balancing, "SHARES", SHARES)
        result = run_credit_study(Study(csv, True, seeds=SEEDS, flow_seeds=SEEDS[:1]), place)
    return result, news, fake_run.places


def test_the_result_follows_its_schema(outcome):
    schema = json.loads(Path(credit_study.__file__).with_name("credit_result_schema.json").read_text(encoding="utf-8"))
    assert list(violations(json.loads(json.dumps(outcome[0])), schema)) == []


def test_every_model_is_measured_on_every_seed(outcome):
    result = outcome[0]
    assert tuple(model["name"] for model in result["models"]) == MODELS
    for model in result["models"]:
        assert tuple(model["measures"]) == MEASURES
        assert all(len(found["values"]) == len(SEEDS) for found in model["measures"].values())
    assert len({json.dumps(model["measures"]) for model in result["models"]}) == len(MODELS)


def test_a_seed_on_fate_flow_has_the_scores_of_fate_flow(outcome):
    result, _, places = outcome
    (run,) = result["flow"]
    federated = result["models"][-1]["measures"]
    assert federated["specificity"]["values"][0] == run["measures"]["specificity"]
    # The stand-in's bias is higher by one, which calls more loans Fully Paid and keeps their order.
    assert run["measures"]["specificity"] < result["models"][2]["measures"]["specificity"]["values"][0] - 0.1
    assert run["agreement"]["largest_weight_difference"] == pytest.approx(1.0)
    assert 0.1 < run["agreement"]["largest_score_difference"] < 0.25
    assert (run["seed"], run["job_id"], run["evaluation"]) == (SEEDS[0], "job", {"auc": 0.7, "ks": 0.3})
    assert [(place.address, place.home) for place in places] == [("address", "home")]
    assert run["page"].endswith(", job of 9999") and run["page"].startswith("out")


def test_the_result_tells_the_data_as_it_was(outcome):
    data = outcome[0]["data"]
    assert data["synthetic"] is True and data["features"] == 37 and data["source"] == "loans.csv"
    assert data["rows"] == data["train_rows"] + data["test_rows"] == data["steps"][-1]["rows"]
    before, after = data["balance"]["train_before"], data["balance"]["train_after"]
    assert sum(before.values()) == data["train_rows"] and before["Charged Off"] < before["Fully Paid"]
    assert after["Charged Off"] == after["Fully Paid"] == before["Fully Paid"]
    for label, rows in before.items():
        assert sum(party["before"][label] for party in data["parties"]) == rows
    assert [round(party["share"], 2) for party in data["parties"]] == [0.25, 0.25, 0.5]
    # Test rows keep the natural balance.
    natural = before["Charged Off"] / data["train_rows"]
    assert data["balance"]["test"]["Charged Off"] / data["test_rows"] == pytest.approx(natural, abs=0.01)


def test_the_losses_and_the_stop_that_fate_has_not(outcome):
    result = outcome[0]
    losses = {curve["name"]: curve["losses"] for curve in result["loss"]}
    assert set(losses) == {"central", "federated, simulated", "federated, FATE-Flow, seed 7"}
    assert all(len(curve) == 20 and curve[0] == pytest.approx(numpy.log(2), abs=1e-6) for curve in losses.values())
    stop = result["early_stop"]
    assert stop["epochs_run"] == 20 and stop["rule"] == "diff"
    assert stop["epoch"] == HomoLRSettings().stop_epoch(losses["federated, simulated"])


def test_evenness_goes_from_uneven_to_even_and_shows_both_alone(outcome):
    lines = outcome[0]["evenness"]
    assert [line["shares"][0] for line in lines] == [0.05, 0.2, 0.5]
    assert [small for small, _ in balancing.SHARES] == [0.05, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert all(sum(shares) == 1 for shares in balancing.SHARES)
    for line in lines:
        assert len(line["alone"]) == 2
        assert all(len(found["auc"]["values"]) == len(SEEDS) for found in (line["federated"], *line["alone"]))
    # 95 % of the rows teach nearly what all of them do, 5 % do not.
    most_uneven = lines[0]
    together, *alone = (found["auc"]["values"] for found in (most_uneven["federated"], *most_uneven["alone"]))
    small, large = (abs(numpy.subtract(together, values)).max() for values in alone)
    assert large < small


def test_ways_to_balance_are_compared_on_the_same_splits(outcome):
    result = outcome[0]
    lines = {line["method"]: line for line in result["balancing"]}
    assert tuple(lines) == tuple(TITLES)
    measures = {model["name"]: model["measures"] for model in result["models"]}
    own, weights, plain = lines["smotenc"], lines["class_weights"], lines["none"]
    for measure in balancing.BALANCING_SHOWN:
        assert own["central_scikit"][measure] == measures[CENTRAL_SCIKIT][measure]
        assert own["central"][measure] == measures[CENTRAL][measure]
        assert weights["central_scikit"][measure] == measures[CENTRAL_WEIGHTED][measure]
    assert weights["central"] is weights["federated"] is weights["federated_minus_scikit"] is None
    for line in (own, plain, lines["smote"], lines["smotenc_parents"]):
        values = [line[model]["auc"]["values"] for model in ("federated", "central_scikit")]
        assert line["federated_minus_scikit"]["values"] == pytest.approx(list(numpy.subtract(*values)))
    # Few of the generated loans are charged off: without balancing hardly any is recognised.
    assert plain["federated"]["specificity"]["mean"] < 0.1 < own["federated"]["specificity"]["mean"]
    assert plain["largest_influence"] == weights["largest_influence"] == 0
    assert own["largest_influence"] >= result["data"]["parties"][0]["largest_influence"] > 0


def test_all_ways_to_balance_are_measured_as_the_study_measures_its_own(csv, outcome):
    clean, options = credit_study.clean(csv), PREPARATION
    again = measure_method(clean, options, HomoLRSettings(), SEEDS)
    (own,) = (line for line in outcome[0]["balancing"] if line["method"] == "smotenc")
    found = described(again)
    # Of the study's federation the first seed was then replaced by what FATE-Flow gave, of this comparison's not.
    assert found == {name: own[name] for name in found}


def test_a_way_that_a_party_has_too_few_rows_for_is_not_measured(csv):
    options = replace(PREPARATION, neighbours=500, over_sampling="none")
    known = {method: Balanced({}, 0) for method in TITLES if method != "smote"}
    lines = study_balancing(credit_study.clean(csv), options, HomoLRSettings(epochs=1), SEEDS, known)
    assert [line["method"] for line in lines] == list(TITLES)
    assert lines[-1] == {
        "method": "smote",
        "title": "plain SMOTE",
        "largest_influence": 0,
        "central_scikit": None,
        "central": None,
        "federated": None,
        "federated_minus_scikit": None,
    }


def test_ten_seeds_are_enough_to_compare_ways_to_balance(monkeypatch):
    asked = []
    models = {name: dict.fromkeys(balancing.BALANCING_SHOWN, 0.5) for name in balancing.MODELS}
    monkeypatch.setattr(
        balancing,
        "measure_split",
        lambda clean, options, settings: (asked.append((options.over_sampling, options.seed)) or models, options.seed),
    )
    known = {name: Balanced({CENTRAL_SCIKIT: [models[CENTRAL_SCIKIT]] * 12}, 3) for name in ("class_weights", "none")}
    lines = study_balancing(None, PREPARATION, HomoLRSettings(), tuple(range(12)), known)
    assert asked == [(method, seed) for method in ("smotenc", "smotenc_parents", "smote") for seed in range(10)]
    assert [len(line["central_scikit"]["auc"]["values"]) for line in lines] == [10] * len(TITLES)
    assert [line["largest_influence"] for line in lines] == [3, 3, 9, 9, 9]


def test_the_models_say_how_they_were_trained_in_sentences(outcome):
    for model in outcome[0]["models"]:
        assert model["how"][0].isupper() and model["how"].endswith(".") and "{" not in model["how"] + model["title"]
    titles = [model["title"] for model in outcome[0]["models"]]
    assert titles[:3] == [
        "central, scikit-learn, SMOTENC",
        "central, scikit-learn, class weights",
        "central, same objective",
    ]
    assert outcome[0]["models"][0]["how"].endswith("in one place, over-sampled there.")


def test_models_without_over_sampling_are_not_called_over_sampled():
    study = Study("loans.csv", preparation=replace(PREPARATION, over_sampling="none"))
    measures = {name: [dict.fromkeys(MEASURES, 0.5)] for name in MODELS}
    found = credit_study.Findings(first_division=Division((), None, None), measures=measures)
    models = describe_models(study, found)
    assert models[0]["title"] == "central, scikit-learn, no balancing"
    assert not [model for model in models if "over-sampled" in model["how"]]


def test_the_first_step_of_rmsprop_is_ten_times_the_learning_rate():
    features = numpy.random.default_rng(1).normal(size=(50, 3))
    weights = train([(features, features[:, 0] > 0)], HomoLRSettings(epochs=1, learning_rate=0.02)).weights
    assert abs(weights) == pytest.approx([0.2] * 3, rel=1e-4)


def test_steps_are_told_and_timed_and_fate_flow_comes_last(outcome):
    result, news, _ = outcome
    names = [
        "clean the raw file",
        "models, seed 7",
        "models, seed 8",
        "ways to balance",
        "evenness",
        "FATE-Flow, seed 7",
    ]
    assert [step["name"] for step in result["seconds"]["steps"]] == names
    assert [task for job, task, status, _ in news if (job, status) == ("study", "success")] == names
    now = {task for _, task, status, _ in news if status == "running"}
    assert {"evenness: 5 / 95", "ways to balance: plain SMOTE"} <= now


def test_shares_that_leave_an_institution_too_few_rows_are_left_out_and_named(csv, monkeypatch):
    monkeypatch.setattr(balancing, "SHARES", ((0.001, 0.999), SHARES[-1]))
    loans = credit_study.clean(csv)
    lines, left_out = balancing.study_evenness(loans, PREPARATION, Study.settings, (7,))
    assert [line["shares"] for line in lines] == [list(SHARES[-1])]
    assert left_out == ["The study of evenness leaves 0.1 / 99.9 out: the smaller institution has too few loans."]


def test_a_study_repeats_itself(csv, outcome, monkeypatch):
    monkeypatch.setattr(balancing, "SHARES", SHARES[:2])
    again = run_credit_study(Study(csv, True, seeds=SEEDS[1:], flow_seeds=()), Workplace(csv.parent, None))
    for model, first in zip(again["models"], outcome[0]["models"]):
        assert model["measures"]["auc"]["values"] == first["measures"]["auc"]["values"][1:]
    assert {verdict["holds"] for verdict in again["verdicts"]} <= {None, True, False}
    assert [line["largest_influence"] for line in again["balancing"]] != [0] * len(TITLES)
    for line, first in zip(again["balancing"], outcome[0]["balancing"]):
        assert line["central_scikit"]["auc"]["values"] == first["central_scikit"]["auc"]["values"][1:]
    assert again["flow"] == [] and "did not run on FATE-Flow" in again["models"][-1]["how"]


def test_pooled_rows_are_over_sampled_in_one_place_or_not_at_all(csv):
    clean = credit_study.clean(csv)
    options = PrepOptions(units="public", over_sampling="none")
    division = credit_study.divide(clean, options)
    assert len(pooled_rows(division, options)) == len(division.training)
    labels = pooled_rows(division, replace(options, over_sampling="smotenc"))["loan_status"]
    assert labels.mean() == 0.5


def test_scores_are_matched_by_id_and_all_are_needed(csv):
    clean = credit_study.clean(csv)
    options = PrepOptions(units="public")
    division = credit_study.divide(clean, options)
    run = fake_run()(None, clean, division, options, HomoLRSettings(epochs=2))
    models = credit_study.fit_models(division, options, HomoLRSettings(epochs=2))
    # Weighted classes count alike; on the rows as they are, four of five loans would be expected to be paid.
    assert models.scores[CENTRAL_WEIGHTED].mean() == pytest.approx(0.5, abs=0.15)
    entry = flow_entry(run, scores_in_order(run, division), models, 7, HomoLRSettings(), 1e-5)
    assert entry["agreement"] == {
        "largest_weight_difference": 0.0,
        "largest_score_difference": 0.0,
        "spread_by_order": 1e-5,
    }
    with pytest.raises(NoOutput, match=f"scored {len(division.test) - 1} rows, not the {len(division.test)} test rows"):
        scores_in_order(replace(run, test_table=run.test_table[1:]), division)
    with pytest.raises(NoOutput, match="weights for other features"):
        flow_entry(replace(run, weights={"bias": 0.0}), models.scores[FEDERATED], models, 7, HomoLRSettings(), 1e-5)


def figures(**means):
    """Measures of all models over three seeds: specificity and AUC as given for the named models, else 0.6 and 0.7."""
    jitter = numpy.array([-0.001, 0.0, 0.001])
    found = {}
    for place, name in enumerate(MODELS):
        specificity, auc = means.get(name, (0.6, 0.7))
        # Differences between two models need a spread of their own.
        own = jitter * (1 + place / 10)
        found[name] = {"specificity": interval(specificity + own), "auc": interval(auc + own)}
    return found


@pytest.mark.parametrize("gained, holds", [(0.06, True), (0.05, None), (0.03, False), (-0.2, False)])
def test_far_better_needs_the_whole_interval(gained, holds):
    measures = figures(federated=(0.65 + gained, 0.7), alone_host_10000=(0.65, 0.6))
    found = credit_verdicts.far_better(measures)
    assert found["holds"] is holds and "host 10000, the best alone" in found["figures"]


@pytest.mark.parametrize("lost, holds", [(0.0, True), (0.01, None), (0.02, False), (-0.02, False)])
def test_within_of_central_has_two_sides(lost, holds):
    assert credit_verdicts.near_central(figures(central=(0.6, 0.7 + lost)))["holds"] is holds


@pytest.mark.parametrize("lost, holds", [(0.0, True), (0.01, None), (0.02, False), (-0.02, True)])
def test_not_below_has_one(lost, holds):
    found = credit_verdicts.not_below_class_weights(figures(central_weighted=(0.6, 0.7 + lost)))
    assert found["holds"] is holds and f"{0.7 + lost:.4f} (central, class weights)" in found["figures"]


@pytest.mark.parametrize("federated, holds", [(0.6, True), (0.599, True), (0.59, False)])
def test_at_least_the_lower_end_of_the_best_alone(federated, holds):
    measures = figures(federated=(federated, 0.7), alone_guest_9999=(0.5, 0.9))
    assert credit_verdicts.at_least_best_alone(measures)["holds"] is holds


def evenness(*gains):
    jitter = numpy.array([-0.001, 0.0, 0.001])
    return [
        {
            "shares": [share, 1 - share],
            "federated": {name: interval(0.6 + gain + jitter * (1 + share)) for name in ("specificity", "auc")},
        }
        for share, gain in zip((0.5, 0.05, 0.2), gains)
    ]


@pytest.mark.parametrize("gains, holds", [((0.05, 0, 0.02), True), ((0, 0.05, 0), False), ((0.01, 0, 0.5), None)])
def test_more_even_compares_the_ends(gains, holds):
    found = credit_verdicts.more_even(evenness(*gains))
    assert found["holds"] is holds and found["figures"].startswith("50 / 50 minus 5 / 95:")


def test_a_single_seed_or_no_run_decides_nothing_but_the_leak():
    single = {
        name: {measure: interval(found["values"][:1]) for measure, found in measures.items()}
        for name, measures in figures().items()
    }
    models = [{"name": name, "measures": measures} for name, measures in single.items()]
    found = credit_verdicts.verdicts({"models": models, "evenness": [], "flow": []})
    assert [verdict["holds"] for verdict in found] == [None] * 5 + [True, None]


def test_one_seed_of_one_model_betrays_a_leak():
    models = [{"name": name, "measures": measures} for name, measures in figures().items()]
    assert credit_verdicts.no_leak(models)["holds"] is True
    models[3]["measures"]["auc"] = interval([0.5, 0.75])
    found = credit_verdicts.no_leak(models)
    assert found["holds"] is False and "0.7500 (guest 9999)" in found["figures"]


@pytest.mark.parametrize(
    "difference, spread, holds", [(9e-4, 0.0, True), (1e-3, 1e-4, False), (1.6e-3, 6e-4, True), (1.9e-3, 6e-4, False)]
)
def test_the_largest_difference_of_all_runs_counts(difference, spread, holds):
    """It may be a thousandth, or three times what the order of rows alone changes."""
    runs = [
        {"seed": seed, "agreement": {"largest_score_difference": value, "spread_by_order": spread}}
        for seed, value in ((7, difference), (8, 0.0))
    ]
    assert credit_verdicts.runs_equal_simulation(runs)["holds"] is holds


def test_the_order_of_rows_moves_scores_where_classes_are_balanced():
    draws = numpy.random.default_rng(3)
    rows = [(draws.normal(size=(200, 5)), numpy.tile([0.0, 1.0], 100)) for _ in range(2)]
    test = draws.normal(size=(50, 5))
    assert 0 < spread_by_order(rows, HomoLRSettings(epochs=3), test) < 0.02
    # One row has one order.
    alone = [(rows[0][0][:1], rows[0][1][:1])]
    assert spread_by_order(alone, HomoLRSettings(epochs=3), test) == 0.0


def test_each_measure_has_a_best_institution_of_its_own():
    measures = figures(alone_guest_9999=(0.61, 0.6), alone_host_9998=(0.5, 0.71))
    models = [{"name": name, "title": f"a title of {name}", "measures": found} for name, found in measures.items()]
    best, *central = credit_verdicts.paired(models)
    assert [line["name"] for line in central] == [f"federated - {name}" for name in credit_verdicts.CENTRALS]
    assert central[0]["title"] == "federated minus a title of central"
    assert best["title"] == "federated minus the best alone (guest 9999 by specificity, host 9998 by AUC)"
    assert best["measures"]["specificity"]["mean"] == pytest.approx(-0.01)
    assert best["measures"]["auc"]["mean"] == pytest.approx(-0.01)


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"seeds": ()}, "The seeds are (); there must be at least one, and none may repeat."),
        ({"seeds": (1, 1)}, "The seeds are (1, 1); there must be at least one, and none may repeat."),
        ({"seeds": (1,)}, "The seed 2024 is to run on FATE-Flow but is not among the seeds of the study."),
        (
            {"preparation": PrepOptions()},
            "The preparation has units raw and split horizontal; the study needs public units, since HomoLR steps "
            "alike in every column, and a horizontal split.",
        ),
    ],
)
def test_refusals(changes, sentence):
    with pytest.raises(InvalidArgument) as refusal:
        Study("loans.csv", **changes)
    assert str(refusal.value) == sentence


def test_a_seed_must_be_one():
    with pytest.raises(ValueError, match="seed is -1"):
        Study("loans.csv", seeds=(-1,), flow_seeds=())


def test_data_that_is_not_fit_is_refused_before_fate_flow_is_asked(tmp_path):
    write_synthetic(tmp_path / "few.csv", 300)

    def never():
        raise AssertionError("FATE-Flow was asked for")

    with pytest.raises(ValueError, match="needs at least"):
        run_credit_study(Study(tmp_path / "few.csv"), Workplace(tmp_path, never))


def test_a_failure_on_fate_flow_leaves_the_last_result(csv, tmp_path, monkeypatch):
    (tmp_path / "result.json").write_text("of an earlier run")

    def failed(*arguments):
        raise JobFailed("homo_lr_0 failed")

    monkeypatch.setattr(credit_study, "run_split", failed)
    monkeypatch.setattr(credit_study, "study_balancing", lambda *arguments: [])
    monkeypatch.setattr(credit_study, "study_evenness", lambda *arguments: ([], []))
    with pytest.raises(JobFailed):
        run_credit_study(Study(csv, seeds=(7,), flow_seeds=(7,)), Workplace(tmp_path, lambda: ("address", None)))
    assert (tmp_path / "result.json").read_text() == "of an earlier run"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_the_result_is_written_with_its_report(tmp_path, outcome):
    write_credit_study(outcome[0], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "result.json"]
    assert json.loads((tmp_path / "result.json").read_text()) == json.loads(json.dumps(outcome[0]))
    assert "federated" in (tmp_path / "report.html").read_text()


def test_a_disk_full_while_writing_leaves_what_was_there(tmp_path, monkeypatch):
    def no_space(descriptor):
        os.truncate(descriptor, 4)
        raise OSError(28, "No space left on device")

    (tmp_path / "result.json").write_text("before")
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(InvalidArgument, match="result.json could not be written: No space left on device; what was"):
        atomic_write(tmp_path / "result.json", "half and the rest")
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    assert (tmp_path / "result.json").read_text() == "before"


def test_what_is_not_json_is_never_half_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_credit_study({"number": float("nan")}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InvalidArgument, match="file/out cannot be made: Not a directory"),
        made_folder(tmp_path / "file" / "out"),
    ):
        raise AssertionError("worked in a folder that there is not")
    with pytest.raises(InvalidArgument, match="could not be written"):
        atomic_write(tmp_path / "missing" / "result.json", "")


@pytest.mark.parametrize(
    "before, written, left",
    [((), None, set()), (("out",), None, {"out"}), ((), "out/new/loans.csv", {"out", "out/new", "out/new/loans.csv"})],
)
def test_a_failure_leaves_no_empty_folder_that_was_not_there(tmp_path, before, written, left):
    for folder in before:
        (tmp_path / folder).mkdir()
    with pytest.raises(KeyboardInterrupt), made_folder(tmp_path / "out" / "new") as folder:
        assert folder.is_dir()
        if written:
            (tmp_path / written).write_text("generated")
        raise KeyboardInterrupt
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")} == left


def test_a_success_leaves_even_an_empty_folder(tmp_path):
    with made_folder(tmp_path / "out" / "new"), made_folder(tmp_path / "out" / "new"):
        pass
    assert (tmp_path / "out" / "new").is_dir()
