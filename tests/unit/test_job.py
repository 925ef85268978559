"""What the client refuses before it submits a job."""

import pytest

from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.pipelines.clients import DPHeteroLR
from fate_dp.pipelines.jobs.flow import connect
from fate_dp.pipelines.jobs.job import JobFailed, check_parties, print_progress
from fate_dp.pipelines.jobs.ready import Parties, Tables, TrainingPlan, joined_tables, training_pipeline

TABLES = Tables("loans", "guest", "host")


def pipeline(solver=None, **parties):
    from fate_client.pipeline import FateFlowPipeline

    reader, psi = joined_tables(Parties(), TABLES)
    model = DPHeteroLR("model", solver=solver, train_data=psi.outputs["output_data"])
    return FateFlowPipeline().set_parties(**parties).add_tasks([reader, psi, model])


def test_a_sound_pipeline_passes():
    check_parties(training_pipeline(TrainingPlan(Parties(), TABLES, 1.0)))


def test_the_cross_product_needs_no_arbiter():
    check_parties(pipeline(guest="9999", host=["10000"]))


@pytest.mark.parametrize(
    "parameters, sentence",
    [
        ({"solver": "per_epoch", "family": "gaussian"}, "family gaussian needs solver cross_product"),
        (
            {"sigmoid": "exact", "optimizer": {"method": "adam"}},
            "optimizer.method is adam, which sigmoid exact cannot have",
        ),
        (
            {"solver": "cross_product", "early_stop": "weight_diff"},
            "early_stop is weight_diff, which solver cross_product",
        ),
    ],
)
def test_parameters_that_no_solver_can_serve_are_refused_by_the_class(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        DPHeteroLR("model", **parameters)


@pytest.mark.parametrize(
    "parties, sentence",
    [
        ({"guest": ["9999", "9998"], "host": ["10000"], "arbiter": "10001"}, "names 2 guests; exactly one party"),
        (
            {"guest": "9999", "host": ["10000"], "solver": "per_epoch"},
            "names no arbiter; dp_hetero_lr with solver per_epoch",
        ),
        (
            {"guest": "9999", "host": ["10000"], "arbiter": ["1", "2"]},
            "names 2 arbiters; dp_hetero_lr takes at most one",
        ),
    ],
)
def test_other_parties_are_refused_before_anything_is_submitted(parties, sentence):
    with pytest.raises(JobFailed, match=sentence):
        check_parties(pipeline(**parties))


def test_scores_of_training_rows_are_connected_only_where_the_guest_gets_them():
    reader, psi = joined_tables(Parties(), TABLES)
    without, with_scores, validated = (
        DPHeteroLR(name, train_data=psi.outputs["output_data"], **given)
        for name, given in (
            ("no scores", {}),
            ("scores", {"train_scores": True}),
            ("validated", {"validate_data": psi.outputs["output_data"]}),
        )
    )
    with pytest.raises(ValueError, match="no scores has no train_output_data, .*; set train_scores=True"):
        without.outputs["train_output_data"]
    assert without.outputs["output_model"]
    assert with_scores.outputs["train_output_data"] and validated.outputs["train_output_data"]
    tasks = training_pipeline(TrainingPlan(Parties(), TABLES, 1.0)).tasks
    assert "evaluation_0" not in tasks
    assert "evaluation_0" in training_pipeline(TrainingPlan(Parties(), TABLES, 1.0, {"train_scores": True})).tasks


def test_an_address_may_be_text_wherever_a_server_is_asked():
    clients = [connect(address) for address in ("127.0.0.1:9380", FlowAddress("127.0.0.1", 9380))]
    assert [(client.ip, client.port) for client in clients] == [("127.0.0.1", 9380)] * 2


def test_progress_is_a_line_for_what_begins_and_what_ends(capsys):
    for status in ("waiting", "running", "success"):
        print_progress("psi_0", status, 2.5)
    assert capsys.readouterr().out.splitlines() == [
        "    2.5 s  psi_0                    running",
        "    2.5 s  psi_0                    success",
    ]
