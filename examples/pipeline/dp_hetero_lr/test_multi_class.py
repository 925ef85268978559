"""More than two classes on private labels: which of four kinds of vehicle throws this shadow?

The guest has the labels, 0 to 3, and nine columns, the host nine more of the same vehicles. label_flip keeps seven labels in
ten (epsilon 2) and makes the others one of the other classes; dp_hetero_lr trains one model for each class against the rest,
in one pass over encrypted rows.

Protected: every label, at epsilon 2 for all four models together, against everybody who sees the job or gets a model.
Not protected: what final weights and the scores of training rows, which the guest asks for here, say about features; the
host's operator allowed scores of so many models, and a job shows four.

    python -m examples.tables dp_hetero_lr
    python -m examples.pipeline.dp_hetero_lr.test_multi_class
"""

from fate_client.pipeline import FateFlowPipeline
from fate_client.pipeline.components.fate import PSI, Evaluation, Reader

from examples.settings import load_config, run_example
from fate_dp.pipelines.clients import DPHeteroLR, LabelFlip
from fate_dp.pipelines.jobs.job import run_job, task_metrics


def main(config, namespace=""):
    config = load_config(config)
    both = {"guest": config.guest, "host": config.host}
    pipeline = FateFlowPipeline().set_parties(guest=config.guest, host=[config.host], arbiter=config.arbiter)

    reader_0 = Reader("reader_0", runtime_parties=both)
    reader_0.guest.task_parameters(namespace=f"experiment{namespace}", name="vehicle_scale_hetero_guest")
    reader_0.hosts[0].task_parameters(namespace=f"experiment{namespace}", name="vehicle_scale_hetero_host")
    psi_0 = PSI("psi_0", runtime_parties=both, input_data=reader_0.outputs["output_data"])

    # The classes are declared, not found: which labels occur is nobody's business.
    label_flip_0 = LabelFlip(
        "label_flip_0",
        runtime_parties=both,
        epsilon=2.0,
        classes=[0, 1, 2, 3],
        label_source=f"experiment{namespace}/vehicle_scale_hetero_guest/y",
        input_data=psi_0.outputs["output_data"],
    )
    dp_hetero_lr_0 = DPHeteroLR(
        "dp_hetero_lr_0", train_data=label_flip_0.outputs["output_data"], epochs=config.epochs, train_scores=True
    )
    # It compares with the flips, as the guest's ledger knows no others.
    evaluation_0 = Evaluation(
        "evaluation_0",
        runtime_parties={"guest": config.guest},
        default_eval_setting="multi",
        input_datas=[dp_hetero_lr_0.outputs["train_output_data"]],
    )

    pipeline.add_tasks([reader_0, psi_0, label_flip_0, dp_hetero_lr_0, evaluation_0])
    job = run_job(pipeline, config.flow)

    metrics = task_metrics(config.flow, job.job_id, "guest", config.guest, "dp_hetero_lr_0")
    for name, value in next(record["data"] for record in metrics if record["name"] == "summary").items():
        print(f"{name}: {value}")
    print(pipeline.get_task_info("dp_hetero_lr_0").get_output_data()["train_output_data"].head())
    return pipeline


if __name__ == "__main__":
    raise SystemExit(run_example(main))
