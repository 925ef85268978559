"""Three jobs on a real FATE-Flow, attacked from what their recorders kept: labels, flips of them, horizontal training."""

import json
import stat

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from fate_dp.attacks.of_views import Truth
from fate_dp.attacks.recorded_round import informed_labels, ones_in_round, recorded_round
from fate_dp.attacks.recorded_view import read_view, views_of
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.jobs.job import run_job
from fate_dp.pipelines.jobs.party_ledgers import declare, party_ledger
from fate_dp.privacy.auditing.bounds import clopper_pearson
from fate_dp.privacy.mechanisms.randomized_response import keep_probability
from fate_dp.privacy.private_files import POLICY_FILE, party_folder, replace_file

from . import attacked_jobs as jobs

pytestmark = pytest.mark.end_to_end

SURE = 1e-6
"""How seldom an interval of these tests may miss."""
NOISES = {"dp_homo_nn_0": 0.6, "dp_homo_nn_1": 2.0}
# A training with little noise promises little, which a cap must allow.
POLICIES = {
    jobs.GUEST: "job_check: off\ndefault_dataset_cap: {epsilon: 1000000, delta: 0.0001}\n",
    jobs.HOST: "record_views: [coordinated_lr, hetero_feature_binning]\n"
    "default_dataset_cap: {epsilon: 1000000, delta: 0.0001}\n",
    jobs.ARBITER: "record_views: true\n",
}


@pytest.fixture(scope="module")
def parties(flow_address, flow_home, tmp_path_factory):
    """The folder of the parties: the guest's recorder is off, the host's on for two components, the arbiter's for all."""
    folder = open_home(flow_home).parties
    for party, policy in POLICIES.items():
        replace_file(party_folder(folder, party) / POLICY_FILE, policy.encode())
    declare(folder, jobs.GUEST, jobs.SOURCE, cap=2.0)
    jobs.upload_tables(tmp_path_factory.mktemp("attacked"), flow_address, flow_home)
    return folder


@pytest.fixture(scope="module")
def stock(parties, flow_address, flow_home):
    return run_job(jobs.regression_pipeline(flipped=False), flow_address, home=flow_home).job_id


@pytest.fixture(scope="module")
def flipped(parties, flow_address, flow_home):
    return run_job(jobs.regression_pipeline(flipped=True), flow_address, home=flow_home).job_id


@pytest.fixture(scope="module")
def horizontal(parties, flow_address, flow_home):
    return run_job(jobs.horizontal_pipeline(NOISES), flow_address, home=flow_home).job_id


def attack(capsys, home, job, truth, label):
    """The findings of the command, by (task, attack)."""
    assert main(["attack", job, "--home", str(home), "--truth", str(truth), "--label", label, "--json"]) == 0
    views = json.loads(capsys.readouterr().out)
    return {(view["name"], each["attack"]): each for view in views for each in view["findings"]}


READINGS = (("coordinated_lr_0", "residuals"), ("binning_0", "encrypted_labels"))


@pytest.fixture
def labels(tmp_path):
    """The guest's table, by which it tells how much is right."""
    jobs.vertical_tables()["guest"].to_csv(tmp_path / "truth.csv", index=False)
    return tmp_path / "truth.csv"


def test_of_fates_regression_and_binning_the_host_reads_every_label(stock, flow_home, labels, capsys):
    found = attack(capsys, flow_home, stock, labels, "bought")
    for reading in READINGS:
        assert (found[reading]["value"], found[reading]["rows"]) == (1.0, jobs.COMMON)
        assert (found[reading]["bound"], found[reading]["epsilon"]) == (1.0, "infinity")


def test_behind_label_flip_it_reads_no_more_than_epsilon_allows(flipped, flow_home, labels, capsys):
    found, law = attack(capsys, flow_home, flipped, labels, "bought"), keep_probability(jobs.EPSILON, 2)
    assert len({found[reading]["value"] for reading in READINGS}) == 1, "both read the same flips"
    for reading in READINGS:
        finding = found[reading]
        assert finding["bound"] == pytest.approx(law) and finding["epsilon"] == jobs.EPSILON
        assert f"flips of label_flip_0 at epsilon 1 of {jobs.COMMON} of {jobs.COMMON} rows" in finding["says"]
        low, high = clopper_pearson([round(finding["value"] * jobs.COMMON)], jobs.COMMON, SURE)
        # It reads every flip, so that its share is that law, neither more nor less.
        assert low[0] <= law <= high[0]


def truth_of_all_records():
    table = pd.concat(jobs.horizontal_tables().values())
    features = table.drop(columns=["id", "ill"]).to_numpy(np.float64)
    return table, Truth(tuple(table["id"]), table["ill"].to_numpy(np.int64), features)


def test_a_horizontal_round_shows_the_mean_gradient_and_the_noise_that_its_terms_say(
    horizontal, parties, flow_home, tmp_path, capsys
):
    table, truth = truth_of_all_records()
    table.to_csv(tmp_path / "truth.csv", index=False)
    found, strayed = attack(capsys, flow_home, horizontal, tmp_path / "truth.csv", "ill"), []
    for path, (task, noise) in zip(views_of(parties, horizontal, jobs.ARBITER), NOISES.items()):
        recorded = recorded_round(read_view(path))
        deviation, records = recorded.deviation, recorded.records
        rows = recorded.gradients.rows(recorded.start, truth.features.astype(np.float32), truth.labels)
        strayed += [(recorded.received - rows.mean(axis=0)) / deviation]
        assert (recorded.terms.noise_multiplier, records) == (noise, jobs.RECORDS)
        # Rounded to a whole number, and off by no more than six deviations.
        assert abs(ones_in_round(recorded).ones - truth.labels.sum()) <= 6 * deviation * records + 1
        informed = informed_labels(recorded, truth.features, truth.labels)
        finding = found[task, "informed"]
        assert finding["value"] == (informed.labels == truth.labels).mean()
        assert finding["epsilon"] == recorded.epsilon and informed.expected_share < finding["bound"] < 1.0
    # Independent standard normal numbers, as many as the two models have weights.
    squares, weights = np.sum(np.square(strayed)), np.size(strayed)
    assert weights == 2 * (jobs.FEATURES + 1) and chi2.ppf(SURE, weights) < squares < chi2.isf(SURE, weights)


def test_only_what_an_operator_switched_on_is_kept_and_its_ledger_says_so(stock, flipped, horizontal, parties):
    kept = {path.relative_to(parties) for job in (stock, flipped, horizontal) for path in views_of(parties, job)}
    tasks = {(path.parts[0], path.parts[2], path.name) for path in kept}
    host, arbiter = f"party-{jobs.HOST}", f"party-{jobs.ARBITER}"
    assert tasks == {
        *((host, job, f"{task}.host.view") for job in (stock, flipped) for task, _ in READINGS),
        *((arbiter, job, "coordinated_lr_0.arbiter.view") for job in (stock, flipped)),
        *((arbiter, horizontal, f"{task}.arbiter.view") for task in NOISES),
    }
    assert {stat.S_IMODE((parties / path).stat().st_mode) for path in kept} == {0o600}
    assert not (party_folder(parties, jobs.GUEST) / "views").exists()
    recorded = {
        party: {
            (line["source"], *line["jobs"])
            for line in party_ledger(parties, party)
            if line["mechanism"] == "recorded view"
        }
        for party in POLICIES
    }
    assert recorded == {
        jobs.GUEST: set(),
        jobs.HOST: {(component, stock, flipped) for component in ("coordinated_lr", "hetero_feature_binning")},
        jobs.ARBITER: {("coordinated_lr", stock, flipped), ("dp_homo_nn", horizontal)},
    }


def test_a_view_is_of_what_the_party_received_and_of_its_own_ids(stock, flipped, parties):
    for job in (stock, flipped):
        (view,) = (read_view(path) for path in views_of(parties, job, jobs.HOST) if "coordinated_lr" in path.name)
        senders = {message.sender for message in view.messages}
        assert senders == {f"guest-{jobs.GUEST}", f"arbiter-{jobs.ARBITER}"} and not view.problems
        assert [len(ids) for ids in view.tables] == [jobs.COMMON]
        assert all(not message.left_out for message in view.messages)


def test_the_report_of_a_job_says_that_the_recorder_was_on(flipped, flow_home, tmp_path):
    arguments = ["report", flipped, "--home", str(flow_home), "--party", jobs.HOST, "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert "The recorder was on" in (tmp_path / f"party-{jobs.HOST}.html").read_text()
