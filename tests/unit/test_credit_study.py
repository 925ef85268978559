"""The example credit_risk: a study of few generated loans with a stand-in for FATE-Flow, its report, verdicts, flags, refusals."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
from markupsafe import escape
from rich.console import Console

from examples.credit_risk import __main__ as command
from examples.credit_risk import balancing
from examples.credit_risk import study as credit_study
from examples.credit_risk.balancing import SHOWN, TITLES, Balanced, Loans, measure_method, study_balancing
from examples.credit_risk.flow import FederatedRun, flow_entry, scores_in_order
from examples.credit_risk.homo_lr import HomoLRSettings
from examples.credit_risk.models import (
    CENTRAL,
    CENTRAL_SCIKIT,
    CENTRAL_WEIGHTED,
    FEDERATED,
    MEASURES,
    numbers,
    pooled_rows,
    spread_by_order,
    train,
)
from examples.credit_risk.private_runs import PrivateStudy
from examples.credit_risk.report import ledger_table, model_table, models_of, print_result, report_html
from examples.credit_risk.result import (
    BALANCING,
    PARTS,
    ROWS,
    SHARES,
    TOGETHER,
    TRANSFER,
    model,
    verdicts,
    write_result,
)
from examples.credit_risk.study import PREPARATION, Study, Workplace, made_folder, run_credit_study
from examples.synthetic_loans import write_synthetic
from fate_dp.data_prep.lending_club.columns import FEATURES, ID
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import divide
from fate_dp.pipelines.jobs.flow import FlowUnavailable
from fate_dp.pipelines.jobs.job import JobFailed, NoOutput
from fate_dp.privacy.validation import InvalidArgument

ALONE = ("alone_guest_9999", "alone_host_10000", "alone_host_9998")
MODELS = (CENTRAL_SCIKIT, CENTRAL_WEIGHTED, CENTRAL, *ALONE, FEDERATED)
SEEDS = (7, 8)
# Fewer than the study's own, which take most of its time.
FEW_SHARES = ((0.001, 0.999), (0.05, 0.95), (0.5, 0.5))
LINE = {"party": "guest 9999", "mechanism": "Laplace", "unit": "record", "relation": None, "epsilon": 1.0, "delta": 0.0}


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("loans") / "loans.csv"
    write_synthetic(path, 4000)
    return path


def fake_run(bias=0.0):
    """A stand-in for FATE-Flow that answers with the simulation's own model, its bias shifted."""

    def run_split(flow, clean, division, options, settings):
        models = credit_study.fit_models(division, options, settings)
        trained = models.trained[FEDERATED]
        scores = replace(trained, bias=trained.bias + bias).scores(numbers(division.test)[0])
        table = division.test[[ID]].assign(label=models.labels, score=scores).sort_values(ID, ignore_index=True)
        weights = {"bias": trained.bias + bias, **dict(zip(FEATURES, trained.weights))}
        return FederatedRun("job", 1.5, {}, weights, trained.losses, table, {"auc": 0.7, "ks": 0.3}, None)

    return run_split


def private_findings(study, shop, step):
    """What a private study of one model at two epsilons, a transfer and its jobs would find."""
    draws = numpy.random.default_rng(1).uniform(0.6, 0.7, (5, len(SEEDS)))
    made = [[dict.fromkeys(MEASURES, float(value)) for value in each] for each in draws]
    found = [model(ROWS, "homo_secure_sum", "secure sum", each, "a record", eps) for each, eps in zip(made, (4.0, 1.0))]
    names = ("small_alone", "small_federated", "small_fine_tuned")
    found += [model(TRANSFER, name, name, each, "the others' records") for name, each in zip(names, made[2:])]
    lines = [LINE, {**LINE, "party": "host 10000"}, {**LINE, "epsilon": "infinity"}]
    job = {
        "name": "homo_secure_sum",
        "seed": 7,
        "job_id": "one",
        "seconds": 1.0,
        "page": "job-one.html",
        "ledger": lines,
    }
    return {"models": found, "jobs": [job], "constant": ["home_own"]}


@pytest.fixture(scope="module")
def outcome(csv, tmp_path_factory):
    """A study of two seeds, and what it reported on its way."""
    folder, news = tmp_path_factory.mktemp("out"), []
    place = Workplace(folder, lambda: ("address", "home"), lambda *one: news.append(one))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(credit_study, "run_split", fake_run(bias=1.0))
        patch.setattr(credit_study, "job_page", lambda place, job_id, guest, folder: f"{job_id} of <{guest}>.html")
        patch.setattr(credit_study, "run_private_study", private_findings)
        patch.setattr(balancing, "INSTITUTION_SHARES", FEW_SHARES)
        study = Study(csv, True, seeds=SEEDS, flow_seeds=SEEDS[:1], private=PrivateStudy(seeds=SEEDS))
        result = run_credit_study(study, place)
    return json.loads(json.dumps(result, allow_nan=False)), news


def by_key(result):
    return {(each["key"], each["epsilon"]): each["measures"] for each in result["models"]}


def test_every_model_is_measured_on_every_seed_and_named_once(outcome):
    result = outcome[0]
    assert tuple(each["key"] for each in models_of(result, TOGETHER)) == MODELS
    assert len(by_key(result)) == len(result["models"])
    assert all(len(each["auc"]["values"]) == len(SEEDS) for each in by_key(result).values())
    assert {each["part"] for each in result["models"]} <= set(PARTS)
    assert all(
        each["note"] and "{" not in each["note"] + each["title"] for each in result["models"] if each["part"] != SHARES
    )


def test_a_seed_on_fate_flow_has_the_scores_of_fate_flow(outcome):
    models, run = by_key(outcome[0]), outcome[0]["jobs"][0]
    specificity = [models[name, None]["specificity"]["values"][0] for name in (FEDERATED, CENTRAL)]
    # The stand-in's bias is higher by one, which calls more loans Fully Paid and keeps their order.
    assert specificity[0] < specificity[1] - 0.1
    assert run["agreement"]["largest_weight_difference"] == pytest.approx(1.0)
    assert 0.1 < run["agreement"]["largest_score_difference"] < 0.25
    assert (run["seed"], run["job_id"], run["evaluation"]) == (SEEDS[0], "job", {"auc": 0.7, "ks": 0.3})
    (same,) = (each for each in outcome[0]["verdicts"] if "equals its simulation" in each["claim"])
    assert same["holds"] is False


def test_the_result_tells_the_data_as_it_was(outcome):
    data = outcome[0]["data"]
    assert data["synthetic"] is True and data["features"] == 37 and data["source"] == "loans.csv"
    assert data["rows"] == data["train_rows"] + data["test_rows"] == data["steps"][-1]["rows"]
    *parties, (before, after) = data["balance"].values()
    assert sum(before.values()) == data["train_rows"] and before["Charged Off"] < before["Fully Paid"]
    assert after["Charged Off"] == after["Fully Paid"] == before["Fully Paid"]
    assert all(sum(counts[label] for counts, _ in parties) == rows for label, rows in before.items())
    # Test rows keep the natural balance.
    natural = before["Charged Off"] / data["train_rows"]
    assert data["held_out"]["Charged Off"] / data["test_rows"] == pytest.approx(natural, abs=0.01)
    assert any("home_own" in notice for notice in data["notices"])


def test_the_losses_and_the_stop_that_fate_has_not(outcome):
    losses = outcome[0]["losses"]
    assert set(losses) == {"central", "federated, simulated", "federated, FATE-Flow, seed 7"}
    assert all(len(curve) == 20 and curve[0] == pytest.approx(numpy.log(2), abs=1e-6) for curve in losses.values())
    assert outcome[0]["stop_epoch"] == HomoLRSettings().stop_epoch(losses["federated, simulated"])


def test_shares_go_from_uneven_to_even_and_those_with_too_few_rows_are_named(outcome):
    keys = [each["key"] for each in models_of(outcome[0], SHARES)]
    names = ("federated", "first alone", "second alone")
    assert keys == [f"{name} at {shares}" for shares in ("5 / 95", "50 / 50") for name in names]
    assert any("0.1 / 99.9 out: the smaller institution has too few" in each for each in outcome[0]["data"]["notices"])
    # 95 % of the rows teach nearly what all of them do, 5 % do not.
    models = by_key(outcome[0])
    together, *alone = (models[f"{name} at 5 / 95", None]["auc"]["values"] for name in names)
    small, large = (abs(numpy.subtract(together, values)).max() for values in alone)
    assert large < small


def test_ways_to_balance_are_compared_on_the_splits_of_the_study(csv, outcome):
    models = by_key(outcome[0])
    for measure in SHOWN:
        assert models[f"{CENTRAL} smotenc", None][measure] == models[CENTRAL, None][measure]
        assert models[f"{CENTRAL_SCIKIT} class_weights", None][measure] == models[CENTRAL_WEIGHTED, None][measure]
    # Few of the generated loans are charged off: without balancing hardly any is recognised.
    plain, own = (models[f"{FEDERATED} {method}", None]["specificity"]["mean"] for method in ("none", "smotenc"))
    assert plain < 0.1 < own
    loans = Loans(credit_study.clean(csv), PREPARATION, HomoLRSettings(), SEEDS[1:])
    # Of the study's federation the first seed was then replaced by what FATE-Flow gave, of this comparison's not.
    again = measure_method(loans, "smotenc").measures[FEDERATED]
    assert again[0]["auc"] == models[f"{FEDERATED} smotenc", None]["auc"]["values"][1]


def test_a_way_that_a_party_has_too_few_rows_for_has_no_models(csv):
    options = replace(PREPARATION, neighbours=500, over_sampling="none")
    known = {method: Balanced({}, 0) for method in TITLES if method != "smote"}
    assert study_balancing(Loans(credit_study.clean(csv), options, HomoLRSettings(epochs=1), SEEDS), known) == []


def test_steps_are_told_and_timed_and_fate_flow_comes_last(outcome):
    result, news = outcome
    names = ["clean the raw file", "models, seed 7", "models, seed 8", "ways to balance", "shares", "FATE-Flow, seed 7"]
    assert [step["name"] for step in result["seconds"]["steps"]] == names
    now = {task for _, task, status, _ in news if status == "running"}
    assert {"shares: 5 / 95", "ways to balance: plain SMOTE"} <= now


def test_a_study_repeats_itself_without_fate_flow(csv, outcome):
    study = Study(csv, True, seeds=SEEDS[1:], flow_seeds=(), compared=False)
    again = run_credit_study(study, Workplace(csv.parent, None))
    for each, first in zip(models_of(again, TOGETHER), models_of(outcome[0], TOGETHER)):
        assert each["measures"]["auc"]["values"] == first["measures"]["auc"]["values"][1:]
    assert again["jobs"] == [] and "did not run on FATE-Flow" in again["models"][-1]["note"]
    assert [each["holds"] for each in again["verdicts"]] == [None] * 4 + [True], "one seed decides nothing but the leak"
    page = report_html(again)
    assert "there are no intervals" in page and "Nothing ran through FATE-Flow" in page


# The report.


@pytest.fixture(scope="module")
def page(outcome):
    return report_html(outcome[0])


def test_the_report_needs_nothing_else_and_shows_every_model_and_picture(outcome, page):
    assert not re.search(r'(src|href)="(?!#|job)', page) and "<script" not in page
    text = re.sub(r"<[^>]+>", " ", page)
    for each in outcome[0]["models"]:
        assert each["title"] in text
    for told in ("Generated loans.", "No Paillier encryption", "Over-sampled rows", "Loss per epoch", "held-out loans"):
        assert told in text
    assert page.count("<svg") == len({each["part"] for each in outcome[0]["models"]}) + 3
    assert len(set(re.findall(r' id="([^"]+)"', page))) == len(re.findall(r' id="([^"]+)"', page))


def test_names_are_text_and_never_markup(page):
    assert "job of &lt;9999&gt;.html" in page and "<9999>" not in page


def test_each_verdict_stands_with_its_figures_and_the_source_beside_ours(outcome, page):
    for each in outcome[0]["verdicts"]:
        assert escape(each["figures"]) in page
    assert "the source prints (central)" in page and "0.66" in page


def test_equal_lines_of_several_parties_stand_together_and_infinity_is_told(outcome):
    rows = ledger_table({**outcome[0], "settings": {"seeds": [7]}}).rows
    assert [row[-3:] for row in rows] == [("1", "0", "guest 9999, host 10000"), ("infinity", "0", "guest 9999")]


def test_a_terminal_shows_every_model_and_verdict(outcome):
    output = io.StringIO()
    print_result(outcome[0], Console(file=output, width=400, color_system=None))
    text = output.getvalue()
    assert all(cell in text for row in model_table(models_of(outcome[0], BALANCING)).rows for cell in row)
    assert all(each["claim"] in text for each in outcome[0]["verdicts"])


def test_the_result_is_written_with_its_report_and_what_is_not_json_never_half(tmp_path, outcome):
    write_result(outcome[0], tmp_path)
    assert json.loads((tmp_path / "result.json").read_text()) == outcome[0]
    assert (tmp_path / "report.html").read_text() == report_html(outcome[0]), "the same result gives the same bytes"
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_result({"number": float("nan")}, tmp_path / "other")


# Verdicts.


def judged(**means):
    """The verdicts on models over three splits: specificity and AUC as given, else 0.6 and 0.7."""
    models = []
    for place, name in enumerate((*MODELS, "federated at 5 / 95", "federated at 50 / 50", *means)):
        specificity, auc = means.get(name, (0.6, 0.7))
        # Differences between two models need a spread of their own.
        own = numpy.array([-0.001, 0.0, 0.001]) * (1 + place / 10)
        measured = [{"specificity": specificity + each, "auc": auc + each} for each in own]
        epsilon = 1.0 if name.startswith(("homo", "label")) else None
        models.append(model(TOGETHER, name, name, measured, epsilon=epsilon, names=("specificity", "auc")))
    return {each["claim"]: each for each in verdicts({"models": models, "jobs": []})}


@pytest.mark.parametrize(
    "claim, means, holds",
    [
        ("federated is far better", {"federated": (0.66, 0.7), ALONE[1]: (0.61, 0.6)}, None),
        ("federated is far better", {"federated": (0.7, 0.7), ALONE[1]: (0.61, 0.6)}, True),
        ("loses nothing by joining", {"federated": (0.55, 0.7)}, False),
        ("Pooling the loans gains nothing", {CENTRAL: (0.6, 0.7)}, True),
        ("Pooling the loans gains nothing", {CENTRAL: (0.6, 0.71)}, None),
        ("Pooling the loans gains nothing", {CENTRAL: (0.6, 0.72)}, False),
        ("class weights", {CENTRAL_WEIGHTED: (0.6, 0.68)}, True),
        ("the more even", {"federated at 50 / 50": (0.65, 0.7)}, True),
        ("the more even", {"federated at 5 / 95": (0.65, 0.7)}, False),
        ("affordable by rows: secure sum", {"homo_secure_sum": (0.6, 0.69), "yardstick_federated": (0.6, 0.72)}, False),
        ("affordable by columns", {"label_flips_regression": (0.6, 0.7), "yardstick_central": (0.6, 0.7)}, True),
        ("do privately what SMOTENC", {"homo_secure_sum": (0.2, 0.7), "homo_secure_sum_weighted": (0.6, 0.7)}, True),
        ("a small institution gains", {"small_alone": (0.6, 0.6), "small_fine_tuned": (0.6, 0.65)}, True),
    ],
)
def test_a_claim_is_decided_by_the_whole_interval(claim, means, holds):
    (found,) = (each for text, each in judged(**means).items() if claim in text)
    assert found["holds"] is holds


def test_a_claim_without_its_models_is_not_made_and_one_split_betrays_a_leak():
    assert not [claim for claim in judged() if "Privacy" in claim or "transfer" in claim or "SMOTENC" in claim]
    leaks = {
        claim: each["holds"] for claim, each in judged(federated=(0.6, 0.75)).items() if "gives the outcome" in claim
    }
    assert list(leaks.values()) == [False]


# What a run on FATE-Flow must be like.


def test_scores_are_matched_by_id_and_all_are_needed(csv):
    clean, options = credit_study.clean(csv), PrepOptions(units="public")
    division = divide(clean, options)
    run = fake_run()(None, clean, division, options, HomoLRSettings(epochs=2))
    models = credit_study.fit_models(division, options, HomoLRSettings(epochs=2))
    found = flow_entry(run, scores_in_order(run, division), models, 7, 1e-5)["agreement"]
    assert found == {"largest_weight_difference": 0.0, "largest_score_difference": 0.0, "spread_by_order": 1e-5}
    with pytest.raises(NoOutput, match=f"scored {len(division.test) - 1} rows, not the {len(division.test)} test rows"):
        scores_in_order(replace(run, test_table=run.test_table[1:]), division)
    with pytest.raises(NoOutput, match="weights for other features"):
        flow_entry(replace(run, weights={"bias": 0.0}), models.scores[FEDERATED], models, 7, 1e-5)


def test_the_order_of_rows_moves_scores_where_classes_are_balanced():
    draws = numpy.random.default_rng(3)
    rows = [(draws.normal(size=(200, 5)), numpy.tile([0.0, 1.0], 100)) for _ in range(2)]
    assert 0 < spread_by_order(rows, HomoLRSettings(epochs=3), draws.normal(size=(50, 5))) < 0.02


def test_the_first_step_of_rmsprop_is_ten_times_the_learning_rate():
    features = numpy.random.default_rng(1).normal(size=(50, 3))
    weights = train([(features, features[:, 0] > 0)], HomoLRSettings(epochs=1, learning_rate=0.02)).weights
    assert abs(weights) == pytest.approx([0.2] * 3, rel=1e-4)


def test_pooled_rows_are_over_sampled_in_one_place_or_not_at_all(csv):
    options = PrepOptions(units="public", over_sampling="none")
    division = divide(credit_study.clean(csv), options)
    assert len(pooled_rows(division, options)) == len(division.training)
    assert pooled_rows(division, replace(options, over_sampling="smotenc"))["loan_status"].mean() == 0.5


def test_data_that_is_not_fit_is_refused_before_fate_flow_is_asked(tmp_path):
    write_synthetic(tmp_path / "few.csv", 300)
    with pytest.raises(ValueError, match="needs at least"):
        run_credit_study(Study(tmp_path / "few.csv"), Workplace(tmp_path, lambda: pytest.fail("FATE-Flow was asked")))


def test_a_failure_on_fate_flow_leaves_the_last_result(csv, tmp_path, monkeypatch):
    (tmp_path / "result.json").write_text("of an earlier run")

    def failed(*arguments):
        raise JobFailed("homo_lr_0 failed")

    monkeypatch.setattr(credit_study, "run_split", failed)
    study = Study(csv, seeds=(7,), flow_seeds=(7,), compared=False)
    with pytest.raises(JobFailed):
        run_credit_study(study, Workplace(tmp_path, lambda: ("address", None)))
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("result.json", "of an earlier run")]


# The command.


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv("FATE_DP_DATA", raising=False)


def parsed(*flags):
    return command.parser().parse_args(flags)


def test_without_flags_generated_loans_are_studied_with_the_defaults():
    options = parsed()
    private = PrivateStudy(seeds=(2024, 2025, 2026))
    expected = Study(Path("out/lending-club/synthetic.csv.gz"), synthetic=True, private=private)
    assert command.study_of(options) == expected and command.rows_to_generate(options) == 50_000


def test_a_quick_run_has_one_seed_and_one_epsilon_and_compares_nothing():
    study = command.study_of(parsed("--quick"))
    assert study.seeds == study.flow_seeds == study.private.seeds == (2024,)
    assert (study.private.epsilons, study.private.trees) == ((4.0,), 2) and not study.compared
    assert command.rows_to_generate(parsed("--quick", "--synthetic", "30000")) == 30_000


def test_parts_can_be_chosen_and_loans_of_the_data_folder_are_taken(tmp_path, monkeypatch):
    study = command.study_of(parsed("--parts", "rows, columns"))
    assert study.private.parts == ("rows", "columns") and study.flow_seeds == () and len(study.seeds) == 3
    assert command.study_of(parsed("--parts", "homo-lr")).private is None
    monkeypatch.setenv("FATE_DP_DATA", str(tmp_path))
    (tmp_path / "lending_club.csv.gz").write_bytes(b"")
    study = command.study_of(parsed())
    assert (study.csv, study.synthetic) == (tmp_path / "lending_club.csv.gz", False)
    assert command.study_of(parsed("--synthetic", "100")).synthetic


def test_every_flag_reaches_the_study():
    flags = "--csv loans.csv --seeds 3 --seed 5 --private-seeds 2 --epsilons 2,0.5 --every-seed-on-flow --over-sampling smote"
    study = command.study_of(
        parsed(
            *flags.split(),
            *["--neighbours", "3", "--shares", "40,60", "--parties", "1,2", "--epochs", "7", "--alpha", "0"],
        )
    )
    assert study.seeds == study.flow_seeds == (5, 6, 7)
    assert (study.settings.epochs, study.settings.alpha, study.settings.optimizer) == (7, 0.0, "rmsprop")
    prepared = study.preparation
    assert (prepared.over_sampling, prepared.shares, prepared.parties) == ("smote", (40.0, 60.0), ("1", "2"))
    assert (prepared.neighbours, prepared.units, prepared.test_share) == (3, "public", 0.3)
    assert (study.private.seeds, study.private.epsilons) == ((5, 6), (2.0, 0.5))
    assert (study.private.parties, study.private.shares) == (("1", "2"), (40.0, 60.0))


@pytest.mark.parametrize(
    "flags, sentence",
    [
        (["--seeds", "0"], "The seeds must be at least one, none of them twice, got ()."),
        (["--seed", "-1"], "seed must be a whole number, at least 0, got -1."),
        (["--shares", "25,25,40"], "sum of shares must be 1 or 100, got 90 from 25/25/40."),
        (
            ["--parts", "rows,sideways"],
            "a part of --parts must be one of homo-lr, rows, columns, transfer, got 'sideways'.",
        ),
        (["--epsilons", "4,none"], "--epsilons must be numbers greater than 0 with commas between, got 'none'."),
        (["--trees", "0"], "--trees must be a whole number of at least 1, got 0."),
        (["--private-seeds", "11"], "--private-seeds must be from 1 to 10, the number of seeds, got 11."),
        (["--epochs", "0"], "The HomoLR setting epochs must be a whole number of at least 1, got 0."),
    ],
)
def test_refusals_come_before_any_work(flags, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        command.study_of(parsed(*flags))


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"seeds": (1, 1)}, "The seeds must be at least one, none of them twice, got (1, 1)."),
        ({"seeds": (1,)}, "The seed 2024 is to run on FATE-Flow but is not among the seeds of the study."),
        (
            {"preparation": PrepOptions()},
            "The preparation has units raw and split horizontal; the study needs public units",
        ),
    ],
)
def test_a_study_that_cannot_be_is_refused(changes, sentence):
    with pytest.raises(InvalidArgument, match=re.escape(sentence)):
        Study(Path("loans.csv"), **changes)


def test_the_command_generates_loans_writes_results_and_says_where(monkeypatch, tmp_path, capsys, outcome):
    asked = {}

    def study(study, place):
        asked.update(study=study, server=place.connect())
        return outcome[0]

    monkeypatch.setattr(command, "run_credit_study", study)
    monkeypatch.setattr(command, "demo_server", lambda options, lines: (options.flow, options.home))
    out = tmp_path / "new" / "out"
    assert command.main(["--synthetic", "40", "--out", str(out), "--home", str(tmp_path)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["report.html", "result.json", "synthetic.csv.gz"]
    assert asked["study"].csv == out / "synthetic.csv.gz" and asked["server"] == (None, tmp_path)
    assert "fate-dp down" in capsys.readouterr().out


def test_a_server_that_does_not_answer_or_an_output_that_is_a_file_is_refused_before_the_study(tmp_path):
    with pytest.raises(FlowUnavailable, match="--flow 'nonsense' is not an address;"):
        command.run(parsed("--out", str(tmp_path / "out"), "--flow", "nonsense"))
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be made"):
        command.run(parsed("--out", str(tmp_path / "file" / "out")))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "written, left", [(None, set()), ("out/new/loans.csv", {"out", "out/new", "out/new/loans.csv"})]
)
def test_a_failure_leaves_no_empty_folder_that_was_not_there(tmp_path, written, left):
    with pytest.raises(KeyboardInterrupt), made_folder(tmp_path / "out" / "new"):
        if written:
            (tmp_path / written).write_text("generated")
        raise KeyboardInterrupt
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")} == left
