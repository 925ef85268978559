"""FATE 2.2.0: HeteroSecureBoost reads classes from the names of columns, and not where the label's name has an underscore."""

import pandas as pd
from fate.arch.dataframe import PandasReader
from fate.ml.ensemble.algo.secureboost.hetero.guest import HeteroSecureBoostGuest
from own_context import make_context

ctx = make_context()
for label in ("y", "loan_status", "flag_1_of_2"):
    table = pd.DataFrame({"sample_id": ["a", "b", "c"], "id": range(3), label: [0, 1, 0], "x": 0.5})
    reader = PandasReader(sample_id_name="sample_id", match_id_name="id", label_name=label, dtype="float64")
    frame = reader.to_frame(ctx, table)
    try:
        HeteroSecureBoostGuest(num_trees=1, max_depth=1)._check_label(frame.label)
        print(label, "is taken")
    except (ValueError, AssertionError) as error:
        print(label, "ends in", type(error).__name__, "-", error)
ctx.computing.get_standalone_session()._pool.shutdown()
