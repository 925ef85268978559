"""The private credit study: which jobs it has, what it takes over, and that any file of the schema will do."""

import json
from contextlib import nullcontext
from dataclasses import replace

import numpy
import pytest

from examples.credit_risk import private_runs
from examples.credit_risk.models import MEASURES
from examples.credit_risk.private_jobs import (
    BANK_LABEL,
    COLUMNS,
    DELTA,
    EPSILONS,
    KINDS,
    NUMBER_CUTS,
    ROWS,
    SHUFFLER,
    SMOTENC,
    TRANSFER,
    TRANSFER_EPSILON,
    Place,
    study_jobs,
)
from examples.credit_risk.private_runs import (
    PrivateStudy,
    Workshop,
    constant_columns,
    fine_tuned,
    held_out_scores,
    joint_scores,
    key_of,
    options_of,
    raise_caps,
    run_private_study,
    small_models,
    tables_of,
    yardsticks,
)
from examples.pipelines import Federation
from examples.synthetic_loans import Edition, write_synthetic
from fate_dp.components.common.charges import columns_name
from fate_dp.data_prep.lending_club.cleaning import clean
from fate_dp.data_prep.lending_club.columns import FEATURES, GROUPS, ID, LABEL
from fate_dp.data_prep.lending_club.preparation import divide
from fate_dp.pipelines.jobs.job import NoOutput, check_chain
from fate_dp.pipelines.jobs.job_plans import read_dag
from fate_dp.pipelines.jobs.party_ledgers import home_at, make_home
from fate_dp.privacy.labels.flips import record_tags

PARTS = (ROWS, COLUMNS, TRANSFER)
BY_ROWS = Place(Federation(), "loans", 2000, "loans/all/y")
BY_COLUMNS = replace(BY_ROWS, federation=Federation(hosts=("10000",)))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two generated files of the schema: other loans, written as other editions of the public file are."""
    folder = tmp_path_factory.mktemp("two")
    write_synthetic(folder / "first.csv", 4000, 1)
    write_synthetic(folder / "second.csv.gz", 16000, 2, Edition(percent_signs=True, index_column=True))
    return [clean(folder / "first.csv"), clean(folder / "second.csv.gz")]


def tasks_of(job):
    """A job's tasks as FATE-Flow gets them, and what was built."""
    built = job.build(job, BY_COLUMNS if job.part == COLUMNS else BY_ROWS)
    built.pipeline.compile()
    return read_dag(built.pipeline.get_dag())["dag"]["tasks"], built


# Which jobs there are.


def test_every_kind_of_model_is_trained_by_one_job_of_its_part():
    jobs = list(study_jobs(PARTS, EPSILONS))
    trained = [(job.kind, job.part) for job in jobs if job.part != TRANSFER]
    assert trained == [(name, kind.part) for name, kind in KINDS.items()]
    assert len({job.name for job in jobs}) == len(jobs)
    assert {job.part for job in study_jobs((COLUMNS,), (1.0,))} == {COLUMNS}
    (transfer,) = study_jobs((TRANSFER,), (1.0,))
    assert transfer.epsilons == (TRANSFER_EPSILON,)


@pytest.mark.parametrize("job", list(study_jobs(PARTS, (4.0, 1.0))), ids=lambda job: job.name)
def test_a_job_has_the_tasks_that_its_scores_come_from(job):
    tasks, built = tasks_of(job)
    wanted = {(job.kind, epsilon) for epsilon in job.epsilons or (None,)}
    assert {(scored.kind, scored.epsilon) for scored in built.scored} == wanted
    assert {scored.task for scored in built.scored} <= set(tasks)
    for scored in built.scored:
        assert scored.output is None or tasks[scored.task]["stage"] in ("predict", "default")
    assert set(built.trained.values()) <= set(tasks)
    check_chain(read_dag(built.pipeline.get_dag()))


def test_trust_models_differ_in_who_takes_part_and_what_is_promised():
    found = {}
    for job in study_jobs((ROWS,), (2.0,)):
        tasks, built = tasks_of(job)
        if job.name != SMOTENC:
            found[job.name] = tasks["dp_homo_nn_0"]["parameters"]
            parties = [ids for _, named in built.pipeline.parties for ids in named]
            assert (SHUFFLER in parties) == (job.name == "homo_shuffle")
    assert {given["aggregation"] for given in found.values()} == {"secure_sum", "local", "shuffle"}
    assert {(given["epsilon"], given["delta"], given["records"]) for given in found.values()} == {(2.0, DELTA, 2000)}
    weighted = {name for name, given in found.items() if "class_weights" in given}
    assert weighted == {"homo_secure_sum_weighted"}
    assert found["homo_secure_sum_weighted"]["class_weights"]["prior"] == [0.15, 0.85]


def test_over_sampled_loans_go_to_no_training_that_promises_something():
    (job,) = (job for job in study_jobs((ROWS,), EPSILONS) if job.name == SMOTENC)
    tasks, built = tasks_of(job)
    assert {task["component_ref"] for task in tasks.values()} == {"reader", "smote", "homo_lr"}
    assert [scored.epsilon for scored in built.scored] == [None]


def test_both_learners_of_flips_read_those_of_one_source_at_one_epsilon():
    found = {job.name: tasks_of(job)[0] for job in study_jobs((COLUMNS,), (4.0, 1.0), 3) if "flips" in job.name}
    regression, trees = found["label_flips_regression"], found["label_flips_trees"]
    for number, epsilon in enumerate((4.0, 1.0)):
        flips = [tasks[f"label_flip_{number}"]["parameters"] for tasks in (regression, trees)]
        assert flips[0] == flips[1] and flips[0]["epsilon"] == epsilon
        assert flips[0]["label_source"] == BY_COLUMNS.label_source
        assert trees[f"score_correction_{number}"]["parameters"]["epsilon"] == epsilon
        assert trees[f"secureboost_{number}"]["parameters"]["num_trees"] == 3


def test_cut_points_are_quantiles_of_the_normal_law():
    from scipy.stats import norm

    assert pytest.approx(norm.ppf(numpy.arange(1, 12) / 12)) == NUMBER_CUTS


def test_what_is_spent_at_most_is_added_up_over_seeds_and_jobs():
    one = PrivateStudy(parts=(COLUMNS,), epsilons=(4.0, 1.0))
    assert one.total_epsilon() == 5.0 * 6
    assert replace(one, seeds=(1, 2)).total_epsilon() == 2 * one.total_epsilon()
    assert replace(one, kinds=("label_noise_regression",)).total_epsilon() == 5.0


# Splits and their tables.


def test_by_columns_constant_features_are_left_out_on_both_sides_and_the_label_is_renamed(files):
    study = PrivateStudy()
    division = divide(files[0], options_of(COLUMNS, study, 1))
    held = dict(tables_of(division, COLUMNS))
    assert set(held) == {f"{party}_{rows}" for party in ("guest_9999", "host_10000") for rows in ("train", "test")}
    gone = constant_columns(division)
    assert gone and set(gone) <= {name for group in GROUPS for name in group}
    for party in ("guest_9999", "host_10000"):
        train, test = held[f"{party}_train"], held[f"{party}_test"]
        assert [name for name in train if name != BANK_LABEL] == list(test) and (train.nunique() > 1).all()
        assert LABEL not in train and not {LABEL, BANK_LABEL} & set(test), "held-out labels stay with the study"
    assert BANK_LABEL in held["guest_9999_train"] and BANK_LABEL not in held["host_10000_train"]
    columns = {name for frame in held.values() for name in frame} - {ID, BANK_LABEL}
    assert columns == set(FEATURES) - set(gone)


def test_the_small_institution_holds_one_loan_in_a_hundred_and_trains_with_nobody(files):
    division = divide(files[1], options_of(TRANSFER, PrivateStudy(), 1))
    rows = [len(party.training) for party in division.parties]
    assert rows[-1] / sum(rows) == pytest.approx(0.01, abs=0.005)


def test_institutions_can_be_named_and_the_largest_gives_the_small_one_its_loans():
    study = PrivateStudy(parties=("1", "2"), shares=(30.0, 70.0))
    assert options_of(ROWS, study, 1).shares == (30.0, 70.0)
    assert options_of(COLUMNS, study, 1).parties == ("1", "2")
    transfer = options_of(TRANSFER, study, 1)
    assert transfer.parties == ("1", "2", "9997") and transfer.shares == pytest.approx((30.0, 69.0, 1.0))
    assert options_of(TRANSFER, PrivateStudy(), 1).shares == pytest.approx((25.0, 25.0, 49.0, 1.0))


def test_all_parts_hold_the_same_loans_out(files):
    held = [set(divide(files[0], options_of(part, PrivateStudy(), 3)).test[ID]) for part in PARTS]
    assert held[0] == held[1] == held[2]


# A run that goes on.


@pytest.fixture
def staged(monkeypatch, tmp_path):
    """A study without FATE-Flow: returns a function that runs it, and the list of the jobs that were run."""
    ran, broken = [], set()

    def job(job, splits):
        if job.name in broken:
            raise RuntimeError("interrupted")
        ran.append((splits.seed, job.name))
        draw = numpy.random.default_rng(len(ran)).uniform(0.6, 0.7, 20)
        measures = [dict.fromkeys(MEASURES, float(each)) for each in draw]
        models = [(job.kind, epsilon) for epsilon in job.epsilons or (None,)]
        found = {"seed": splits.seed, "name": job.name, "part": job.part, "job_id": f"{splits.seed} {job.name}"}
        if job.part == TRANSFER:
            found["transfer"] = dict(zip(private_runs.SMALL, measures))
            models = []
        line = {"party": "guest 9999", "mechanism": "m", "unit": "record", "relation": None, "epsilon": 1.0, "delta": 0}
        found |= {"seconds": 1.0, "page": "page.html", "ledger": [{**line, "counted": True, "source": "s"}]}
        told = [{"kind": kind, "epsilon": epsilon, "measures": each} for (kind, epsilon), each in zip(models, measures)]
        return {**found, "models": told}

    measured = {name: dict.fromkeys(MEASURES, 0.68) for name in private_runs.YARDSTICKS}
    monkeypatch.setattr(private_runs, "run_study_job", job)
    monkeypatch.setattr(private_runs, "yardsticks", lambda loans, study, seed: measured)

    def run(study, loans):
        return run_private_study(study, Workshop(loans, None, tmp_path), lambda name: nullcontext())

    return run, ran, broken


def test_a_run_that_was_interrupted_goes_on_with_the_jobs_that_are_missing(staged, files):
    run, ran, broken = staged
    study = PrivateStudy(seeds=(1, 2))
    broken.add("label_noise_regression")
    with pytest.raises(RuntimeError):
        run(study, files[0])
    before = list(ran)
    assert before and all(seed == 1 for seed, _ in before)
    broken.clear()
    found = run(study, files[0])
    assert ran == [(seed, job.name) for seed in (1, 2) for job in study.jobs()]
    assert run(study, files[0]) == found and len(ran) == 2 * len(study.jobs())


def test_other_loans_or_settings_take_nothing_over(staged, files):
    run, ran, _ = staged
    study = PrivateStudy(parts=(TRANSFER,))
    run(study, files[0])
    run(study, files[1])
    run(replace(study, test_share=0.4), files[1])
    assert len(ran) == 3
    (job,) = study.jobs()
    keys = {json.dumps(key_of(study, loans, 1, job), sort_keys=True) for loans in files}
    assert len(keys) == 2


def test_a_damaged_record_is_made_anew(staged, files, tmp_path):
    run, ran, _ = staged
    study = PrivateStudy(parts=(TRANSFER,))
    run(study, files[0])
    (path,) = tmp_path.glob("jobs/*.json")
    path.write_text(path.read_text()[:-20])
    run(study, files[0])
    assert len(ran) == 2


@pytest.mark.parametrize("number", [0, 1])
def test_the_study_runs_unchanged_on_a_second_file(staged, files, number):
    run, _, _ = staged
    study = PrivateStudy(seeds=(1, 2))
    found = run(study, files[number])
    private = {(name, epsilon) for name, kind in KINDS.items() for epsilon in (EPSILONS if kind.promise else (None,))}
    others = {(f"yardstick_{name}", None) for name in private_runs.YARDSTICKS} | {
        (name, None) for name in private_runs.SMALL
    }
    assert {(each["key"], each["epsilon"]) for each in found["models"]} == private | others
    assert all(len(each["measures"]["auc"]["values"]) == 2 for each in found["models"])
    assert len(found["jobs"]) == 2 * len(study.jobs()) and all(job["ledger"] for job in found["jobs"])
    assert json.loads(json.dumps(found)) == found


def test_yardsticks_of_a_second_file(files):
    for loans in files:
        found = yardsticks(loans, PrivateStudy(), 1)
        assert list(found) == ["central", "alone", "federated", "federated_under_sampled", "federated_unbalanced"]
        assert all(0.5 < each["auc"] < 0.8 for each in found.values())
        # Balanced either way, charged-off loans are recognised; as they are, hardly any is.
        assert found["federated_unbalanced"]["specificity"] < 0.1 < found["federated_under_sampled"]["specificity"]


def test_every_held_out_loan_has_one_score(files):
    test = divide(files[0], options_of(ROWS, PrivateStudy(), 1)).test
    table = test[[ID]].assign(predict_score=numpy.arange(len(test), dtype=float))
    shuffled = table.sample(frac=1, random_state=1)
    assert held_out_scores(shuffled, test, "job") == pytest.approx(numpy.arange(len(test)))
    with pytest.raises(NoOutput, match=f"scored {len(test) - 1} loans, not the {len(test)} held-out ones"):
        held_out_scores(table[1:], test, "job")


def test_joint_scores_add_the_parts_of_both_parties(files):
    test = divide(files[0], options_of(ROWS, PrivateStudy(), 1)).test
    parts = ([[1.0, 2.0]], 0.5, ["loan_amnt", "term"]), ([[-1.0]], None, ["dti"])
    models = [
        {"data": {"estimator": {"param": {"coef_": weights, "intercept_": intercept}, "header": header}}}
        for weights, intercept, header in parts
    ]
    joint = test["loan_amnt"] + 2 * test["term"] + 0.5 - test["dti"]
    assert joint_scores(models, test) == pytest.approx(1 / (1 + numpy.exp(-joint)))


# Caps.


def test_caps_of_the_same_loans_are_raised_but_nobody_else_s(tmp_path):
    path = make_home(tmp_path, "10000")
    home, names = home_at(tmp_path, "10000"), []
    for table, first in (("lending_club_study_a/test", 0), ("bureau/files", 50), ("lending_club_study_b/train", 90)):
        tags = record_tags([f"loan {at}" for at in range(first, first + 100)], home.key, "records")
        dataset, columns = columns_name([f"x{first}"]), [f"x{first}"]
        told = {"records": tags, "key_id": home.key_id, "tables": [table]}
        names.append(home.ledger.remember_dataset(dataset, columns, **told))
    assert set(home.ledger.related(names[-1])) == set(names), "all share loans, directly or not"
    raise_caps(path, home, names[-1], 30.0)
    caps = home_at(tmp_path, "10000").policy.dataset_caps
    assert {name: (cap.epsilon, cap.delta) for name, cap in caps.items()} == dict.fromkeys(
        (names[0], names[2]), (30.0, DELTA)
    )


# Transfer.


def test_fine_tuning_lies_between_the_federation_and_the_own_rows():
    generator = numpy.random.default_rng(1)
    features = generator.normal(size=(300, 3))
    labels = (features @ [1.0, -1.0, 0.5] + generator.normal(size=300) > 0).astype(int)
    start = numpy.array([0.0, 0.0, 3.0, 1.0])
    own = fine_tuned(features, labels, start, 1e-6)
    assert fine_tuned(features, labels, start, 1e9) == pytest.approx(start, abs=1e-4)
    rows = numpy.column_stack([features, numpy.ones(300)])
    gradient = rows.T @ (1 / (1 + numpy.exp(-rows @ own)) - labels)
    assert abs(gradient).max() < 0.01, "with hardly a pull it is the maximum of the likelihood"
    between = fine_tuned(features, labels, start, 100.0)
    assert numpy.linalg.norm(between - start) < numpy.linalg.norm(own - start)
    models = small_models(features, labels, start)
    assert list(models) == list(private_runs.SMALL) and (models["small_federated"] == start).all()
