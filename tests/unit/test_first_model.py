"""`fate-dp try` before anything starts: what it divides epsilon into, what it refuses, and the job that it writes."""

import runpy

import numpy as np
import pandas as pd
import pytest

from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.jobs import first_model
from fate_dp.pipelines.jobs.first_model import FirstModel
from fate_dp.pipelines.jobs.job_plans import read_dag
from fate_dp.pipelines.jobs.scorecard_plan import CardRequest, charges_of, folds_that_fit, plan_binning, plan_scorecard
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.table_facts import TableFacts
from fate_dp.privacy.validation import InvalidArgument
from tests import bank_files

CATEGORIES = {"region": bank_files.REGIONS, "年龄段": bank_files.AGES}
MANY = 40_000


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return bank_files.write(tmp_path_factory.mktemp("files"), 600)


@pytest.fixture
def asked(files, tmp_path):
    """`FirstModel` of the files, with changes."""
    given = {
        "files": files,
        "ids": ("customer", "客户号"),
        "label": "default",
        "epsilon": 1.0,
        "facts": TableFacts(categories=CATEGORIES),
        "out": tmp_path / "out",
        "home": tmp_path / "home",
    }
    return lambda model="scorecard", **changes: FirstModel(model, **{**given, **changes})


@pytest.mark.parametrize("folds, quantiles", [(0, ()), (0, (6, 6, 4)), (3, (8,))])
def test_bins_card_and_folds_together_cost_what_was_asked(folds, quantiles):
    plan = plan_scorecard(
        CardRequest(5000, 5, 4, 1.5, folds=folds, guest_quantiles=quantiles, host_quantiles=quantiles)
    )
    for at, row in enumerate(plan.rows):
        total = total_epsilon(charges_of(plan.request, at, row.bins_epsilon, row.epsilon), plan.request.delta)
        assert 0.99 * 1.5 < total <= 1.5 and bool(row.bins_epsilon) == bool(quantiles)


def test_folds_are_as_many_as_their_noise_allows():
    found = [folds_that_fit(CardRequest(records, 5, 4, 1.0), 5) for records in (2000, 5000, MANY)]
    assert found == [0, 2, 5] and folds_that_fit(CardRequest(MANY, 5, 4, 1.0), 3) == 3


def test_a_larger_table_has_smaller_errors_and_label_noise_leaves_the_guest_s_counts():
    small, large = (plan_binning(CardRequest(n, 5, 4, 1.0), "gaussian", "record") for n in (1000, 2000))
    assert small.rows[1].error_of_woe == pytest.approx(2 * large.rows[1].error_of_woe)
    assert small.rows[1].clear_from == pytest.approx(large.rows[1].clear_from, abs=1)
    alone = plan_binning(CardRequest(1000, 5, 4, 1.0), "laplace", "label").rows
    assert alone[0].noise_of_records == 0 and alone[1].noise_of_records == 0 < alone[1].noise_of_events


def test_few_columns_of_a_host_leave_no_folds_and_it_is_said_before(asked):
    first = asked()
    assert "held out" in first.check()[-1] and "leaves 1 scorecards" in first.check()[-1]
    assert first.plan.request.folds == 0 and first.plan.request.records == round(0.8 * first.records)


@pytest.mark.parametrize(
    "changes, told",
    [
        ({"ids": ("customer", "nr")}, "has no id column 'nr'"),
        ({"ids": ("customer", "信用分")}, "the 信用分|again"),
        ({"label": "months"}, "--label months must be 0 or 1"),
        ({"label": "nosuch"}, "has no label column 'nosuch'"),
        ({"epsilon": 9.0}, "declare-table .*bank.csv try/bank --party 9999 --id customer --label default --epsilon 9"),
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"facts": TableFacts(special={"nosuch": (-1,)})}, "A flag names the column 'nosuch'"),
        ({"facts": TableFacts()}, "--categories region="),
        ({"most_folds": 1}, "--folds must be 0, or a whole number from 2, got 1"),
    ],
)
def test_what_would_fail_later_is_refused_in_one_sentence_before_anything_starts(asked, changes, told, tmp_path):
    with pytest.raises(InvalidArgument, match=told):
        asked(**changes).check()
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    "rules, told",
    [
        ("[]", "must have rules of columns under guest and host"),
        ("guest: {nosuch: {quantiles: 5}}", "a rule for 'nosuch', which is not a feature"),
        ("host: {月消费: {cuts: [2, 1]}}", "cuts of '月消费' must be sorted"),
        ("guest: [", "cannot be read as YAML"),
    ],
)
def test_rules_that_no_job_would_take_are_refused(asked, tmp_path, rules, told):
    (tmp_path / "bins.yaml").write_text(rules, encoding="utf-8")
    with pytest.raises(ValueError, match=told):
        asked(bins=tmp_path / "bins.yaml").check()


def test_a_folder_that_cannot_be_written_to_is_refused(asked, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="--out .*file is not a writable folder"):
        asked(out=tmp_path / "file").check()


def test_models_on_flips_refuse_what_their_components_do_not_take(asked, files):
    for model, changes, told in (
        ("lr", {}, "has missing values as income"),
        ("trees", {}, "has missing values as income"),
        ("trees", {"epsilon": 9.0}, "declare try/bank/default --cap 9"),
    ):
        with pytest.raises(InvalidArgument, match=told):
            asked(model, **changes).check()


def test_a_host_whose_scores_would_show_few_values_is_told_before_labels_are_paid_for(asked, tmp_path):
    ids = [f"c{row}" for row in range(40)]
    bank = pd.DataFrame({"customer": ids, "default": [0, 1] * 20, "income": np.arange(40.0)})
    shop = pd.DataFrame({"customer": ids, "late": [0, 1, 2, 3] * 10, "spent": np.arange(40.0)})
    for name, table in (("bank", bank), ("shop", shop)):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    given = {"files": (tmp_path / "bank.csv", tmp_path / "shop.csv"), "ids": ("customer",) * 2, "facts": TableFacts()}
    with pytest.raises(InvalidArgument, match="fewer than 20 different values as late, which joint scores would show"):
        asked("lr", **given).check()
    assert asked("trees", **given).check()


def dag_of(first, path):
    path.write_text(first.source(), encoding="utf-8")
    pipeline = runpy.run_path(str(path))["pipeline"]()
    pipeline.compile()
    return read_dag(pipeline.get_dag())["dag"]


def test_the_job_that_is_written_has_the_rules_and_epsilons_that_were_planned(asked, tmp_path):
    first = asked()
    dag = dag_of(first, tmp_path / "job.py")
    for at, party in enumerate(("guest_9999", "host_10000")):
        own = dag["party_tasks"][party]["tasks"]
        assert own["dp_scorecard_0"]["parameters"]["epsilon"] == first.plan.rows[at].epsilon
        assert own["dp_binning_0"]["parameters"]["columns"] == first.rules[("guest", "host")[at]]
    assert dag["tasks"]["dp_scorecard_1"]["stage"] == "predict"


def test_with_folds_every_training_has_the_planned_epsilon(asked, tmp_path, monkeypatch):
    monkeypatch.setattr(FirstModel, "scores_left", 4)
    monkeypatch.setattr(first_model, "folds_that_fit", lambda request, most: most)
    first = asked(most_folds=9)
    dag = dag_of(first, tmp_path / "job.py")
    assert first.folds == 4 and dag["tasks"]["dp_scorecard_1"]["parameters"]["cv_param"]["n_splits"] == first.folds
    own = dag["party_tasks"]["host_10000"]["tasks"]
    assert (
        own["dp_scorecard_0"]["parameters"].items() <= own["dp_scorecard_1"]["parameters"].items()
        and "keyed_split_0" not in dag["tasks"]
    )


@pytest.mark.parametrize("model, task", [("lr", "dp_hetero_lr_1"), ("trees", "score_correction_0")])
def test_the_jobs_on_flips_score_rows_that_were_never_flipped(asked, tmp_path, model, task):
    # Whatever the tables lack: the job is written without `check`.
    dag = dag_of(asked(model), tmp_path / "job.py")
    assert dag["tasks"]["label_flip_0"]["inputs"]["data"]["input_data"]["task_output_artifact"]["producer_task"] == (
        "keyed_split_0"
    )
    assert task in dag["tasks"] and dag["tasks"]["label_flip_0"]["parameters"]["epsilon"] == 1.0


def test_a_dry_run_and_a_written_job_start_nothing(files, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["try", "scorecard", *map(str, files), "--id", "customer=客户号", "--label", "default", "--epsilon", "1"]
    command += [f for each in bank_files.CATEGORIES for f in ("--categories", each)]
    assert main([*command, "--dry-run"]) == 0
    assert "clear from" in capsys.readouterr().out
    assert main([*command, "--write", "job.py"]) == 0
    assert (tmp_path / "job.py").is_file() and not (tmp_path / ".fate-dp").exists()
