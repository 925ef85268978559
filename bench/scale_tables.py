"""Tables of the scale benchmark as FATE DataFrames that are made block by block in the engine's workers.

Row i is the same at all parties and in every run: row i % 128 of part i // 128 of `hetero_lr_rows`. No process ever holds
more than one block, so that what memory a run takes is that of the components.
"""

from functools import partial

import numpy as np

from bench.hetero_lr_rows import made_rows

BLOCK_ROWS = 128
"""FATE's own."""
ROWS_OF_A_PARTITION = 1 << 18
ID, LABEL = "id", "y"


def made_frame(ctx, rows: int, role: str, cuts: tuple = ()):
    """This party's DataFrame of ``rows`` rows: 10 features and the label at the guest, 20 features at the host.

    With ``cuts`` the features are the numbers of the bins that they lie in, for dp_scorecard.
    """
    from fate.arch.dataframe import DataFrame

    head = _head(ctx, role)
    blocks, partitions = -(-rows // BLOCK_ROWS), max(2, -(-rows // ROWS_OF_A_PARTITION))
    numbers = ctx.computing.parallelize(zip(range(blocks), range(blocks)), include_key=True, partition=partitions)
    table = numbers.mapValues(partial(_block, rows=rows, role=role, cuts=cuts))
    mapping = {name_of(0): dict(start_index=0, end_index=rows - 1, start_block_id=0, end_block_id=blocks - 1)}
    return DataFrame(ctx, table, mapping, head.data_manager)


def name_of(row: int) -> str:
    return f"row-{row:08d}"


def block_rows(number: int, rows: int):
    """`hetero_lr_rows.Rows` of one block."""
    return made_rows(min(BLOCK_ROWS, rows - number * BLOCK_ROWS), number)


def _head(ctx, role):
    """A frame of two rows, by FATE's own reader, for what it says of columns and blocks."""
    import pandas
    from fate.arch.dataframe import PandasReader

    made = block_rows(0, 2)
    features = made.guest if role == "guest" else made.host
    table = pandas.DataFrame(features, columns=[f"{role}_{column}" for column in range(features.shape[1])])
    table.insert(0, ID, [name_of(0), name_of(1)])
    table.insert(0, "sample_id", table[ID])
    if role == "guest":
        table[LABEL] = [0, 1]
    label = LABEL if role == "guest" else None
    reader = PandasReader(sample_id_name="sample_id", match_id_name=ID, label_name=label, dtype="float64", partition=1)
    return reader.to_frame(ctx, table)


def _block(number, rows, role, cuts):
    import pandas
    import torch

    made, first = block_rows(number, rows), number * BLOCK_ROWS
    features = made.guest if role == "guest" else made.host
    if cuts:
        features = np.digitize(features, cuts).astype(np.float64)
    names = pandas.Index([name_of(row) for row in range(first, first + len(made.labels))], dtype=object)
    if role == "guest":
        return [names, names, torch.as_tensor(made.labels[:, None]).int(), torch.as_tensor(features)]
    return [names, names, torch.as_tensor(features)]
