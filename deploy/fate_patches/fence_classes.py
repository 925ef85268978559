"""Whose objects may come from a peer, with which fields, and what each field may hold.

A kind is a type of plain data, a full name of a class or function, or one of these: a tuple of kinds for any of them, a list
with one kind for lists of it, a dictionary of one kind to another for dictionaries, `Row` for tuples, `ANY` for whatever can
be built. Names of classes are looked up only when an object of them comes.
"""

from __future__ import annotations

import importlib

if __package__:
    from .fence_reader import NOTHING, Beside, Made, Name, refused
else:
    from fence_reader import NOTHING, Beside, Made, Name, refused  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


class Row:
    """Tuples: of these kinds, in this order; with `...` behind it, any number of the first."""

    def __init__(self, *kinds: object) -> None:
        self.kinds = kinds


ANY = object()
ARCH, PANDAS = "fate.arch.", "pandas.core."
SERDES, BLOCKS = f"{ARCH}federation.api._serdes.", f"{ARCH}dataframe.manager.block_manager."
PHE, VALUES, HISTOGRAM = f"{ARCH}tensor.phe.", f"{ARCH}histogram.values.", f"{ARCH}histogram._histogram_"
SCHEMES = ("paillier", "ou")

TABLE, CONTEXT = f"{SERDES}_TablePersistentId", f"{SERDES}_ContextPersistentId"
TENSOR_BESIDE, ARRAY_BESIDE = f"{SERDES}_TorchSafeTensorPersistentId", f"{SERDES}_NumpySafeTensorPersistentId"
TENSOR = ("torch._utils._rebuild_tensor_v2", TENSOR_BESIDE)
ARRAY = ("numpy.core.multiarray._reconstruct", ARRAY_BESIDE)
NUMBER = (int, float, "numpy.core.multiarray.scalar")
SIZE, INDEX, GETATTR = "torch.Size", f"{PANDAS}indexes.base._new_Index", "builtins.getattr"
SHAPE = (SIZE, Row(int, ...))
# A kind of numbers, and the place where they are.
TORCH_TYPES = (
    *("torch.bool", "torch.uint8"),
    *(f"torch.int{bits}" for bits in (8, 16, 32, 64)),
    *(f"torch.float{bits}" for bits in (16, 32, 64)),
)
# Members of an enumeration, which Python 3.11.0 to 3.11.3 pickle as what `getattr` gives of it.
BLOCK_TYPE, DEVICE = f"{BLOCKS}BlockType", f"{ARCH}unify._infra_def.device"
ENUMERATIONS = (BLOCK_TYPE, DEVICE)
PLACE = (DEVICE, GETATTR, "torch.device", None)
# Classes that are sent as themselves: collections of functions on ciphertexts.
EVALUATORS = tuple(f"{ARCH}protocol.phe.{each}.evaluator" for each in SCHEMES)


def of_schemes(module: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{module}{scheme}.{name}" for scheme in SCHEMES for name in names)


RUST_CIPHERTEXTS = of_schemes("fate_utils.", "CiphertextVector")
RUST_VECTORS = of_schemes("fate_utils.", "CiphertextVector", "PlaintextVector")
RAW_KEY, RAW_CODER = of_schemes(f"{ARCH}protocol.phe.", "PK"), of_schemes(f"{ARCH}protocol.phe.", "Coder")
KEY, CODER = (f"{PHE}_keypair.PHETensorEncryptor",), (f"{PHE}_keypair.PHETensorCoder",)
SUMMARY = "fate_utils.quantile.QuantileSummaryStream"

TEXT = (str, None)
LABEL = (str, int, float, bool, None)
BLOCK = {
    "_block_type": (BLOCK_TYPE, GETATTR, None),
    "_field_indexes": [int],
    "_should_compress": bool,
    "_field_index_mapping": {int: int},
}
PHE_BLOCK = {
    **BLOCK,
    "_pk": (*KEY, *RAW_KEY, None),
    "_evaluator": (*EVALUATORS, None),
    "_coder": (*CODER, *RAW_CODER, None),
    "_dtype": (*TORCH_TYPES, None),
    "_device": PLACE,
}
VALUES_FIELDS = {"data": (*TENSOR, *RUST_VECTORS), "dtype": TORCH_TYPES, "size": int, "stride": int}
PLAIN_BLOCKS = ("Bool", "Float32", "Float64", "Index", "Int32", "Int64", "NPObject")
CACHED = (f"{ARCH}dataframe._dataframe.DataFrame", TABLE, None)

# Objects that are filled from a dictionary: their constructors do not run, and no field is set that is not here.
FIELDS: dict[str, dict[str, object]] = {
    f"{ARCH}dataframe._dataframe.DataFrame": {
        "_ctx": (CONTEXT, None),
        "_block_table": TABLE,
        "_partition_order_mappings": {(str, int): {str: int}},
        "_data_manager": f"{ARCH}dataframe.manager.data_manager.DataManager",
        **dict.fromkeys(
            ("_sample_id_indexer", "_match_id_indexer", "_sample_id", "_match_id", "_label", "_weight"), CACHED
        ),
        "_count": (int, None),
        "_columns": (INDEX, None),
    },
    **{f"{BLOCKS}{each}Block": BLOCK for each in PLAIN_BLOCKS},
    f"{BLOCKS}PHETensorBlock": PHE_BLOCK,
    f"{BLOCKS}BlockManager": {
        "_blocks": [tuple(f"{BLOCKS}{each}Block" for each in (*PLAIN_BLOCKS, "PHETensor"))],
        "_field_block_mapping": {int: Row(int, int)},
    },
    f"{ARCH}dataframe.manager.data_manager.DataManager": {
        "_schema_manager": f"{ARCH}dataframe.manager.schema_manager.SchemaManager",
        "_block_manager": f"{BLOCKS}BlockManager",
        "_block_row_size": int,
    },
    f"{ARCH}dataframe.manager.schema_manager.SchemaManager": {
        "_schema": f"{ARCH}dataframe.manager.schema_manager.Schema",
        "_type_mapping": {str: str},
        "_name_offset_mapping": {str: int},
        "_offset_name_mapping": {int: str},
    },
    f"{ARCH}dataframe.manager.schema_manager.Schema": {
        **dict.fromkeys(("_sample_id_name", "_match_id_name", "_weight_name", "_label_name"), TEXT),
        **dict.fromkeys(("_anonymous_label_name", "_anonymous_weight_name"), TEXT),
        **dict.fromkeys(("_columns", "_anonymous_columns"), (INDEX, [str], None)),
        "_anonymous_summary": {str: (str, int, None)},
    },
    TABLE: {"key": str, "table_meta": f"{ARCH}federation.api._table_meta.TableMeta"},
    CONTEXT: {"key": str},
    TENSOR_BESIDE: {"bytes": bytes},
    ARRAY_BESIDE: {"bytes": bytes},
    f"{ARCH}federation.api._table_meta.TableMeta": {
        "num_partitions": int,
        **dict.fromkeys(("key_serdes_type", "value_serdes_type", "partitioner_type"), int),
    },
    f"{HISTOGRAM}splits.HistogramSplits": {
        **dict.fromkeys(("sid", "num_node", "start", "end"), int),
        "_data": f"{VALUES}_values.HistogramValuesContainer",
    },
    f"{VALUES}_values.HistogramValuesContainer": {
        "_data": {str: (f"{VALUES}_cipher.HistogramEncryptedValues", f"{VALUES}_plain.HistogramPlainValues")}
    },
    f"{VALUES}_cipher.HistogramEncryptedValues": {
        **VALUES_FIELDS,
        "pk": (*KEY, *RAW_KEY),
        "coder": (*CODER, *RAW_CODER, None),
        "evaluator": EVALUATORS,
    },
    f"{VALUES}_plain.HistogramPlainValues": VALUES_FIELDS,
    **{name: {"coder": f"fate_utils.{name.split('.')[-2]}.Coder"} for name in RAW_CODER},
    **{name: {"pk": f"fate_utils.{name.split('.')[-2]}.PK"} for name in RAW_KEY},
    f"{ARCH}tensor.distributed._tensor.DTensor": {"shardings": f"{ARCH}tensor.distributed._tensor.Shardings"},
    f"{ARCH}tensor.distributed._tensor.Shardings": {
        "_data": TABLE,
        "_shapes": f"{ARCH}tensor.distributed._tensor._ShardingShapes",
        "_type": TEXT,
        "_dtype": TORCH_TYPES,
        "_device": PLACE,
    },
    f"{ARCH}tensor.distributed._tensor._ShardingShapes": {"shapes": [SHAPE], "axis": int},
    f"{ARCH}tensor.inside._op_quantile.GKSummary": {"_epsilon": float, "_summary": (SUMMARY, None)},
    f"{PHE}_keypair.PHETensorCoder": {"_coder": RAW_CODER},
    f"{PHE}_keypair.PHETensorEncryptor": {"_pk": RAW_KEY, "_coder": CODER, "_evaluator": EVALUATORS},
    f"{PHE}_tensor.PHETensor": {
        "_pk": (*KEY, *RAW_KEY),
        "_evaluator": EVALUATORS,
        "_coder": (*CODER, *RAW_CODER),
        "_data": RUST_CIPHERTEXTS,
        "_shape": SHAPE,
        "_dtype": TORCH_TYPES,
        "_device": PLACE,
    },
    f"{PHE}_tensor.PHETensorEncoded": {
        "coder": (*CODER, *RAW_CODER),
        "data": RUST_VECTORS,
        "shape": SHAPE,
        "dtype": TORCH_TYPES,
        "device": PLACE,
    },
    "fate.ml.ensemble.learner.decision_tree.tree_core.decision_tree.Node": {
        **dict.fromkeys(("nid", "fid", "bid", "split_id", "l", "r", "missing_dir", "sample_num"), (*NUMBER, None)),
        **dict.fromkeys(("grad", "hess", "sibling_nodeid", "parent_nodeid"), (*NUMBER, None)),
        "weight": (*NUMBER, [NUMBER], *TENSOR, *ARRAY, None),
        "sitename": TEXT,
        **dict.fromkeys(("is_leaf", "is_left_node"), bool),
    },
}
# Objects that are filled from a tuple.
IN_ORDER: dict[str, dict[str, object]] = {
    f"{HISTOGRAM}distributed.DistributedHistogram": {
        "_splits": TABLE,
        "_k": int,
        "_node_size": int,
        "_node_data_size": (int, None),
        "_squeezed": bool,
        "_shuffled": bool,
    }
}
# Named tuples of our own components, whose messages name no class: what stands in a party's own tables.
OURS = "fate_dp.components."
NAMED_TUPLES: dict[str, tuple] = {
    f"{OURS}dp_hetero_lr.per_epoch.protocol.Slice": (ARRAY, ARRAY, NUMBER, ANY),
    f"{OURS}dp_hetero_lr.per_epoch.protocol.Sums": (ANY, ANY, NUMBER),
    f"{OURS}dp_hetero_lr.rows.Block": (int, ARRAY, (*ARRAY, None)),
    f"{OURS}dp_hetero_lr.rows.Seen": (ANY, ANY),
    f"{OURS}dp_scorecard.tables.Binned": (ARRAY, (*ARRAY, None)),
}
# What FATE's Rust reads from bytes of its own form: `b` is a big number, `n` one of a key, which is above 0, `e` an
# exponent, `*` a vector of what follows.
RUST_STATES: dict[str, str] = {
    **dict.fromkeys(RUST_VECTORS, "*be"),
    "fate_utils.paillier.PK": "nnn",
    "fate_utils.paillier.Coder": "nn",
    "fate_utils.ou.PK": "nnn",
    "fate_utils.ou.Coder": "",
    SUMMARY: "summary",
}
# What has a builder of its own in `fence_builder`.
BUILT = (
    *("builtins.slice", "collections.OrderedDict", "torch.device"),
    *("torch.storage._load_from_bytes", f"{PANDAS}internals.managers.SingleBlockManager", f"{PANDAS}series.Series"),
    *(GETATTR, SIZE, INDEX, *TENSOR[:1], *ARRAY[:1], *NUMBER[2:], *ENUMERATIONS),
)
# What stands in the arguments of these only.
INGREDIENTS = ("numpy.dtype", "numpy.ndarray", f"{PANDAS}indexes.base.Index")
AS_THEY_ARE = frozenset((*INGREDIENTS, *TORCH_TYPES, *EVALUATORS, *ENUMERATIONS))
LISTED = frozenset((*FIELDS, *IN_ORDER, *NAMED_TUPLES, *RUST_STATES, *BUILT, *INGREDIENTS, *TORCH_TYPES, *EVALUATORS))


# Checks -------------------------------------------------------------------------------------------------------------


def demand(fits: bool, what: str) -> None:
    if not fits:
        raise refused(f"has {what}")


def real(full: str) -> Any:
    """What a listed name stands for."""
    module, _, name = full.rpartition(".")
    return getattr(importlib.import_module(module), name)


def fits(kind: Any, value: Any) -> bool:
    """Whether what was read is of a kind, as `fence_classes` has them."""
    if kind is ANY:
        return True
    if kind is None:
        return value is None
    if type(kind) is str:
        return name_of(value) == kind
    if type(kind) is tuple:
        return any(fits(each, value) for each in kind)
    if type(kind) is list:
        return type(value) is list and all_fit(kind[0], value)
    if type(kind) is dict:
        ((of_keys, of_values),) = kind.items()
        return type(value) is dict and all_fit(of_keys, value) and all_fit(of_values, value.values())
    if type(kind) is Row:
        if type(value) is tuple and kind.kinds[1:] == (...,):
            return all_fit(kind.kinds[0], value)
        return type(value) is tuple and len(value) == len(kind.kinds) and all(map(fits, kind.kinds, value))
    return type(value) is kind


def all_fit(kind: Any, values: Iterable) -> bool:
    return {kind}.issuperset(map(type, values)) if isinstance(kind, type) else all(fits(kind, each) for each in values)


def name_of(value: Any) -> str | None:
    """The name that something has, or by which it is made."""
    if type(value) is Beside:
        value = value.identity
    if type(value) is Made:
        return value.name
    return value.full if type(value) is Name and value.full in AS_THEY_ARE else None


def check_fields(name: str, fields: dict, found: dict) -> None:
    demand(found.keys() == fields.keys(), f"an object of {name} with other fields than FATE gives it")
    for field, kind in fields.items():
        demand(fits(kind, found[field]), f"an object of {name} whose field {field} is not what FATE puts there")


def once(made: Made, what: str, *kinds: Any) -> tuple:
    """The arguments of what is called and not filled."""
    demand(made.state is NOTHING and fits(Row(*kinds), made.arguments), f"{what} that is not one")
    return made.arguments
