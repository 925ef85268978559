"""FATE's own components over small tables that are made here, as a bank's would have around ours: three jobs."""

from __future__ import annotations

import csv
import random
from pathlib import Path

from fate_dp.pipelines.jobs.upload import TableMeta, upload_table

GUEST, HOST, ARBITER = "9999", "10000", "10000"
NAMESPACE = "fenced"
ROWS = 100
# As FATE's own examples have it, but for the numbers of rounds.
GRADIENT_DESCENT = {
    "epochs": 2,
    "optimizer": {"method": "SGD", "optimizer_params": {"lr": 0.1}},
    "init_param": {"method": "zeros", "fit_intercept": True},
}
SHARED_DESCENT = {"epochs": 2, "learning_rate": 0.1, "init_param": {"method": "zeros", "fit_intercept": True}}
# What each job trains and scores with.
SCORED = {
    "preparation": (),
    "vertical": (
        *("coordinated_lr_0", "coordinated_linr_0", "sshe_lr_0", "sshe_linr_0"),
        *("secureboost_0", "secureboost_1", "hetero_nn_0", "hetero_nn_1"),
    ),
    "horizontal": ("homo_lr_0", "homo_nn_0"),
}


def written_tables(folder: Path) -> dict[str, Path]:
    """Two tables of the same records with different columns, and two of different records with the same columns."""
    rows = {"guest_rows": range(ROWS), "host_rows": range(ROWS, 2 * ROWS)}
    joined = {
        "guest": write(folder / "guest.csv", range(ROWS), ("a", "b", "c"), labels=True),
        "host": write(folder / "host.csv", range(10, ROWS + 10), ("d", "e", "f")),
    }
    return joined | {
        name: write(folder / f"{name}.csv", ids, ("a", "b", "c"), labels=True) for name, ids in rows.items()
    }


def upload_tables(folder: Path, address, home) -> None:
    """All of them."""
    for name, path in written_tables(folder).items():
        upload_table(address, path, NAMESPACE, name, TableMeta(label_name=None if name == "host" else "y"), home=home)


def write(path: Path, ids, columns, labels: bool = False) -> Path:
    """A table of normal numbers; the label is the sign of the first column."""
    draw = random.Random(path.name)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", *(["y"] if labels else []), *columns])
        for each in ids:
            row = [draw.gauss(0, 1) for _ in columns]
            table.writerow([each, *([int(row[0] > 0)] if labels else []), *row])
    return path


def pipeline(name: str):
    """One of the jobs of `SCORED`."""
    from fate_client.pipeline import FateFlowPipeline

    tasks = {"preparation": preparation, "vertical": vertical, "horizontal": horizontal}[name]()
    scored = [each.outputs["train_output_data"] for each in tasks if each.task_name in SCORED[name]]
    job = FateFlowPipeline().set_parties(guest=GUEST, host=HOST, arbiter=ARBITER)
    return job.add_tasks([*tasks, *([evaluation(scored)] if scored else [])])


def joined_records():
    """Both parties' columns of their common records, and these in one scale."""
    from fate_client.pipeline.components.fate import PSI, FeatureScale

    read = reader("reader_0", "guest", "host")
    common = PSI("psi_0", input_data=read.outputs["output_data"])
    scaled = FeatureScale("feature_scale_0", method="standard", train_data=common.outputs["output_data"])
    return [read, common, scaled], scaled.outputs["train_output_data"]


def preparation() -> list:
    """Statistics, correlation, binning with the labels' part in it, selection by both, splitting and sampling."""
    from fate_client.pipeline.components.fate import (
        DataSplit,
        FeatureCorrelation,
        HeteroFeatureBinning,
        HeteroFeatureSelection,
        Sample,
        Statistics,
    )

    first, rows = joined_records()
    summary = Statistics("statistics_0", input_data=rows, metrics=["mean", "std", "median"])
    binned = HeteroFeatureBinning("binning_0", method="quantile", n_bins=4, transform_method="bin_idx", train_data=rows)
    selected = HeteroFeatureSelection(
        "selection_0",
        method=["iv", "statistics"],
        train_data=rows,
        input_models=[binned.outputs["output_model"], summary.outputs["output_model"]],
        iv_param={"metrics": "iv", "filter_type": "threshold", "threshold": 0.0},
        statistic_param={"metrics": ["std"], "filter_type": "threshold", "threshold": 0.0},
    )
    related = FeatureCorrelation("correlation_0", input_data=rows)
    split = DataSplit("split_0", train_size=0.6, validate_size=0.4, random_state=1, input_data=rows)
    sampled = Sample("sample_0", frac=0.5, random_state=1, input_data=rows)
    return [*first, summary, binned, selected, related, split, sampled]


def vertical() -> list:
    """Every way in which FATE trains on joined columns."""
    from fate_client.pipeline.components.fate import SSHELR, CoordinatedLinR, CoordinatedLR, HeteroSecureBoost, SSHELinR

    first, rows = joined_records()
    boosted = {"num_trees": 2, "max_depth": 2, "max_bin": 4, "train_data": rows}
    return [
        *first,
        CoordinatedLR("coordinated_lr_0", train_data=rows, **GRADIENT_DESCENT),
        CoordinatedLinR("coordinated_linr_0", train_data=rows, **GRADIENT_DESCENT),
        SSHELR("sshe_lr_0", train_data=rows, **SHARED_DESCENT),
        SSHELinR("sshe_linr_0", train_data=rows, **SHARED_DESCENT),
        HeteroSecureBoost("secureboost_0", **boosted),
        HeteroSecureBoost(
            "secureboost_1",
            gh_pack=False,
            split_info_pack=False,
            he_param={"kind": "ou", "key_length": 1024},
            **boosted,
        ),
        *(two_sided_network(f"hetero_nn_{number}", rows, shared) for number, shared in enumerate((False, True))),
    ]


def two_sided_network(name: str, rows, shared: bool):
    """A network whose lower layers stand at both parties, which meet behind passports or by secret shares."""
    from fate_client.pipeline.components.fate import HeteroNN
    from fate_client.pipeline.components.fate.hetero_nn import get_config_of_default_runner
    from fate_client.pipeline.components.fate.nn.algo_params import FedPassArgument, SSHEArgument, TrainingArguments
    from fate_client.pipeline.components.fate.nn.torch import nn, optim
    from fate_client.pipeline.components.fate.nn.torch.base import Sequential

    passports = FedPassArgument(
        layer_type="linear", in_channels_or_features=4, hidden_features=4, out_channels_or_features=4
    )
    shares = SSHEArgument(guest_in_features=4, host_in_features=4, out_features=4)
    # As honest jobs have them, which the gate before every task must let through.
    schedule = {"lr_scheduler_type": "cosine"} if shared else {}
    common = {
        "bottom_model": nn.Linear(3, 4) if shared else Sequential(nn.Linear(3, 4)),
        "optimizer": optim.Adam(lr=0.1) if shared else optim.SGD(lr=0.1),
        "training_args": TrainingArguments(num_train_epochs=1, per_device_train_batch_size=50, **schedule),
    }
    top = Sequential(nn.Linear(4, 1), nn.Sigmoid())
    task = HeteroNN(name, train_data=rows)
    task.guest.task_parameters(
        runner_conf=get_config_of_default_runner(
            top_model=top, loss=nn.BCELoss(), agglayer_arg=shares if shared else None, **common
        )
    )
    task.hosts[0].task_parameters(
        runner_conf=get_config_of_default_runner(agglayer_arg=shares if shared else passports, **common)
    )
    return task


def horizontal() -> list:
    """Tables one below the other at each party, regression and a network over both parties' records."""
    from fate_client.pipeline.components.fate import HomoLR, HomoNN, Union

    read = reader("reader_1", "guest_rows", "host_rows")
    rows = read.outputs["output_data"]
    united = Union("union_0", input_datas=[rows, rows])
    regression = HomoLR("homo_lr_0", train_data=rows, batch_size=50, **GRADIENT_DESCENT)
    network = HomoNN("homo_nn_0", train_data=rows, runner_conf=network_settings())
    return [read, united, regression, network]


def reader(name: str, guest_table: str, host_table: str):
    """A task that reads a table at each party."""
    from fate_client.pipeline.components.fate import Reader

    task = Reader(name, runtime_parties={"guest": GUEST, "host": HOST})
    task.guest.task_parameters(namespace=NAMESPACE, name=guest_table)
    task.hosts[0].task_parameters(namespace=NAMESPACE, name=host_table)
    return task


def evaluation(scored):
    """The guest's comparison of scores with labels."""
    from fate_client.pipeline.components.fate import Evaluation

    return Evaluation(
        "evaluation_0", runtime_parties={"guest": GUEST}, default_eval_setting="binary", input_datas=scored
    )


def network_settings() -> dict:
    """One layer, averaged over the parties after each epoch, as FATE's own runner does it."""
    from fate_client.pipeline.components.fate.homo_nn import get_config_of_default_runner
    from fate_client.pipeline.components.fate.nn.algo_params import FedAVGArguments, TrainingArguments
    from fate_client.pipeline.components.fate.nn.torch import nn, optim
    from fate_client.pipeline.components.fate.nn.torch.base import Sequential

    return get_config_of_default_runner(
        algo="fedavg",
        model=Sequential(nn.Linear(3, 1), nn.Sigmoid()),
        loss=nn.BCELoss(),
        optimizer=optim.SGD(lr=0.1),
        training_args=TrainingArguments(num_train_epochs=2, per_device_train_batch_size=50),
        fed_args=FedAVGArguments(),
        task_type="binary",
    )
