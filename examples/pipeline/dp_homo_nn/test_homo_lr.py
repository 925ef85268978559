"""Horizontal training: three banks with the same columns of different card holders train one logistic regression.

In each round every party adds up the clipped gradients of a random half of its records, adds its share of the noise, and
masks the sum; the arbiter sees nothing but the noisy total of all three (aggregation secure_sum).

Protected: every record as a whole, features and label, at epsilon 2 and delta 1e-6 (add-or-remove), against the arbiter, the
other parties and everybody who gets the model. Not protected: how many records each party has; scores of own rows at the guest.

    python -m examples.tables dp_homo_nn
    python -m examples.pipeline.dp_homo_nn.test_homo_lr
"""

from fate_client.pipeline import FateFlowPipeline
from fate_client.pipeline.components.fate import Evaluation, Reader

from examples.settings import load_config, run_example
from fate_dp.pipelines.clients import DPHomoNN
from fate_dp.pipelines.jobs.job import run_job, task_metrics


def main(config, namespace=""):
    config = load_config(config)
    pipeline = FateFlowPipeline().set_parties(guest=config.guest, host=list(config.hosts[:2]), arbiter=config.arbiter)

    reader_0 = Reader("reader_0", runtime_parties={"guest": config.guest, "host": list(config.hosts[:2])})
    reader_0.guest.task_parameters(namespace=f"experiment{namespace}", name="default_credit_homo_guest")
    for number in (0, 1):
        reader_0.hosts[number].task_parameters(
            namespace=f"experiment{namespace}", name=f"default_credit_homo_host_{number + 1}"
        )

    # The number of records is public: the noise is made for it. Learning rate and clip are settled from public numbers.
    dp_homo_nn_0 = DPHomoNN(
        "dp_homo_nn_0",
        records=3000,
        batch_size=1500,
        rounds=config.rounds,
        epsilon=2.0,
        aggregation="secure_sum",
        train_data=reader_0.outputs["output_data"],
    )
    # It holds the scores of the guest's own rows against their true labels, which are the guest's to know.
    evaluation_0 = Evaluation(
        "evaluation_0",
        runtime_parties={"guest": config.guest},
        default_eval_setting="binary",
        input_datas=[dp_homo_nn_0.outputs["train_output_data"]],
    )

    pipeline.add_tasks([reader_0, dp_homo_nn_0, evaluation_0])
    job = run_job(pipeline, config.flow)

    metrics = task_metrics(config.flow, job.job_id, "guest", config.guest, "dp_homo_nn_0")
    summary = next(record["data"] for record in metrics if record["name"] == "summary")
    for name, value in summary.items():
        print(f"{name}: {value}")
    return pipeline


if __name__ == "__main__":
    raise SystemExit(run_example(main))
