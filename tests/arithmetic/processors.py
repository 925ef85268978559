"""Processors other than this one, as far as settings of libraries can play them, and which of them this one can play."""

from dataclasses import dataclass

import numpy as np

FEATURES = np.core._multiarray_umath.__cpu_features__
NEEDS_AVX512 = "this processor has no AVX-512"
# Everything that a library would choose for a processor of before 2013.
OLD_PROCESSOR = {
    "MKL_CBWR": "COMPATIBLE",
    "ATEN_CPU_CAPABILITY": "default",
    "DNNL_MAX_CPU_ISA": "SSE41",
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in ("F16C", "FMA3", "AVX2") if FEATURES.get(name)),
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F",
}


@dataclass(frozen=True)
class Combination:
    """Variables that are set while tests run; ``blocker`` says why this processor cannot run them."""

    variables: dict
    blocker: str = ""

    @property
    def name(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.variables.items()) or "nothing set"


def combinations() -> list:
    """One variable changed at a time, then pairs and the old processor."""
    without_avx512 = "" if FEATURES.get("AVX512F") else NEEDS_AVX512
    without_avx2 = "" if FEATURES.get("AVX2") else "this processor has no AVX2"
    return [
        Combination({}),
        Combination({"MKL_CBWR": "COMPATIBLE"}),
        Combination({"MKL_CBWR": "AVX2"}, without_avx2),
        Combination({"MKL_CBWR": "AVX512"}, without_avx512),
        Combination({"ATEN_CPU_CAPABILITY": "default"}),
        Combination({"ATEN_CPU_CAPABILITY": "avx2"}, without_avx2),
        Combination({"ATEN_CPU_CAPABILITY": "avx512"}, without_avx512),
        Combination({"OPENBLAS_CORETYPE": "Haswell"}, without_avx2),
        Combination({"OPENBLAS_CORETYPE": "SkylakeX"}, without_avx512),
        Combination({"OPENBLAS_CORETYPE": "Zen"}, without_avx2),
        Combination({"OMP_NUM_THREADS": "2"}),
        Combination({"MKL_CBWR": "COMPATIBLE", "OMP_NUM_THREADS": "2"}),
        Combination({"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Zen"}, without_avx2),
        Combination(OLD_PROCESSOR),
    ]
