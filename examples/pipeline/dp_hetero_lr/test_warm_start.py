"""Warm start: a second training that begins with the weights of a first one, on the same flips of labels.

Both trainings are tasks of one job; a deployed model of an earlier job is given the same way. The second one costs no
further epsilon, since it reads the same flips.

Protected: every label, at epsilon 2 for both trainings together. Not protected: what final weights say about features, and
here each party sees its own weights twice.

    python -m examples.tables dp_hetero_lr
    python -m examples.pipeline.dp_hetero_lr.test_warm_start
"""

from fate_client.pipeline import FateFlowPipeline
from fate_client.pipeline.components.fate import PSI, Reader

from examples.settings import load_config, run_example
from fate_dp.pipelines.clients import DPHeteroLR, LabelFlip
from fate_dp.pipelines.jobs.job import run_job, task_metrics


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
        epsilon=2.0,
        label_source=f"fate_dp_demo{namespace}/guest_train/y",
        input_data=psi_0.outputs["output_data"],
    )

    flipped = label_flip_0.outputs["output_data"]
    dp_hetero_lr_0 = DPHeteroLR("dp_hetero_lr_0", train_data=flipped, epochs=3, tol=0)
    dp_hetero_lr_1 = DPHeteroLR(
        "dp_hetero_lr_1", train_data=flipped, epochs=3, tol=0, warm_start_model=dp_hetero_lr_0.outputs["output_model"]
    )

    pipeline.add_tasks([reader_0, psi_0, label_flip_0, dp_hetero_lr_0, dp_hetero_lr_1])
    job = run_job(pipeline, config.flow)

    losses = {task: losses_of(config, job, task) for task in ("dp_hetero_lr_0", "dp_hetero_lr_1")}
    for task, values in losses.items():
        print(f"{task}, loss of each epoch: {', '.join(f'{value:.4f}' for value in values)}")
    return pipeline


def losses_of(config, job, task) -> list:
    """What the guest saw in each epoch: the mean loss on flipped labels."""
    metrics = task_metrics(config.flow, job.job_id, "guest", config.guest, task)
    return [point["metric"] for record in metrics if record["type"] == "loss" for point in record["data"]]


if __name__ == "__main__":
    raise SystemExit(run_example(main))
