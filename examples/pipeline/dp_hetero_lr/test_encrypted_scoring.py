"""Scores of people whom the hosts do not know: the guest alone has their table, with the hosts' columns in it.

Training is as in the other examples, with scoring encrypted. To predict, the guest encrypts the host's columns of its new
patients; the host multiplies them by its weights without seeing them, and the guest decrypts the sum.

Protected: every training label, at epsilon 2; the new patients against the host, by encryption (it learns how many there
are). Not protected: the host's weights, of which each score tells something; as many as the host has columns tell all, so its
ledger counts them against a cap.

    python -m examples.tables dp_hetero_lr
    python -m examples.pipeline.dp_hetero_lr.test_encrypted_scoring
"""

from fate_client.pipeline import FateFlowPipeline
from fate_client.pipeline.components.fate import PSI, Reader
from fate_client.pipeline.interface import DataWarehouseChannel

from examples.settings import load_config, run_example
from fate_dp.pipelines.clients import DPHeteroLR, LabelFlip
from fate_dp.pipelines.jobs.job import run_job, task_output_data


def main(config, namespace=""):
    config = load_config(config)
    both = {"guest": config.guest, "host": config.host}
    pipeline = FateFlowPipeline().set_parties(guest=config.guest, host=[config.host])

    # Tables can be named where they are read: PSI then needs no reader before it.
    psi_0 = PSI(
        "psi_0",
        runtime_parties=both,
        input_data=[
            DataWarehouseChannel(
                name="guest_train", namespace=f"fate_dp_demo{namespace}", parties={"guest": [config.guest]}
            ),
            DataWarehouseChannel(
                name="host_train", namespace=f"fate_dp_demo{namespace}", parties={"host": [config.host]}
            ),
        ],
    )
    label_flip_0 = LabelFlip(
        "label_flip_0",
        runtime_parties=both,
        epsilon=2.0,
        label_source=f"fate_dp_demo{namespace}/guest_train/y",
        input_data=psi_0.outputs["output_data"],
    )
    dp_hetero_lr_0 = DPHeteroLR(
        "dp_hetero_lr_0", train_data=label_flip_0.outputs["output_data"], epochs=config.epochs, scoring="encrypted"
    )
    pipeline.add_tasks([psi_0, label_flip_0, dp_hetero_lr_0])
    run_job(pipeline, config.flow)

    # Only the model is deployed; the prediction has a reader of its own, at the guest.
    pipeline.deploy([dp_hetero_lr_0])
    deployed = pipeline.get_deployed_pipeline()
    reader_1 = Reader("reader_1", runtime_parties={"guest": config.guest})
    reader_1.guest.task_parameters(namespace=f"fate_dp_demo{namespace}", name="new_patients")
    deployed.dp_hetero_lr_0.test_data = reader_1.outputs["output_data"]
    prediction = FateFlowPipeline().set_parties(guest=config.guest, host=[config.host])
    prediction.add_tasks([reader_1, deployed])
    job = run_job(prediction, config.flow)

    scored = task_output_data(config.flow, job.job_id, "guest", config.guest, "dp_hetero_lr_0")["test_output_data"]
    print(scored[["id", "predict_score", "predict_result"]].to_string(index=False))
    return pipeline, prediction


if __name__ == "__main__":
    raise SystemExit(run_example(main))
