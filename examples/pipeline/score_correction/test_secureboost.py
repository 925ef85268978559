"""FATE's own boosted trees on private labels, with probabilities that say what true labels are.

PSI joins patients of both sides, label_flip replaces one label in eight (epsilon 2), FATE's HeteroSecureBoost trains on what is
left, and score_correction turns its probabilities of flips into those of true labels.

Protected: every label, at epsilon 2, whatever the trainer shows or anybody computes. Not protected: SecureBoost shows the host
the tree node of every record, and the guest sums of the hosts' bins and on which side of a host's split each record falls.

    python -m examples.tables score_correction
    python -m examples.pipeline.score_correction.test_secureboost
"""

from fate_client.pipeline import FateFlowPipeline
from fate_client.pipeline.components.fate import PSI, HeteroSecureBoost, Reader

from examples.settings import load_config, run_example
from fate_dp.pipelines.clients import LabelFlip, ScoreCorrection
from fate_dp.pipelines.jobs.job import run_job, task_output_data

EPSILON = 2.0


def main(config, namespace=""):
    config = load_config(config)
    both = {"guest": config.guest, "host": config.host}
    pipeline = FateFlowPipeline().set_parties(guest=config.guest, host=[config.host])

    reader_0 = Reader("reader_0", runtime_parties=both)
    reader_0.guest.task_parameters(namespace=f"fate_dp_demo{namespace}", name="guest_train")
    reader_0.hosts[0].task_parameters(namespace=f"fate_dp_demo{namespace}", name="host_train")
    psi_0 = PSI("psi_0", runtime_parties=both, input_data=reader_0.outputs["output_data"])
    label_flip_0 = LabelFlip(
        "label_flip_0",
        runtime_parties=both,
        epsilon=EPSILON,
        label_source=f"fate_dp_demo{namespace}/guest_train/y",
        input_data=psi_0.outputs["output_data"],
    )
    # Few bins and shallow trees learn less of single flips.
    secureboost_0 = HeteroSecureBoost(
        "secureboost_0", num_trees=4, max_depth=2, max_bin=8, train_data=label_flip_0.outputs["output_data"]
    )
    score_correction_0 = ScoreCorrection(
        "score_correction_0",
        runtime_parties={"guest": config.guest},
        epsilon=EPSILON,
        input_data=secureboost_0.outputs["train_output_data"],
    )

    pipeline.add_tasks([reader_0, psi_0, label_flip_0, secureboost_0, score_correction_0])
    job = run_job(pipeline, config.flow)

    where = config.flow, job.job_id, "guest", config.guest
    for task, output in (("secureboost_0", "train_output_data"), ("score_correction_0", "output_data")):
        table = task_output_data(*where, task)[output]
        print(f"{task}: {table['predict_score'].astype(float).describe()[['min', 'mean', 'max']].round(3).to_dict()}")
    return pipeline


if __name__ == "__main__":
    raise SystemExit(run_example(main))
