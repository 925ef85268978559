"""Vertical linear regression on private numbers: the speed of motors, of which guest and host measured different things.

label_flip with `bounds` replaces every number by a random one between them, so that the mean over many draws is the number
itself; dp_hetero_lr with family gaussian learns from such numbers what it would from the true ones, with more records.

Protected: every number, at epsilon 4, against everybody who sees the job or gets the model. The bounds must be public: take
them from what a motor can do, not from the table. Not protected: what final weights say about features.

    python -m examples.tables dp_hetero_lr
    python -m examples.pipeline.dp_hetero_lr.test_regression
"""

from fate_client.pipeline import FateFlowPipeline
from fate_client.pipeline.components.fate import PSI, Reader

from examples.settings import load_config, run_example
from fate_dp.pipelines.clients import DPHeteroLR, LabelFlip
from fate_dp.pipelines.jobs.job import run_job, task_metrics


def main(config, namespace=""):
    config = load_config(config)
    both = {"guest": config.guest, "host": config.host}
    # The solver of dp_hetero_lr that is taken by default needs no arbiter.
    pipeline = FateFlowPipeline().set_parties(guest=config.guest, host=[config.host])

    reader_0 = Reader("reader_0", runtime_parties=both)
    reader_0.guest.task_parameters(namespace=f"experiment{namespace}", name="motor_hetero_guest")
    reader_0.hosts[0].task_parameters(namespace=f"experiment{namespace}", name="motor_hetero_host")
    psi_0 = PSI("psi_0", runtime_parties=both, input_data=reader_0.outputs["output_data"])

    label_flip_0 = LabelFlip(
        "label_flip_0",
        runtime_parties=both,
        epsilon=4.0,
        bounds=[-2.0, 2.0],
        label_source=f"experiment{namespace}/motor_hetero_guest/motor_speed",
        input_data=psi_0.outputs["output_data"],
    )
    dp_hetero_lr_0 = DPHeteroLR(
        "dp_hetero_lr_0", train_data=label_flip_0.outputs["output_data"], epochs=config.epochs, family="gaussian"
    )

    pipeline.add_tasks([reader_0, psi_0, label_flip_0, dp_hetero_lr_0])
    job = run_job(pipeline, config.flow)

    # The mean squared error of the last epoch holds the noise of the numbers, which the summary names.
    metrics = task_metrics(config.flow, job.job_id, "guest", config.guest, "dp_hetero_lr_0")
    summary = next(record["data"] for record in metrics if record["name"] == "summary")
    weights = pipeline.get_task_info("dp_hetero_lr_0").get_output_model()["output_model"]["data"]["estimator"]
    for name, value in summary.items():
        print(f"{name}: {value}")
    for name, (weight,) in zip(weights["header"], weights["param"]["coef_"]):
        print(f"weight of {name}: {weight:+.4f}")
    return pipeline


if __name__ == "__main__":
    raise SystemExit(run_example(main))
