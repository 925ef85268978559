"""Flipback: a first model guesses which labels were flipped, and a second one trains on what it guesses.

The component flipback reads flipped labels and the first model's scores, and gives every record the probability that its
true label was 1. (Within one training, `flipback` of dp_hetero_lr does it every few epochs.)

Protected: every label, at epsilon 2 for both models: flipback computes on what was released, and costs nothing. Not protected:
joint scores: the guest sees those of the first model, which the host's ledger counts; what final weights say about features.

    python -m examples.tables flipback
    python -m examples.pipeline.flipback.test_flipback
"""

from fate_client.pipeline import FateFlowPipeline
from fate_client.pipeline.components.fate import PSI, Reader

from examples.settings import load_config, run_example
from fate_dp.pipelines.clients import DPHeteroLR, Flipback, LabelFlip
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

    flipped = label_flip_0.outputs["output_data"]
    first = DPHeteroLR("first", train_data=flipped, epochs=config.epochs, flipback={"mode": "none"}, train_scores=True)
    flipback_0 = Flipback(
        "flipback_0",
        runtime_parties=both,
        mode="posterior",
        input_data=flipped,
        scores=first.outputs["train_output_data"],
    )
    second = DPHeteroLR(
        "second", train_data=flipback_0.outputs["output_data"], epochs=config.epochs, flipback={"mode": "none"}
    )

    pipeline.add_tasks([reader_0, psi_0, label_flip_0, first, flipback_0, second])
    job = run_job(pipeline, config.flow)

    revised = task_output_data(config.flow, job.job_id, "guest", config.guest, "flipback_0")["output_data"]
    print("labels that the second model learns from, as probabilities of 1:")
    print(revised[["id", "y"]].head(8).to_string(index=False))
    return pipeline


if __name__ == "__main__":
    raise SystemExit(run_example(main))
