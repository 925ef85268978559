"""Audits of jobs from a party's home: canaries that are planted, flips in a ledger, a model, and what makes them void."""

import base64
import json
import stat

import numpy as np
import pandas as pd
import pytest

from fate_dp.components.dp_homo_gbdt.boosting import GrownBatch
from fate_dp.components.dp_homo_gbdt.growth import Growth
from fate_dp.components.dp_homo_gbdt.model import _batch_to_json
from fate_dp.components.dp_homo_gbdt.settings import TrainSettings
from fate_dp.components.dp_homo_nn.models.registry import ModelSource
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, flat_weights
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.jobs.audits import AuditRequest, audit_job, fitted_without_privacy
from fate_dp.pipelines.jobs.canaries import Planting, canaries_of, file_of, plant
from fate_dp.pipelines.jobs.csv_files import TableMeta
from fate_dp.pipelines.jobs.party_ledgers import home_at
from fate_dp.privacy import BudgetCap
from fate_dp.privacy.auditing.certificate import CONSISTENT, REFUTED, VOID, read
from fate_dp.privacy.events import Event, PoissonSampledGaussian
from fate_dp.privacy.labels.flips import flip_labels, label_tags, record_tags
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.private_files import CANARIES_FOLDER
from fate_dp.privacy.table_facts import TableFacts
from fate_dp.privacy.validation import InvalidArgument

PARTY, JOB, SOURCE, EPSILON = "9999", "202611230001", "bank/loans/y", 1.0
RECORDS, CANARIES = 1200, 800


@pytest.fixture
def csv(tmp_path):
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"id": [f"r{n}" for n in range(RECORDS)], "y": rng.integers(0, 2, RECORDS)})
    for column in ("a", "b"):
        table[column] = rng.normal(size=RECORDS).round(3)
    table.to_csv(tmp_path / "loans.csv", index=False)
    return tmp_path / "loans.csv"


def planted(tmp_path, csv, kind="labels", count=CANARIES):
    planting = Planting(csv, tmp_path / "with_canaries.csv", SOURCE, kind, count)
    return plant(tmp_path / "parties", PARTY, planting, ReproducibleStream(8))


def released(tmp_path, epsilon_drawn=EPSILON, table="with_canaries.csv", job=JOB, classes=2):
    """What ``label_flip`` writes to the ledger for the uploaded table, drawn at an epsilon that may be another one."""
    home, rows = home_at(tmp_path / "parties", PARTY), pd.read_csv(tmp_path / table, dtype=str)
    ids, labels = rows["id"].tolist(), rows["y"].astype(int).tolist()
    flipped = flip_labels(ids, labels, epsilon_drawn, classes, home.key, SOURCE).tolist()
    tags = record_tags(ids, home.key, SOURCE), label_tags(ids, labels, home.key, SOURCE)
    home.ledger.record_flips(
        source=SOURCE,
        epsilon=EPSILON,
        classes=classes,
        key_id=home.key_id,
        rows=list(zip(*tags, map(str, flipped))),
        cap=8.0,
        job_id=job,
        task_id="t",
        fingerprint="f",
    )
    return home


def asked(tmp_path, **more):
    return AuditRequest(tmp_path / "parties", PARTY, JOB, **{"delta": 1e-5, **more})


def test_canaries_are_kept_privately_and_their_table_differs_in_nothing_else(tmp_path, csv):
    canaries = planted(tmp_path, csv)
    kept = file_of(home_at(tmp_path / "parties", PARTY).path, "bank/loans")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and kept.parent.name == CANARIES_FOLDER
    assert canaries_of(kept.parents[1], "bank/loans") == canaries
    before, after = pd.read_csv(csv), pd.read_csv(tmp_path / "with_canaries.csv")
    changed = set(after["id"][(before != after).any(axis=1)])
    assert changed <= set(canaries.ids) and len(set(canaries.ids)) == CANARIES
    labels = after.set_index("id")["y"][list(canaries.ids)].to_numpy()
    assert np.array_equal(2 * labels - 1, canaries.coins)
    assert 320 < sum(coin > 0 for coin in canaries.coins) < 480


def test_made_up_records_join_by_their_coins_in_a_secret_order(tmp_path, csv):
    canaries = planted(tmp_path, csv, "records", 200)
    before, after = pd.read_csv(csv), pd.read_csv(tmp_path / "with_canaries.csv")
    present = {name for name, coin in zip(canaries.ids, canaries.coins) if coin > 0}
    assert set(after["id"]) - set(before["id"]) == present
    places = np.flatnonzero(after["id"].isin(present))
    assert places.min() < RECORDS / 4 and len(set(np.diff(places))) > 3
    assert canaries.columns == ("a", "b") and len(canaries.rows) == 200


def test_made_up_records_are_drawn_from_public_ranges_and_hold_nothing_of_any_record(tmp_path, csv):
    meta, found = TableMeta(facts=TableFacts(ranges={"a": (18, 100)})), []
    for number, replaced in enumerate((False, True)):
        table = pd.read_csv(csv)
        if replaced:
            table.loc[0, ["a", "b"]] = 999.0
        table.to_csv(tmp_path / f"{number}.csv", index=False)
        planting = Planting(tmp_path / f"{number}.csv", tmp_path / "out.csv", SOURCE, "records", 200, meta)
        found.append(plant(tmp_path / f"parties_{number}", PARTY, planting, ReproducibleStream(8)))
    assert found[0].rows == found[1].rows
    first, second = np.array(found[0].rows).T
    assert set(first) <= set(range(18, 101)) and len(set(first)) > 60
    assert -1 <= second.min() < -0.9 and 0.9 < second.max() <= 1 and abs(second.mean()) < 0.2


def test_flips_of_a_job_are_consistent_with_their_epsilon_and_the_certificate_can_be_computed_again(tmp_path, csv):
    planted(tmp_path, csv)
    released(tmp_path)
    (certificate,) = audit_job(asked(tmp_path))
    assert certificate.verdict == CONSISTENT, certificate.reason
    assert certificate.claim.epsilon == EPSILON and certificate.claim.delta == 0 and certificate.found.epsilon > 0.5
    assert set(certificate.inputs) == {"table", "table with canaries", "canaries"}
    assert read(certificate.to_json()).verdict == CONSISTENT


def test_a_flip_to_a_third_class_is_no_reason_to_abstain(tmp_path, csv):
    planted(tmp_path, csv)
    released(tmp_path, classes=3)
    (certificate,) = audit_job(asked(tmp_path))
    assert certificate.evidence.guessed == CANARIES and certificate.verdict == CONSISTENT


def test_flips_at_a_larger_epsilon_than_the_ledger_says_are_refuted(tmp_path, csv):
    planted(tmp_path, csv)
    released(tmp_path, epsilon_drawn=2.5)
    (certificate,) = audit_job(asked(tmp_path))
    assert certificate.verdict == REFUTED and "above the claim of 1" in certificate.reason


def void_of(tmp_path, **more):
    """Why the only line of the job is void."""
    (certificate,) = audit_job(asked(tmp_path, **more))
    assert certificate.verdict == VOID
    return certificate.reason


def test_what_cannot_be_audited_is_void_and_says_why(tmp_path, csv):
    assert "has no ledger here" in void_of(tmp_path)
    planted(tmp_path, csv)
    home = released(tmp_path, job="202611230002")
    assert "has no release of job" in void_of(tmp_path)
    released(tmp_path)
    kept = file_of(home.path, "bank/loans")
    content = json.loads(kept.read_text())
    for changed, sentence in (
        (None, "No canaries are declared for bank/loans"),
        ({**content, "schema": 2}, "is not a list of canaries of this version"),
        ({"schema": 1}, "is not a list of canaries of this version"),
        ({**content, "kind": "records"}, "The canaries of bank/loans must be labels here, got records"),
        ({**content, "ids": ["strange", *content["ids"][1:]]}, "released no flip of 1 of 800 canaries"),
        ({**content, "coins": [-coin for coin in content["coins"]]}, "do not match their coins"),
    ):
        kept.unlink(missing_ok=True)
        if changed is not None:
            kept.write_text(json.dumps(changed))
        assert sentence in void_of(tmp_path)


def test_a_table_too_small_for_the_confidence_is_void(tmp_path, csv):
    planted(tmp_path, csv, count=10)
    released(tmp_path)
    assert "it takes more canaries than 10" in void_of(tmp_path)


def test_a_public_run_is_void(tmp_path, csv):
    planted(tmp_path, csv)
    ledger = home_at(tmp_path / "parties", PARTY).ledger
    ledger.record_not_private(source=SOURCE, reason="public", job_id=JOB, task_id="t", rows=3)
    assert "The run was public" in void_of(tmp_path)


LOGISTIC = {"name": "logistic_regression", "features": 2, "classes": 2, "params": {}}
PERCEPTRON = {"name": "mlp", "features": 12, "classes": 2, "params": {"hidden": [64]}}


def model_file(tmp_path, weights, model, header):
    estimator = {
        "model": model,
        "param": {"weights": base64.b64encode(np.asarray(weights, "<f4").tobytes()).decode(), "size": len(weights)},
        "header": header,
        "loss": "cross_entropy",
    }
    (tmp_path / "model.json").write_text(json.dumps({"data": {"estimator": estimator}, "meta": {}}))
    return tmp_path / "model.json"


def trained(tmp_path, columns, purpose="dp_homo_nn, aggregation secure_sum"):
    """What a training of five rounds writes to the ledger."""
    home = home_at(tmp_path / "parties", PARTY)
    tags = record_tags(["r1"], home.key, "records")
    dataset = home.ledger.remember_dataset(
        f"columns:{0:016x}", columns, records=tags, key_id=home.key_id, tables=["bank/loans"]
    )
    home.ledger.record(
        dataset=dataset,
        event=Event(PoissonSampledGaussian(0.1, 1.0), "record", "add_or_remove", ("server",)),
        count=5,
        cap=BudgetCap(50.0, 1e-5),
        release_key="k",
        job_id=JOB,
        task_id="t",
        fingerprint="f",
        purpose=purpose,
    )


def test_a_model_that_memorises_its_records_is_refuted_and_one_that_learned_nothing_is_not(tmp_path):
    rng, names = np.random.default_rng(4), [f"x{number}" for number in range(12)]
    table = pd.DataFrame(rng.normal(size=(300, 12)).round(3), columns=names)
    table.assign(id=range(300), y=rng.integers(0, 2, 300)).to_csv(tmp_path / "wide.csv", index=False)
    canaries = planted(tmp_path, tmp_path / "wide.csv", "records", 400)
    trained(tmp_path, names)
    source = ModelSource.of(ModelSpec(**PERCEPTRON), "cross_entropy", {})
    rows, labels = np.array(canaries.rows, dtype=np.float32), np.array(canaries.labels, dtype=np.int64)
    present = np.array(canaries.coins) > 0
    memorised = fitted_without_privacy(source, rows[present], labels[present])
    for weights, verdict in ((flat_weights(source.module()), CONSISTENT), (memorised, REFUTED)):
        (certificate,) = audit_job(asked(tmp_path, model=model_file(tmp_path, weights, PERCEPTRON, names)))
        assert certificate.verdict == verdict, certificate.reason


def grown_file(tmp_path, names, values_of):
    """A model of dp_homo_gbdt of 40 trees in two batches, whose leaves have the values that ``values_of`` gives the splits."""
    bins = TrainSettings(records=9, epsilon=1.0).bins_of(names)
    growth = Growth(bins, np.random.default_rng(6))
    drawn = [growth.draw(20, 5) for _ in range(2)]
    batches = [_batch_to_json(GrownBatch(*each)) for each in zip(drawn, values_of(bins, drawn))]
    estimator = {"bins": bins.to_wire(), "batches": batches, "importance": {}, "header": list(names)}
    (tmp_path / "trees.json").write_text(json.dumps({"data": {"estimator": estimator}, "meta": {}}))
    return tmp_path / "trees.json"


def test_trees_that_memorise_their_records_are_refuted_and_those_that_learned_nothing_are_not(tmp_path):
    rng, names = np.random.default_rng(4), [f"x{number}" for number in range(12)]
    table = pd.DataFrame(rng.normal(size=(300, 12)).round(3), columns=names)
    table.assign(id=range(300), y=rng.integers(0, 2, 300)).to_csv(tmp_path / "wide.csv", index=False)
    canaries = planted(tmp_path, tmp_path / "wide.csv", "records", 400)
    trained(tmp_path, names, "dp_homo_gbdt, aggregation secure_sum")
    present = np.array(canaries.coins) > 0
    rows, signs = np.array(canaries.rows)[present], 2.0 * np.array(canaries.labels, dtype=float)[present] - 1

    def nothing(bins, drawn):
        return [np.zeros((splits.trees, splits.leaves)) for splits in drawn]

    def memorised(bins, drawn):
        codes = bins.codes(rows)
        leaves = [[splits.leaf_of(codes, tree) for tree in range(splits.trees)] for splits in drawn]
        shared = sum((leaf[:, None] == leaf[None, :]).astype(float) for batch in leaves for leaf in batch)
        weights = np.linalg.solve(shared + 0.01 * np.eye(len(rows)), 5 * signs)
        return [np.stack([np.bincount(leaf, weights, minlength=32) for leaf in batch]) for batch in leaves]

    for values_of, verdict in ((nothing, CONSISTENT), (memorised, REFUTED)):
        (certificate,) = audit_job(asked(tmp_path, model=grown_file(tmp_path, names, values_of)))
        assert certificate.verdict == verdict, certificate.reason
    model = grown_file(tmp_path, names[::-1], nothing)
    assert "other columns than the canaries have" in void_of(tmp_path, model=model)
    with pytest.raises(InvalidArgument, match="is not a model of dp_homo_gbdt"):
        audit_job(asked(tmp_path, model=model_file(tmp_path, [0.1] * 26, PERCEPTRON, names)))


def test_a_training_is_void_where_its_control_is_not_broken(tmp_path, csv):
    """Two features memorise no hundred records, with noise or without, and the certificate says so."""
    planted(tmp_path, csv, "records", 100)
    trained(tmp_path, ["a", "b"])
    assert "name its file with --model" in void_of(tmp_path)
    model = model_file(tmp_path, [0.1, 0.2, 0.3], LOGISTIC, ["a", "b"])
    (certificate,) = audit_job(asked(tmp_path, model=model))
    assert certificate.verdict == VOID and "On the control without privacy" in certificate.reason
    assert certificate.evidence.canaries == 100 and "model" in certificate.inputs
    assert " on bank/loans in job " in certificate.claim.subject
    model_file(tmp_path, [0.1, 0.2, 0.3], LOGISTIC, ["b", "a"])
    assert "other columns than the canaries have" in void_of(tmp_path, model=model)
    model.write_text("{}")
    with pytest.raises(InvalidArgument, match="is not a model of dp_homo_nn"):
        audit_job(asked(tmp_path, model=model))


def test_lines_of_other_releases_and_ledgers_that_cannot_be_read_are_void(tmp_path, csv):
    planted(tmp_path, csv, "records", 100)
    trained(tmp_path, ["a", "b"], "shuffler, mean")
    assert "this line is neither" in void_of(tmp_path)
    home_at(tmp_path / "parties", PARTY).ledger.path.write_text("no ledger")
    assert "cannot be used" in void_of(tmp_path)


def test_the_control_of_a_training_memorises_what_it_can():
    source = ModelSource.of(ModelSpec("logistic_regression", 40, 2), "cross_entropy", {})
    features, labels = np.eye(40, dtype=np.float32), np.arange(40) % 2
    losses = source.gradients().losses(fitted_without_privacy(source, features, labels), features, labels)
    assert losses.max() < 0.1


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"kind": "both"}, "kind must be one of labels, records.*, got 'both'"),
        ({"count": 5}, "count must be a whole number of at least 10.*, got 5"),
        ({"count": 2000}, "count must be at most the number of records, 1200.*, got 2000"),
        ({"source": "bank/loans/z"}, "has no label column 'z'"),
        ({"source": "bank/loans/a"}, "must be 2, which coins choose between, got"),
        ({"meta": TableMeta("key")}, "has no id column 'key'"),
        ({"meta": TableMeta(facts=TableFacts(ranges={"z": (0, 1)}))}, "has no column 'z', for which ranges are given"),
    ],
)
def test_what_cannot_be_planted_is_refused_and_nothing_is_written(tmp_path, csv, changes, sentence):
    given = {"source": SOURCE, "count": CANARIES, **changes}
    with pytest.raises(InvalidArgument, match=sentence):
        plant(tmp_path / "parties", PARTY, Planting(csv, tmp_path / "out.csv", **given))
    assert not (tmp_path / "out.csv").exists() and not list(tmp_path.rglob("bank.loans.json"))


def test_canaries_are_planted_once(tmp_path, csv):
    planted(tmp_path, csv)
    with pytest.raises(InvalidArgument, match="canaries of a table are made once"):
        planted(tmp_path, csv)


def test_the_command_plants_audits_verifies_and_says_by_its_status_what_was_refuted(tmp_path, csv, capsys):
    home = tmp_path / "home"
    out = tmp_path / "with_canaries.csv"
    assert main(["canaries", str(csv), SOURCE, "--count", "800", "--out", str(out), "--home", str(home)]) == 0
    assert "Planted 800 canaries (labels)" in capsys.readouterr().out
    released(home, epsilon_drawn=2.5, table=out)
    folder = tmp_path / "certificates"
    assert main(["audit", JOB, "--home", str(home), "--out", str(folder)]) == 2
    shown = capsys.readouterr().out
    assert "refuted" in shown and "randomized_response on bank/loans/y" in shown
    (file,) = folder.glob("*.json")
    assert main(["audit", "--verify", str(file)]) == 2
    file.write_text(file.read_text().replace('"refuted"', '"consistent"'))
    assert main(["audit", "--verify", str(file)]) == 1
    assert "verdict is 'consistent', but its counts give 'refuted'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ([], "Name one of JOB_ID, --mechanism, --verify."),
        ([JOB, "--mechanism", "flip_labels"], "Name one of JOB_ID"),
        (["12"], "JOB_ID must be the id of a job, of twelve digits or more, got '12'"),
        (["--mechanism", "magic"], "mechanism must be one of gaussian_mechanism, "),
        (["--mechanism", "flip_labels", "--canaries", "3"], "canaries must be a whole number from 10 to 5000, got 3"),
        (
            ["--mechanism", "flip_labels", "--confidence", "1"],
            "confidence must be a number strictly between 0 and 1, got 1.0",
        ),
        (["--verify", "nowhere.json"], "The file nowhere.json cannot be read as a certificate."),
    ],
)
def test_the_command_refuses_in_one_sentence(tmp_path, capsys, arguments, sentence):
    assert main(["audit", *arguments, "--home", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_a_file_is_refused(tmp_path, capsys):
    (tmp_path / "out").write_text("")
    assert main(["audit", "--mechanism", "flip_labels", "--canaries", "20", "--out", str(tmp_path / "out")]) == 1
    assert "must be a folder, or a name that is free for one" in capsys.readouterr().err
