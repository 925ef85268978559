"""The ready-made pipeline of shuffler and its DAG file; who may be the shuffler; what each role checks by itself."""

from pathlib import Path

import pytest
import yaml

from examples.pipelines import statistics_pipeline
from examples.tables import HOSPITALS
from fate_dp.components.common.federation import Federation
from fate_dp.components.shuffler.run import check_federation, check_promise, check_records, federation_of
from fate_dp.components.shuffler.settings import Settings, requests
from fate_dp.components.shuffler.statistics import document, epsilon_of, summary

CONF = Path(__file__).parents[2] / "conf"
TABLES = {"9999": "guest_records", "9998": "host_records"}
REQUESTS = [
    {"column": "income", "kind": "mean", "low": 0, "high": 200000},
    {"column": "age", "kind": "histogram", "low": 20, "high": 80, "bins": 6},
    {"column": "owns_house", "kind": "frequency", "values": [1]},
]
GUEST, HOST, OTHER, ARBITER = ("guest", "1"), ("host", "2"), ("host", "3"), ("arbiter", "4")


def check(asked, epsilon0, promised=None, **of_guest):
    """A party's own job has what is ``asked``; the guest's terms have the rest."""
    own = Settings(requests(REQUESTS), "10000", 1000, **asked)
    costs = epsilon_of(own.requests, epsilon0, own.min_messages, own.delta)
    told = {**own.to_json(), **of_guest}
    check_promise({"settings": told, "epsilon0": epsilon0, "epsilon": promised or costs}, own)


def test_the_dag_file_is_the_ready_made_pipeline():
    pipeline = statistics_pipeline(HOSPITALS, "fate_dp_demo", TABLES, REQUESTS, min_messages=1000, epsilon=1.0)
    made = yaml.safe_load(pipeline.compile().get_dag())
    assert yaml.safe_load((CONF / "shuffled_statistics.yaml").read_text()) == made
    readers = made["dag"]["tasks"]["reader_0"]["parties"]
    assert readers == [{"party_id": ["9999"], "role": "guest"}, {"party_id": ["9998"], "role": "host"}]


def test_all_but_shuffler_and_arbiter_bring_records():
    assert federation_of((GUEST, HOST, OTHER, ARBITER), "3") == Federation(GUEST, (HOST,), ARBITER, OTHER)


@pytest.mark.parametrize(
    "parties, shuffler, sentence",
    [
        ((GUEST, HOST, OTHER, ARBITER), "4", "shuffler must be the party id of a host, one of 2, 3, got '4'."),
        ((GUEST, HOST, ARBITER), "2", "The job names no host beside the shuffler"),
    ],
)
def test_a_shuffler_is_a_host_beside_another_one(parties, shuffler, sentence):
    with pytest.raises(ValueError, match=sentence):
        federation_of(parties, shuffler)


@pytest.mark.parametrize(
    "parties, sentence",
    [
        ((HOST, OTHER, ARBITER), "The job names 0 guests; shuffler needs exactly one."),
        ((GUEST, HOST, OTHER), "The job names 0 arbiters; shuffler needs exactly one."),
        ((GUEST, ARBITER), "The job names no host; shuffler needs a host without data"),
    ],
)
def test_roles_that_are_missing_are_named(parties, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_federation(parties)


def test_records_count_without_those_of_the_largest_party():
    check_records({GUEST: 10**6, HOST: 60, OTHER: 40}, 100)
    with pytest.raises(
        ValueError, match="Beside the largest party the others bring 99 records, fewer than min_messages, 100"
    ):
        check_records({GUEST: 10**6, HOST: 60, OTHER: 39}, 100)


def test_a_party_takes_no_terms_but_those_of_its_own_job_and_what_they_cost():
    check({"epsilon0": 1.0}, 1.0)
    check({"epsilon": 1.0}, 0.1)
    for asked, *told in (
        ({"epsilon0": 1.0}, 1.1),
        ({"epsilon": 0.3}, 2.0),
        ({"epsilon": 5.0}, 1.0, 0.1),
        ({"epsilon": 9.0}, 1.0, 8.0),
    ):
        with pytest.raises(ValueError, match="The guest sets epsilon0 to"):
            check(asked, *told)
    for name, value in {"min_messages": 10**6, "delta": 0.5, "requests": [], "shuffler": "9"}.items():
        with pytest.raises(ValueError, match=f"{name} must be .*, as in the job, got another one from the guest"):
            check({"epsilon0": 1.0}, 1.0, **{name: value})


def test_the_document_says_what_pooling_costs_and_the_summary_names_every_share():
    share = {"estimate": 0.25, "standard_error": 0.1, "interval": [0.05, 0.45]}
    found = [
        {"column": "income", "kind": "mean", "messages": 9, **share},
        {"column": "age", "kind": "histogram", "messages": 9, "shares": [{"from": 20.0, "to": 30.0, **share}]},
        {"column": "owns_house", "kind": "frequency", "messages": 9, "shares": [{"value": "other", **share}]},
    ]
    asked = Settings(requests(REQUESTS), "10000", 1000, epsilon0=1.0).to_json()
    made = document({"settings": asked, "epsilon0": 1.0, "epsilon": 10.0}, found)
    assert made["meta"]["privacy"]["epsilon if shuffler and server pool what they see"] == 3.0
    facts = summary(made, 4)
    assert (
        facts["mean of income"] == facts["share of age from 20 to 30"] == facts["share of owns_house = other"] == 0.25
    )
    assert facts["records of this party"] == 4 and facts["records of all parties"] == 9
