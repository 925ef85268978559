"""What can go wrong on a cluster: load, killed tasks, restarted servers, a broker away, refusals, full disks.

Each time the job fails with a reason or goes on, the ledgers say what was released, and the next job runs.
"""

import subprocess
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest

from fate_dp.pipelines.jobs.flow import connect
from fate_dp.pipelines.jobs.job import JobFailed, NoOutput, query_tasks, raised_sentence
from fate_dp.privacy import Ledger
from fate_dp.privacy.private_files import LEDGER_FILE, party_folder
from tests.support.cluster import cluster

from .places import GUEST, HOST_ID
from .small_jobs import (
    EPSILON,
    FRESH,
    TABLES,
    executors,
    has_ended,
    is_running,
    job_status,
    submit,
    two_tasks,
    upload_small,
    wait_for,
)

PATIENCE = 240.0
BROKER_AWAY = 30.0
HOME_MEGABYTES = 200
KEYS_MEGABYTES = 2


@pytest.fixture(scope="module")
def disks(work):
    """Small disks under the host's home and under the guest's keys and ledgers, where this account may make them."""
    home = work / "cluster-standalone"
    folders = {home / "host-10000": HOME_MEGABYTES, home / "guest-9999" / "parties": KEYS_MEGABYTES}
    mounted = []
    for folder, size in folders.items():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}m,mode=700", "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True).returncode == 0:
            mounted.append(folder)
    yield mounted
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="module")
def cluster_home(engine, work, disks):
    home = work / "cluster-standalone"
    yield home
    cluster.down(home)


@pytest.fixture(scope="module")
def uploaded(here, work):
    upload_small(here, work / "small")
    return here


def flips(place, job_id):
    """The flipped labels that the guest's server has of a job, by id."""
    table = place.data(SimpleNamespace(job_id=job_id), "label_flip_0")["output_data"]
    return table.set_index("id")["y"].astype(int).sort_index()


def flip_lines(place, tables=TABLES):
    """What the guest's ledger says of the flips of a source."""
    lines = [entry for entry in place.ledger(GUEST) if entry["source"] == tables.label_source()]
    assert {line["mechanism"] for line in lines} <= {"randomized_response"}
    return lines


def spent(place, tables=TABLES):
    return Ledger(party_folder(place.parties(GUEST), GUEST) / LEDGER_FILE).spent(tables.label_source())


def assert_next_job_runs(place, tables=TABLES, pending=0):
    """A job afterwards succeeds, spends nothing new, and leaves no release pending but those of killed jobs."""
    job = place.run(two_tasks(tables))
    (line,) = flip_lines(place, tables)
    assert (line["epsilon"], line["pending"]) == (EPSILON, pending) and job.job_id in line["jobs"]
    assert spent(place, tables) == pytest.approx(EPSILON)
    return flips(place, job.job_id)


def assert_charged_what_was_released(place, job_id):
    """Right after a job that went wrong: its flips, where there are any, are of a job that the ledger has charged."""
    try:
        released = len(flips(place, job_id))
    except NoOutput:
        released = 0
    (line,) = flip_lines(place)
    assert not released or job_id in line["jobs"]
    assert (line["epsilon"], spent(place)) == (EPSILON, pytest.approx(EPSILON))


@pytest.fixture(scope="module")
def first_flips(uploaded):
    """The flips of a job before anything went wrong: all later ones must be these."""
    return assert_next_job_runs(uploaded)


def outcome_of(place, pipeline):
    """Run a job in a thread; returns the thread and the list that gets its result or its refusal."""
    outcome = []

    def run():
        try:
            outcome.append(place.run(pipeline, timeout=PATIENCE))
        except JobFailed as failure:
            outcome.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def running_job(place):
    """The id of the youngest job that runs at the guest."""
    jobs = connect(place.addresses[GUEST]).job.query(role="guest", party_id=GUEST, status="running").get("data") or []
    return max((job["job_id"] for job in jobs), default=None)


def started(place, task, tables=TABLES):
    """A job in a thread, once the given task runs; returns thread, outcome and job id."""
    thread, outcome = outcome_of(place, two_tasks(tables))
    wait_for(lambda: running_job(place) is not None, PATIENCE, "the job's start")
    job_id = running_job(place)
    wait_for(lambda: is_running(place, job_id, task), PATIENCE, f"the start of {task}")
    return thread, outcome, job_id


def told(outcome, place, job_id) -> str:
    """What the guest's user is told, after printing that and what each party's own server says."""
    (result,) = outcome
    assert isinstance(result, JobFailed), result
    print(f"\n  the guest's user is told: {result}", end="\n  ")
    for party_id in (GUEST, HOST_ID):
        for record in query_tasks(connect(place.addresses[party_id]), job_id):
            if record.error:
                print(f"the server of {party_id} says of the {record}: {raised_sentence(record.error)}", end="\n  ")
    return str(result)


def test_eight_jobs_of_two_tasks_queued_at_once_all_succeed_and_spend_once(first_flips, here):
    """They wait for their turn, all give the same flips, and the ledger counts one release for all."""
    jobs = [submit(here, two_tasks()) for _ in range(8)]
    most = 0
    deadline = time.monotonic() + 8 * PATIENCE
    while not all(has_ended(here, job_id) for job_id in jobs):
        assert time.monotonic() < deadline
        most = max(most, sum(job_status(here, job_id) == "running" for job_id in jobs))
        time.sleep(1)
    assert [job_status(here, job_id) for job_id in jobs] == ["success"] * 8
    print(f"\n  at most {most} of 8 jobs ran at once", end="\n  ")
    assert 1 <= most < 8
    for job_id in jobs:
        assert flips(here, job_id).equals(first_flips)
    (line,) = flip_lines(here)
    assert set(jobs) <= set(line["jobs"]) and line["pending"] == 0


@pytest.mark.parametrize("party_id", [GUEST, HOST_ID])
def test_a_component_killed_in_the_middle_fails_the_job_with_a_reason(party_id, first_flips, here):
    """kill -9 of the executing process at one party; the other does not wait for ever."""
    thread, outcome, job_id = started(here, "label_flip_0")
    wait_for(lambda: executors(here, party_id, job_id, "label_flip_0"), PATIENCE, "the component's process")
    for process in executors(here, party_id, job_id, "label_flip_0"):
        process.kill()
    thread.join()
    assert "label_flip_0" in told(outcome, here, job_id)
    assert_charged_what_was_released(here, job_id)
    assert assert_next_job_runs(here).equals(first_flips)


def test_a_component_killed_once_it_has_charged_for_labels_leaves_them_charged_once(uploaded):
    """The moment between the ledger's line and the release; the next job gives what was paid for."""
    thread, outcome, job_id = started(uploaded, "label_flip_0", tables=FRESH)
    wait_for(lambda: flip_lines(uploaded, FRESH), PATIENCE, "the charge", pause=0.005)
    killed = executors(uploaded, GUEST, job_id, "label_flip_0")
    for process in killed:
        process.kill()
    assert killed and spent(uploaded, FRESH) == pytest.approx(EPSILON)
    thread.join()
    (line,) = flip_lines(uploaded, FRESH)
    print(f"\n  {line['uses']} release, of which {line['pending']} stays pending; {outcome[0]}", end="\n  ")
    assert line["epsilon"] == EPSILON and spent(uploaded, FRESH) == pytest.approx(EPSILON)
    assert isinstance(outcome[0], JobFailed) and line["pending"] <= line["uses"] == 1
    assert_next_job_runs(uploaded, FRESH, line["pending"])


@pytest.mark.parametrize("party_id", [GUEST, HOST_ID])
def test_a_server_restarted_during_a_job(party_id, first_flips, here, cluster_home):
    """kill -9 of FATE-Flow at one party and `cluster up`: the job ends, the next one runs."""
    thread, outcome, job_id = started(here, "psi_0")
    server = next(piece for piece in cluster.find(cluster_home).servers if piece.party.party_id == party_id)
    psutil.Process(server.status().pid).kill()
    wait_for(lambda: server.status().state == "stopped", 20, "the server's end")
    cluster.up(cluster_home)
    thread.join()
    print(f"\n  the job's end: {outcome[0]}", end="\n  ")
    wait_for(lambda: has_ended(here, job_id), PATIENCE, "the job's end")
    assert_charged_what_was_released(here, job_id)
    assert assert_next_job_runs(here).equals(first_flips)


def test_a_broker_that_hangs_for_half_a_minute_delays_a_job(first_flips, here, cluster_home):
    """SIGSTOP and, 30 seconds later, SIGCONT: connections stay, and the job goes on."""
    from fate_dp.deploy.flow.server import processes_of

    thread, outcome, _ = started(here, "psi_0")
    broker = [process for process in processes_of(cluster_home / "broker") if process.name().startswith("beam")]
    for process in broker:
        process.suspend()
    time.sleep(BROKER_AWAY)
    for process in broker:
        process.resume()
    thread.join()
    assert not isinstance(outcome[0], JobFailed), outcome[0]
    assert assert_next_job_runs(here).equals(first_flips)


def test_a_broker_stopped_for_half_a_minute_fails_a_job_with_a_reason(first_flips, here, cluster_home):
    """Its messages are gone, so the running task fails, at all parties; `cluster up` brings the broker back."""
    thread, outcome, job_id = started(here, "psi_0")
    cluster.find(cluster_home).broker.stop()
    assert {piece.name: piece.state for piece in cluster.status(cluster_home)}["broker"] == "stopped"
    time.sleep(BROKER_AWAY)
    cluster.up(cluster_home)
    thread.join()
    told(outcome, here, job_id)
    assert_charged_what_was_released(here, job_id)
    assert assert_next_job_runs(here).equals(first_flips)


def test_a_host_that_refuses_is_heard_by_the_guests_user_and_nothing_is_spent(first_flips, here):
    """The guest's user reads who refuses; both ledgers are as before."""
    before = [here.ledger(party_id) for party_id in (GUEST, HOST_ID)]
    with pytest.raises(JobFailed, match="^host 10000: This party's data or files do not allow the task") as failure:
        here.run(two_tasks(replace(TABLES, host="host_constant")))
    print(f"\n  the guest's user is told: {failure.value}", end="\n  ")
    assert [here.ledger(party_id) for party_id in (GUEST, HOST_ID)] == before
    assert assert_next_job_runs(here).equals(first_flips)


def filled(folder):
    """A file that leaves nothing of a small disk."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(b"\0" * 4096):
                pass
        except OSError:
            return filler


def test_a_full_disk_under_the_guests_ledger_refuses_the_job_before_anything_is_spent(first_flips, here, disks):
    folder = here.parties(GUEST)
    if folder not in disks:
        pytest.skip("a small disk cannot be mounted by this account")
    before, filler = flip_lines(here), filled(folder)
    try:
        with pytest.raises(JobFailed) as failure:
            here.run(two_tasks(), timeout=PATIENCE)
    finally:
        filler.unlink()
    print(f"\n  the guest's user is told: {failure.value}", end="\n  ")
    assert "database or disk is full" in str(failure.value)
    assert [line["epsilon"] for line in flip_lines(here)] == [line["epsilon"] for line in before]
    assert assert_next_job_runs(here).equals(first_flips)


def test_a_full_disk_at_the_host_fails_the_job_and_the_next_one_runs(first_flips, here, disks, cluster_home):
    """FATE-Flow cannot write its database then: once there is room again, `cluster up` mends what died."""
    folder = cluster_home / "host-10000"
    if folder not in disks:
        pytest.skip("a small disk cannot be mounted by this account")
    thread, outcome, job_id = started(here, "psi_0")
    filler = filled(folder)
    try:
        thread.join()
        told(outcome, here, job_id)
    finally:
        filler.unlink()
    cluster.up(cluster_home)
    wait_for(lambda: has_ended(here, job_id), PATIENCE, "the job's end")
    assert_charged_what_was_released(here, job_id)
    assert assert_next_job_runs(here).equals(first_flips)
