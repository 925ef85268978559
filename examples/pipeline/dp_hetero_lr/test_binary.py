"""Vertical logistic regression on private labels: who of default_credit's card holders fails to pay?

The guest has the labels and 13 columns, the host 10 columns of the same people. PSI joins them, label_flip replaces one label
in eight (epsilon 2), and dp_hetero_lr trains on what is left, under encryption.

Protected: every label, at epsilon 2, against everybody who sees the job or gets the model; features on their way, by
encryption and masks. Not protected: what final weights say about features. Each party learns its own weights and no scores.

    python -m examples.tables dp_hetero_lr
    python -m examples.pipeline.dp_hetero_lr.test_binary
"""

from fate_client.pipeline import FateFlowPipeline
from fate_client.pipeline.components.fate import PSI, Reader

from examples.settings import load_config, run_example
from fate_dp.pipelines.clients import DPHeteroLR, LabelFlip
from fate_dp.pipelines.jobs.job import run_job, task_metrics


def main(config, namespace=""):
    config = load_config(config)
    both = {"guest": config.guest, "host": config.host}
    pipeline = FateFlowPipeline().set_parties(guest=config.guest, host=[config.host], arbiter=config.arbiter)

    reader_0 = Reader("reader_0", runtime_parties=both)
    reader_0.guest.task_parameters(namespace=f"experiment{namespace}", name="default_credit_hetero_guest")
    reader_0.hosts[0].task_parameters(namespace=f"experiment{namespace}", name="default_credit_hetero_host")
    psi_0 = PSI("psi_0", runtime_parties=both, input_data=reader_0.outputs["output_data"])

    # The guest's operator declared this source and its budget; jobs that flip it at the same epsilon again cost nothing.
    label_flip_0 = LabelFlip(
        "label_flip_0",
        runtime_parties=both,
        epsilon=2.0,
        label_source=f"experiment{namespace}/default_credit_hetero_guest/y",
        input_data=psi_0.outputs["output_data"],
    )
    dp_hetero_lr_0 = DPHeteroLR("dp_hetero_lr_0", train_data=label_flip_0.outputs["output_data"], epochs=config.epochs)

    pipeline.add_tasks([reader_0, psi_0, label_flip_0, dp_hetero_lr_0])
    # pipeline.compile(); pipeline.fit() runs it, too; run_job says why a party refused where it does.
    job = run_job(pipeline, config.flow)

    # The same that FATE-Board shows: loss, epsilon, who was shown what. Then the guest's own weights.
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
