"""Three jobs whose views are attacked: FATE's regression on labels, on flips of them, and horizontal training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from fate_dp.pipelines.jobs.upload import TableMeta, upload_table

# Parties of their own, so that no other file's policies or ledgers are touched.
GUEST, HOST, ARBITER = "9981", "9982", "9983"
NAMESPACE, SOURCE = "attacked", "attacked/guest/bought"
ROWS, OTHERS = 400, 10
COMMON = ROWS - OTHERS
EPSILON = 1.0
RECORDS, FEATURES = 60, 20
GRADIENT_DESCENT = {
    "epochs": 3,
    "optimizer": {"method": "SGD", "optimizer_params": {"lr": 0.1}},
    "init_param": {"method": "zeros", "fit_intercept": True},
}


def vertical_tables() -> dict[str, pd.DataFrame]:
    """Labels that are fair coins, so that the flips alone bound what is read; the host has some other rows, too."""
    draw = np.random.default_rng(24)
    ids = np.array([f"viewed {row}" for row in range(ROWS + OTHERS)])
    guest = pd.DataFrame({"id": ids[:ROWS], "bought": draw.integers(2, size=ROWS)})
    host = pd.DataFrame({"id": ids[OTHERS:]})
    for table, names in ((guest, ("v1", "v2")), (host, ("w1", "w2"))):
        for name in names:
            table[name] = draw.normal(size=len(table))
    return {"guest": guest, "host": host}


def horizontal_tables() -> dict[str, pd.DataFrame]:
    """Records of two parties with the same columns, each so short that no gradient of it is clipped at 1."""
    draw = np.random.default_rng(42)
    columns = {f"u{column}": draw.uniform(-0.5, 0.5, RECORDS) for column in range(FEATURES)}
    ids = [f"shared {row}" for row in range(RECORDS)]
    table = pd.DataFrame({"id": ids, "ill": (draw.random(RECORDS) < 0.7).astype(int), **columns})
    half = RECORDS // 2
    return {"guest_records": table[:half], "host_records": table[half:]}


def upload_tables(folder: Path, address, home) -> None:
    """All tables, labelled where they have labels."""
    for name, table in (vertical_tables() | horizontal_tables()).items():
        path = folder / f"{name}.csv"
        table.to_csv(path, index=False)
        label = next((column for column in ("bought", "ill") if column in table), None)
        upload_table(address, path, NAMESPACE, name, TableMeta(label_name=label), home=home)


def regression_pipeline(flipped: bool):
    """reader, psi, label_flip if wanted, and FATE's own regression and binning."""
    from fate_client.pipeline import FateFlowPipeline
    from fate_client.pipeline.components.fate import PSI, CoordinatedLR, HeteroFeatureBinning

    from fate_dp.pipelines.clients import LabelFlip

    read = reader("guest", "host")
    joined = PSI("psi_0", input_data=read.outputs["output_data"])
    tasks, rows = [read, joined], joined.outputs["output_data"]
    if flipped:
        flip = LabelFlip("label_flip_0", epsilon=EPSILON, label_source=SOURCE, input_data=rows)
        tasks, rows = [*tasks, flip], flip.outputs["output_data"]
    binned = HeteroFeatureBinning("binning_0", method="quantile", n_bins=4, train_data=rows)
    tasks += [CoordinatedLR("coordinated_lr_0", train_data=rows, **GRADIENT_DESCENT), binned]
    return FateFlowPipeline().set_parties(guest=GUEST, host=HOST, arbiter=ARBITER).add_tasks(tasks)


def horizontal_pipeline(noises: dict[str, float]):
    """reader, and a training of one round for each task named in ``noises`` with its noise over the clip."""
    from fate_client.pipeline import FateFlowPipeline

    from fate_dp.pipelines.clients import DPHomoNN

    read = reader("guest_records", "host_records")
    settings = {"rounds": 1, "batch_size": RECORDS, "records": RECORDS, "clip": 1.0}
    trained = [
        DPHomoNN(name, train_data=read.outputs["output_data"], noise_multiplier=noise, **settings)
        for name, noise in noises.items()
    ]
    return FateFlowPipeline().set_parties(guest=GUEST, host=HOST, arbiter=ARBITER).add_tasks([read, *trained])


def reader(guest_table: str, host_table: str):
    """A task that reads a table at each party."""
    from fate_client.pipeline.components.fate import Reader

    task = Reader("reader_0", runtime_parties={"guest": GUEST, "host": HOST})
    task.guest.task_parameters(namespace=NAMESPACE, name=guest_table)
    task.hosts[0].task_parameters(namespace=NAMESPACE, name=host_table)
    return task
