"""The demo, Lending Club and dp_homo_nn on a cluster that computes by itself, against a single server; isolation."""

import json
import struct
from base64 import b64encode, urlsafe_b64encode

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from examples.credit_risk.flow import fetch_run
from fate_dp.components.common.charges import columns_name
from fate_dp.components.dp_homo_nn.model import weights_of
from fate_dp.data_prep.breast_cancer import ID, LABEL
from fate_dp.data_prep.lending_club.columns import FEATURES
from fate_dp.pipelines.demo.run import PRIVATE
from fate_dp.privacy.private_files import party_folder
from tests.support.cluster import cluster
from tests.support.cluster.__main__ import main

from .places import ARBITER, GUEST, HOST_ID, ROLES, SECOND, copy_keys
from .searching import found_in, private_values
from .studies import (
    FEDERATION,
    HOSPITALS,
    PATIENTS,
    ROUNDS,
    TRAININGS,
    prepare_loans,
    run_demo,
    run_homo_nn,
    run_loans,
    upload_demo,
    upload_loans,
    upload_patients,
)

ENGINE = "standalone"


def test_every_piece_runs_and_listens_on_loopback_only(here, cluster_home):
    """`status` names six pieces; none of their processes listens elsewhere; secrets are for the owner's eyes."""
    import psutil

    pieces = cluster.status(cluster_home)
    assert [piece.name for piece in pieces] == [
        "broker",
        "router",
        "guest 9999",
        "host 10000",
        "arbiter 10001",
        "host 9998",
    ]
    assert {piece.state for piece in pieces} == {"running"}
    listening = [
        connection.laddr.ip
        for piece in pieces
        for process in family(psutil.Process(piece.pid))
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening and set(listening) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert cluster_home.stat().st_mode & 0o077 == 0
    for secret in ("broker/password", "broker/rabbitmq.conf", "guest-9999/conf/service_conf.yaml"):
        assert (cluster_home / secret).stat().st_mode & 0o077 == 0


def family(process):
    return [process, *process.children(recursive=True)]


@pytest.fixture(scope="module")
def demo(here, work):
    upload_demo(here, work / "demo")
    return run_demo(here)


@pytest.fixture(scope="module")
def single_demo(demo, here, there, work):
    """The demo once more, on one server whose guest has the same key."""
    copy_keys(here, there)
    upload_demo(there, work / "demo")
    return run_demo(there)


def test_the_demo_gives_the_flips_of_a_single_server(demo, single_demo):
    """A flip is a function of key and record, whichever server asks for it."""
    assert demo.common == single_demo.common
    assert demo.flipped.equals(single_demo.flipped)


def test_the_demo_gives_the_model_and_the_scores_of_a_single_server(demo, single_demo):
    """Weights and held-out scores agree to 1e-6, the AUC to 1e-9: the arithmetic is the same fixed-point one."""
    for party_id in (GUEST, HOST_ID):
        np.testing.assert_allclose(demo.weights[party_id], single_demo.weights[party_id], atol=1e-6)
    assert demo.scores.index.equals(single_demo.scores.index)
    np.testing.assert_allclose(demo.scores, single_demo.scores, atol=1e-6)
    assert demo.auc == pytest.approx(single_demo.auc, abs=1e-9) and demo.auc > 0.9


def test_the_demos_ledgers_are_those_of_a_single_server(demo, single_demo, here, there):
    """Each party's own ledger says what was spent; no other party's server has one for it."""
    told = ("mechanism", "epsilon", "source", "pending", "counted")
    for party_id in (GUEST, HOST_ID):
        lines = [[{name: entry[name] for name in told} for entry in place.ledger(party_id)] for place in (here, there)]
        assert lines[0] == lines[1] and lines[0]
        for other in set(ROLES) - {party_id}:
            assert not party_folder(here.parties(other), party_id).exists()


@pytest.fixture(scope="module")
def prepared(work):
    return prepare_loans(work / "loans")


@pytest.fixture(scope="module")
def loans(here, prepared):
    upload_loans(here, prepared)
    return run_loans(here, FEATURES)


def test_lending_club_gives_the_model_of_a_single_server(loans, here, there, prepared):
    """Three institutions and an arbiter on four servers; weights to 1e-5, which is what masks cost a float64 sum."""
    upload_loans(there, prepared)
    single = run_loans(there, FEATURES)
    assert list(loans["weights"]) == list(single["weights"])
    assert list(loans["weights"].values()) == pytest.approx(list(single["weights"].values()), abs=1e-5)
    assert loans["losses"] == pytest.approx(single["losses"], abs=1e-4) and len(loans["losses"]) == 3
    assert loans["scores"]["id"].equals(single["scores"]["id"])
    assert loans["scores"]["score"].to_numpy() == pytest.approx(single["scores"]["score"].to_numpy(), abs=1e-5)
    assert loans["evaluation"]["auc"] == pytest.approx(single["evaluation"]["auc"], abs=1e-3)
    # What the study fetches from the guest's server, which has no losses: they stay at the arbiter's.
    fetched = fetch_run(here.addresses[GUEST], FEDERATION, FEATURES, loans["job"])
    assert (fetched.losses, fetched.weights) == ((), loans["weights"])
    assert fetched.evaluation == loans["evaluation"] and fetched.test_table.equals(loans["scores"])


@pytest.fixture(scope="module")
def hospitals(here, work):
    features = upload_patients(here, work / "patients")
    return features, run_homo_nn(here)


@pytest.fixture(scope="module")
def single_hospitals(hospitals, there, work):
    upload_patients(there, work / "patients")
    return run_homo_nn(there)


@pytest.mark.parametrize("task", TRAININGS)
def test_dp_homo_nn_spends_and_learns_what_it_does_on_a_single_server(task, hospitals, single_hospitals, here, there):
    """The noise differs by design: the same privacy statement and ledger, one model at both parties, AUC to 0.05."""
    aucs = []
    for place, job in ((here, hospitals[1]), (there, single_hospitals)):
        at_guest, at_host = (place.model(job, task, party_id) for party_id in (GUEST, HOST_ID))
        assert at_guest == at_host and len(weights_of(at_guest)) == 31
        assert at_guest["meta"]["privacy"]["rounds run"] == ROUNDS
        assert place.model(job, task, ARBITER)["data"] == {"estimator": None}
        scored = place.data(job, task)["train_output_data"]
        aucs.append(roc_auc_score(scored["label"].astype(float), scored["predict_score"].astype(float)))
    statements = [
        place.model(job, task)["meta"]["privacy"] for place, job in ((here, hospitals[1]), (there, single_hospitals))
    ]
    assert statements[0] == statements[1]
    assert min(aucs) > 0.9 and abs(aucs[0] - aucs[1]) < 0.05


def test_dp_homo_nns_ledgers_agree_between_the_parties(hospitals, here):
    dataset, kept = columns_name(hospitals[0]), ("event", "parameters", "rounds")
    lines = [
        [{name: entry[name] for name in kept} for entry in here.ledger(party_id) if entry["source"] == dataset]
        for party_id in (GUEST, HOST_ID)
    ]
    assert lines[0] == lines[1] and lines[0]
    assert not here.ledger(SECOND) and not here.ledger(ARBITER)


def test_the_demo_command_of_a_cluster_ends_with_the_figures_of_both_parties(hospitals, here, cluster_home, work):
    """The demo between two servers: uploads to both servers, trains, predicts, reads both ledgers."""
    assert main(["demo", "--home", str(cluster_home), "--out", str(work / "out")]) == 0
    result = json.loads((work / "out" / "result.json").read_text())
    assert result["models"]["private"]["metrics"]["auc"] > 0.9 and (work / "out" / "report.html").is_file()
    (flips,) = [line for line in result["ledgers"][f"guest {GUEST}"] if line["source"] == PRIVATE.label_source()]
    assert flips["epsilon"] == result["models"]["private"]["epsilon"] == 2.0
    assert {line["mechanism"] for line in result["ledgers"][f"host {HOST_ID}"]} >= {"joint scores"}


@pytest.fixture(scope="module")
def secrets(demo, loans, hospitals, here, work, prepared):
    """What each party must keep to itself, after all the jobs: values of its features, and its key."""
    files = {
        GUEST: [*(work / "demo").glob("guest_*.csv"), *tables_of(prepared, "guest_9999", "test")],
        HOST_ID: [*(work / "demo").glob("host_*.csv"), *tables_of(prepared, "host_10000")],
        SECOND: tables_of(prepared, "host_9998"),
    }
    for party in HOSPITALS.data_parties():
        files[party[1]].append(work / "patients" / f"{PATIENTS.training(*party)}.csv")
    values = {
        owner: private_values(own, [file for other, of in files.items() if other != owner for file in of], ID, LABEL)
        for owner, own in files.items()
    }
    for owner in (GUEST, HOST_ID):
        values[owner].texts[here.key(owner)] = "the key file"
    return values


def tables_of(prepared, *beginnings):
    """The files of prepared tables whose names begin so."""
    return [path for table, (path, _) in prepared.items() if table.startswith(beginnings)]


@pytest.mark.parametrize("owner", [GUEST, HOST_ID, SECOND])
def test_no_other_partys_home_contains_a_partys_rows_or_key(owner, secrets, here, cluster_home):
    """By value, in every file of the other homes, the broker's and the router's folder; the owner's own are found."""
    own = found_in(here.homes[owner], secrets[owner])
    numbers, texts = len(secrets[owner].numbers), len(secrets[owner].texts)
    print(f"\n  searched for {numbers} numbers and {texts} ids and keys of {owner}", end="\n  ")
    assert min(numbers, texts) >= 50 and len(own) == len(secrets[owner])
    others = [here.homes[party_id] for party_id in ROLES if party_id != owner]
    for folder in (*others, cluster_home / "broker", cluster_home / "router"):
        assert found_in(folder, secrets[owner]) == {}


def test_the_search_finds_a_value_that_strayed(secrets, tmp_path):
    """The control of the control: a single number, id or key of the host's in a file of another's would be noticed."""
    numbers, texts = secrets[HOST_ID].numbers, secrets[HOST_ID].texts
    strays = [(form, name) for number, name in list(numbers.items())[::500] for form in forms_of(-number)]
    for text, name in [*list(texts.items())[::20], (here_key(texts), "the key file")]:
        strays += [(form, name) for form in (text, text.hex().encode(), b64encode(text), urlsafe_b64encode(text))]
    for form, name in strays:
        for before, after in ((b"before", b"."), (b"in: ", b" after")):
            (tmp_path / "stray").write_bytes(before + form + after)
            assert list(found_in(tmp_path, secrets[HOST_ID])) == [name], form


def here_key(texts):
    """The key among the texts to be searched for."""
    return next(text for text, name in texts.items() if name == "the key file")


def forms_of(number):
    """A number as text, as a float64 of an array, as one of a pickle, and both as hexadecimal digits."""
    binary = [struct.pack(order + "d", number) for order in "<>"]
    return (repr(number).encode(), f"{number:.17e}".encode(), *binary, *(form.hex().encode() for form in binary))
