"""Private statistics in the shuffle model: a mean and a histogram over the records of two banks, exact for nobody.

Every record answers each question at random, and its party seals the answers for the arbiter. A host without data mixes the
sealed answers of both banks; the arbiter opens them and cannot tell whose each one is, and that multiplies the privacy.

Protected: every record, at epsilon 1 and delta 1e-6 (replace-one) for all questions together, against the arbiter and whoever
sees the result, as long as shuffler and arbiter do not pool what they saw. Not protected: how many records there are.

    python -m examples.tables shuffler
    python -m examples.pipeline.shuffler.test_shuffler
"""

from fate_client.pipeline import FateFlowPipeline
from fate_client.pipeline.components.fate import Reader

from examples.settings import load_config, run_example
from fate_dp.pipelines.clients import Shuffler
from fate_dp.pipelines.jobs.job import run_job


def main(config, namespace=""):
    config = load_config(config)
    shuffler, bank = config.hosts[:2]
    pipeline = FateFlowPipeline().set_parties(guest=config.guest, host=[bank, shuffler], arbiter=config.arbiter)

    # The shuffler and the arbiter have no tables.
    reader_0 = Reader("reader_0", runtime_parties={"guest": config.guest, "host": [bank]})
    reader_0.guest.task_parameters(namespace=f"experiment{namespace}", name="default_credit_homo_guest")
    reader_0.hosts[0].task_parameters(namespace=f"experiment{namespace}", name="default_credit_homo_host_2")

    # Ranges must be public: values outside count as the nearer end. x0 is the credit limit, x4 the age, both standardised.
    shuffler_0 = Shuffler(
        "shuffler_0",
        shuffler=shuffler,
        epsilon=1.0,
        min_messages=800,
        requests=[
            {"column": "x0", "kind": "mean", "low": -2.0, "high": 4.0},
            {"column": "x4", "kind": "histogram", "low": -2.0, "high": 4.0, "bins": 3},
        ],
        input_data=reader_0.outputs["output_data"],
    )

    pipeline.add_tasks([reader_0, shuffler_0])
    run_job(pipeline, config.flow)

    statistics = pipeline.get_task_info("shuffler_0").get_output_model()["output_model"]["data"]["statistics"]
    mean, histogram = statistics
    print(
        f"mean of x0: {mean['estimate']:.3f}, standard error {mean['standard_error']:.3f}, of {mean['messages']} records"
    )
    for share in histogram["shares"]:
        print(f"share of x4 from {share['from']} to {share['to']}: {share['estimate']:.3f}")
    return pipeline


if __name__ == "__main__":
    raise SystemExit(run_example(main))
