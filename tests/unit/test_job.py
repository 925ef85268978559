"""What the client refuses before it submits a job."""
import pytest

from fate_dp.pipelines.components import DPHeteroLR
from fate_dp.pipelines.hetero_lr import Parties, Tables, TrainingPlan, joined_tables, training_pipeline
from fate_dp.pipelines.job import JobFailed, check_parties

TABLES = Tables("loans", "guest", "host")


def pipeline(**parties):
    from fate_client.pipeline import FateFlowPipeline

    reader, psi = joined_tables(Parties(), TABLES)
    model = DPHeteroLR("model", train_data=psi.outputs["output_data"])
    return FateFlowPipeline().set_parties(**parties).add_tasks([reader, psi, model])


def test_a_sound_pipeline_passes():
    check_parties(training_pipeline(TrainingPlan(Parties(), TABLES, 1.0)))


@pytest.mark.parametrize("parties, sentence", [
    ({"guest": ["9999", "9998"], "host": ["10000"], "arbiter": "10001"}, "names 2 guests; exactly one party"),
    ({"guest": "9999", "host": ["10000"]}, "names 0 arbiters; dp_hetero_lr needs exactly one"),
])
def test_other_parties_are_refused_before_anything_is_submitted(parties, sentence):
    with pytest.raises(JobFailed, match=sentence):
        check_parties(pipeline(**parties))
