"""Training on records that neither party knows to be common: align joins two tables into shares, share_lr trains on them.

PSI tells both parties which ids they have in common. align does not: each gets random numbers that add up to the joined rows
with the other's, in random order, and share_lr trains a logistic regression on these shares under encryption.

Protected: which records matched, and all values, by secret sharing and encryption; every label, at epsilon 2, against whoever
gets the model. Not protected: how many records matched (hide_size hides it), and what the final weights say about features.

    python -m examples.tables share_lr
    python -m examples.pipeline.share_lr.test_align_share_lr
"""

from fate_client.pipeline import FateFlowPipeline
from fate_client.pipeline.components.fate import Reader

from examples.settings import load_config, run_example
from fate_dp.pipelines.clients import Align, LabelFlip, ShareLR
from fate_dp.pipelines.jobs.job import run_job


def main(config, namespace=""):
    config = load_config(config)
    # Shares are of two parties, and nobody helps them.
    pipeline = FateFlowPipeline().set_parties(guest=config.guest, host=[config.host])

    reader_0 = Reader("reader_0")
    reader_0.guest.task_parameters(namespace=f"fate_dp_demo{namespace}", name="guest_train")
    reader_0.hosts[0].task_parameters(namespace=f"fate_dp_demo{namespace}", name="host_train")
    # Labels are flipped before the join, so that the flip of every record is the same whatever it is joined with.
    label_flip_0 = LabelFlip(
        "label_flip_0",
        epsilon=2.0,
        label_source=f"fate_dp_demo{namespace}/guest_train/y",
        input_data=reader_0.outputs["output_data"],
    )
    align_0 = Align("align_0", input_data=label_flip_0.outputs["output_data"])
    # The weights are opened to the guest alone; `both`, `host` and `nobody` are the other choices.
    share_lr_0 = ShareLR(
        "share_lr_0",
        train_data=align_0.outputs["output_data"],
        alignment=align_0.outputs["alignment"],
        epochs=config.epochs,
        reveal="guest",
    )

    pipeline.add_tasks([reader_0, label_flip_0, align_0, share_lr_0])
    run_job(pipeline, config.flow)

    shares = pipeline.get_task_info("align_0").get_output_data()["output_data"]
    model = pipeline.get_task_info("share_lr_0").get_output_model()["output_model"]["data"]["estimator"]
    print("one row of the guest's shares, which are noise without the host's:")
    print(shares.iloc[0, :6].to_string())
    for name, (weight,) in zip(model["header"], model["param"]["coef_"]):
        print(f"weight of {name}: {weight:+.4f}")
    return pipeline


if __name__ == "__main__":
    raise SystemExit(run_example(main))
