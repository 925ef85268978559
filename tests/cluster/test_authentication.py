"""Four servers that know their clients and partners: a stranger gets nothing, a job of those who are known succeeds.

The steps are those of the operator's guide.
"""

from dataclasses import replace
from itertools import permutations

import pytest

from fate_dp.deploy.doctor.gathering import SiteCredentials
from fate_dp.deploy.flow import client
from fate_dp.deploy.flow.client import Credentials, ask
from fate_dp.deploy.flow.home import KEY_FILE, open_home
from fate_dp.deploy.flow.server import REFUSED_CLIENT
from fate_dp.pipelines.jobs.flow import FlowUnavailable, answering
from fate_dp.pipelines.jobs.job import JobFailed
from tests.support.cluster.programs import PARTIES

from .places import ARBITER, GUEST, HOST_ID
from .small_jobs import TABLES, two_tasks, upload_small

# A site's command without its fields: FATE-Flow asks for the signature first, and then for them.
SITE_COMMANDS, WITHOUT_FIELDS = ("partner/job/create", "scheduler/job/create"), "Invalid request."
AUTHENTICATION = "authentication: {client: true, site: true, permission: false}\n"
TAKING_PART = (GUEST, HOST_ID, ARBITER)


@pytest.fixture(scope="module")
def cluster_home(cluster_home):
    """The folder of a cluster whose servers will all ask who is there."""
    for party in PARTIES:
        conf = open_home(cluster_home / party.name).conf
        conf.mkdir(mode=0o700, parents=True)
        (conf / "local.service_conf.yaml").write_text(AUTHENTICATION)
    return cluster_home


def administrator(place, party_id):
    return Credentials("admin", (open_home(place.homes[party_id]).conf / KEY_FILE).read_text())


def told(place, party_id, path, body):
    """What a party's server answers its administrator."""
    answer = ask(place.addresses[party_id], path, body, administrator(place, party_id))
    assert answer.code == 0, answer
    return answer.data


@pytest.fixture
def as_client_of(here, monkeypatch):
    """This environment after `flow init` with the credentials of a client that a party's administrator made."""

    def become(party_id):
        made = told(here, party_id, "app/client/create", {"app_name": "user"})
        told(here, party_id, "permission/grant", {"app_id": made["app_id"], "role": "client"})
        address = here.addresses[party_id]
        monkeypatch.setattr(
            client,
            "client_settings",
            lambda: {
                "ip": address.host,
                "port": address.port,
                "app_id": made["app_id"],
                "app_token": made["app_token"],
            },
        )

    return become


def introduce(place):
    """Each party makes an app for each other one, which enters it as that party's partner; the host's at the guest."""
    given = {}
    for owner, partner in permutations(TAKING_PART, 2):
        made = told(place, owner, "app/site/create", {"party_id": partner})
        told(place, owner, "permission/grant", {"app_id": made["app_id"], "role": "site"})
        told(
            place,
            partner,
            "app/partner/create",
            {"party_id": owner, "app_id": made["app_id"], "app_token": made["app_token"]},
        )
        given[owner, partner] = SiteCredentials(made["app_id"], made["app_token"])
    return given[GUEST, HOST_ID]


def test_a_stranger_gets_nothing(here):
    for address in set(here.addresses.values()):
        with pytest.raises(FlowUnavailable, match="authenticates clients and refuses this one"):
            answering(address)
        for path in SITE_COMMANDS:
            assert "appId" in ask(address, path, {}).message


def test_parties_that_introduced_themselves_run_a_job_and_others_cannot(here, as_client_of, work):
    for party_id in (GUEST, HOST_ID):
        as_client_of(party_id)
        upload_small(here, work / "small", owners=(party_id,))
    as_client_of(GUEST)
    with pytest.raises(JobFailed) as failure:
        here.run(two_tasks(), timeout=120)
    print(f"\n  before, the guest's user is told: {failure.value}", end="\n  ")
    partner = introduce(here)
    for path in SITE_COMMANDS:
        assert ask(here.addresses[GUEST], path, {}, partner).message == WITHOUT_FIELDS
        # The host's app at the guest with a token that is not its own, and one that the guest never made.
        for wrong in (replace(partner, app_token="0" * 16), replace(partner, app_id="9998")):
            refused = ask(here.addresses[GUEST], path, {}, wrong)
            assert refused.code in REFUSED_CLIENT and refused.message != WITHOUT_FIELDS, refused
    # Whom the guest knows may not call it by another id, under which it would have an empty ledger.
    psi = {"component_ref": "psi", "stage": "default", "parameters": {}}
    parties = [{"role": "guest", "party_id": ["9998"]}, {"role": "host", "party_id": [HOST_ID]}]
    dag = {"parties": parties, "stage": "train", "conf": {}, "tasks": {"psi_0": psi}}
    body = {"dag": dag, "schema_version": "2.2.0", "job_id": "another", "role": "guest", "party_id": "9998"}
    answer = ask(here.addresses[GUEST], SITE_COMMANDS[0], body, partner).message
    assert "party_id must be that of this server, '9999' in its service_conf.yaml, got '9998'." in answer
    job = here.run(two_tasks(), timeout=240)
    assert len(here.data(job, "label_flip_0")["output_data"]) == 120
    assert [line["source"] for line in here.ledger(GUEST)] == [TABLES.label_source()]
