"""The native kernel of private steps, `native/records.c`: convolutions with their pooling, tanh and weighted sums, record by record.

Optional: without a compiler at installation, on a processor without AVX2 and fused multiply-adds, or with
``FATE_DP_KERNEL=off``, `record_kernel` gives None and `record_layers` computes with torch. Sums and tanh have the same bits
then; convolutions have other last bits, as they have from one library to the next, and no promise rests on which.

What the kernel makes of a record is a function of that record's numbers alone, by the order of its instructions: unlike
with a library, nothing is assumed. On all processors that run it the bits are the same.
"""

import ctypes
import importlib
import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from fate_dp.crypto.kernel import is_wanted

_MODULE = "fate_dp.components.dp_homo_nn._records"
_FLOATS, _DOUBLES, _PLACES, _WHOLE = torch.float32, torch.float64, torch.int64, torch.int32
_TYPES = {
    "pooled": (_DOUBLES, _WHOLE, *[_FLOATS] * 4),
    "weights": (_FLOATS, *[_DOUBLES] * 3, _FLOATS, _FLOATS, _WHOLE, _FLOATS, _FLOATS, _PLACES),
    "inputs": (_FLOATS, _FLOATS, _WHOLE, _FLOATS, _FLOATS, _PLACES),
    "weighted_sums": (_PLACES, _FLOATS, _DOUBLES),
    "tanh": (_DOUBLES, _DOUBLES, _DOUBLES),
}
"""Of the tensors that each function of the C file takes, in their order."""
SLACK = 16
"""Numbers that memory must last beyond what is read of it."""

logger = logging.getLogger(__name__)


class Shape(ctypes.Structure):
    """`shape_t` of the C file: an image, what a place of the convolution reads, and the windows of the pooling."""

    _fields_ = [
        *(
            (name, ctypes.c_int64)
            for name in (
                *("image", "row", "kernel_rows", "run", "down", "right", "outputs", "padded"),
                *("window_rows", "window_columns", "windows_down", "windows_right"),
            )
        ),
        ("starts", ctypes.c_void_p),
        ("places", ctypes.c_void_p),
    ]


@dataclass(frozen=True, eq=False)
class RecordKernel:
    """The library on registers of ``lanes`` float32 numbers, 8 or 16, which does not matter to a result.

    ``table`` is that of `record_arithmetic`'s exponentials.
    """

    library: Any
    lanes: int

    def call(self, name: str, *arguments: object) -> None:
        """Of the C file's ``records_`` functions. Tensors are passed by their memory, whose size is the caller's to keep."""
        tensors = [each for each in arguments if isinstance(each, Tensor)]
        for tensor, kind in zip(tensors, _TYPES[name], strict=True):
            if tensor.dtype != kind or not tensor.is_contiguous():
                raise ValueError(
                    f"Tensors must be contiguous {kind}, got {tensor.dtype} by {tensor.stride()}, in {name}."
                )
        getattr(self.library, f"records_{name}")(ctypes.c_int64(self.lanes), *map(_passed, arguments))

    def tanh(self, values: Tensor, table: Tensor) -> Tensor:
        """Hyperbolic tangent of a float64 tensor whose numbers lie together in memory, in whatever order of axes."""
        if not lies_together(values):
            raise ValueError(f"values must fill their memory, got the strides {values.stride()} for {values.shape}.")
        found, count = torch.empty_like(values), values.numel()
        self.call("tanh", *(each.as_strided((count,), (1,)) for each in (found, values)), table, count)
        return found

    def weighted_sums(self, whole: Tensor, factors: Tensor) -> Tensor:
        """int64 (m,): sums of the rows of float32 (n, m) times float64 (n,) or (n, 1), all whole, and of at most 2^53."""
        if whole.dim() != 2 or factors.numel() != len(whole):
            raise ValueError(f"There must be a factor for each of {len(whole)} rows, got {factors.numel()}.")
        sums = torch.empty(whole.shape[1], dtype=torch.int64)
        self.call("weighted_sums", sums, whole, factors, *whole.shape)
        return sums


@lru_cache(maxsize=1)
def record_kernel() -> RecordKernel | None:
    """The kernel, or None where torch is to be used; looked up once, and one line in the log says which."""
    if not is_wanted():
        logger.info("The native kernel of private steps is switched off; torch computes instead.")
        return None
    try:
        library = ctypes.CDLL(importlib.import_module(_MODULE).__file__)
    except (ImportError, OSError) as error:
        logger.info("The native kernel of private steps cannot be loaded (%s); torch computes instead.", error)
        return None
    library.records_lanes.restype = ctypes.c_int64
    lanes = library.records_lanes()
    if not lanes:
        logger.info("This processor has no AVX2 for the native kernel of private steps; torch computes instead.")
        return None
    logger.info("The native kernel computes private steps, %d numbers at a time.", lanes)
    return RecordKernel(library, lanes)


def lies_together(values: Tensor) -> bool:
    """Whether the numbers fill their memory without gaps, in some order of the axes."""
    order = sorted(range(values.dim()), key=values.stride, reverse=True)
    return values.permute(order).is_contiguous()


def _passed(argument: Any) -> Any:
    if isinstance(argument, Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    return ctypes.c_int64(argument) if isinstance(argument, int) else ctypes.byref(argument)
