"""Folds of a cross-validation over several parties: the guest divides its rows, the others follow by sample ids."""

from collections.abc import Iterator

from ..common.federation import Context, Document
from ..common.frames import DataFrame

# Which rows a fold trains on and which it holds out: a table of sample ids with their places in the guest's part.
FOLD_PARTS = ("training_rows", "held_out_rows")


def folds_of(ctx: Context, frame: DataFrame, folds: Document) -> Iterator[tuple[Context, tuple[DataFrame, DataFrame]]]:
    """Each fold's context, and this party's rows to train on and to hold out; ``folds`` is a cv_param."""
    return ctx.on_cross_validations.ctxs_zip(_parts(ctx.sub_ctx("KFold"), frame, folds))


def _parts(ctx: Context, frame: DataFrame, folds: Document) -> Iterator[tuple[DataFrame, DataFrame]]:
    """The folds of FATE's KFold, whose own message, a pair of tables, is no plain value: here each table is a message."""
    from fate.arch.dataframe import KFold

    splits = KFold(ctx, mode="homo", **folds).split(frame) if ctx.is_on_guest else None
    for _, fold_ctx in ctx.ctxs_range(folds["n_splits"]):
        if splits is not None:
            parts = next(splits)
            for name, part in zip(FOLD_PARTS, parts):
                fold_ctx.hosts.put(name, part.get_indexer(target="sample_id"))
            yield parts
        else:
            training, held_out = (frame.loc(fold_ctx.guest.get(name), preserve_order=True) for name in FOLD_PARTS)
            yield training, held_out
