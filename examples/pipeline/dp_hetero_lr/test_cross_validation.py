"""Cross-validation on private labels: three folds of breast cancer's records, each scored by a model of the other two.

Protected: every label, at epsilon 2 for all folds together, since they share one flip. Not protected: what final weights say
about features, and joint scores: the guest sees the score of each record once. Every fold is another model, and the host's
ledger counts each of them against its cap.

Scores are compared with flipped labels: use the figures to compare settings, not as those on true labels.

    python -m examples.tables dp_hetero_lr
    python -m examples.pipeline.dp_hetero_lr.test_cross_validation
"""

from fate_client.pipeline import FateFlowPipeline
from fate_client.pipeline.components.fate import PSI, Reader

from examples.settings import load_config, run_example
from fate_dp.pipelines.clients import DPHeteroLR, LabelFlip
from fate_dp.pipelines.jobs.job import run_job, task_output_data


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
    # The same folds in every run, so that a repetition shows no further models.
    dp_hetero_lr_0 = DPHeteroLR(
        "dp_hetero_lr_0",
        cv_data=label_flip_0.outputs["output_data"],
        epochs=config.epochs,
        flipback={"mode": "none"},
        cv_param={"n_splits": 3, "shuffle": True, "random_state": 7},
    )

    pipeline.add_tasks([reader_0, psi_0, label_flip_0, dp_hetero_lr_0])
    job = run_job(pipeline, config.flow)

    folds = task_output_data(config.flow, job.job_id, "guest", config.guest, "dp_hetero_lr_0")["cv_output_datas"]
    for number, fold in enumerate(folds):
        agree = (fold["predict_result"].astype(float) == fold["label"].astype(float)).mean()
        print(f"fold {number}: {len(fold)} records, {agree:.3f} of predictions agree with flipped labels")
    return pipeline


if __name__ == "__main__":
    raise SystemExit(run_example(main))
