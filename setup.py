"""Packaging of FATE-DP: the top-level folders are the parts of one import package, ``fate_dp``."""

import os
from pathlib import Path

from setuptools import Extension, find_packages, setup

PARTS = ("privacy", "crypto", "components", "attacks", "pipelines", "conf", "data_prep", "deploy", "testing")
ROOT = Path(__file__).parent
# Optional: where it does not compile, or is not wanted, gmpy2 computes the same (crypto/kernel.py).
KERNEL = Extension(
    "fate_dp.crypto._montgomery",
    ["crypto/native/montgomery.c", "crypto/native/curve25519.c"],
    extra_compile_args=["-O3", "-std=c11", "-fvisibility=hidden"],
    py_limited_api=True,
    optional=True,
)
# The same for private steps, where torch computes instead (components/dp_homo_nn/record_kernel.py).
RECORDS = Extension(
    "fate_dp.components.dp_homo_nn._records",
    ["components/dp_homo_nn/native/records.c"],
    depends=["components/dp_homo_nn/native/records_lanes.h"],
    extra_compile_args=["-O3", "-std=c11", "-ffp-contract=off", "-fvisibility=hidden"],
    py_limited_api=True,
    optional=True,
)
WITH_KERNEL = os.environ.get("FATE_DP_KERNEL") != "off"
# FATE's lookup loads no component of a distribution whose requirements are not all recorded as installed, and FATE's
# standalone image has FATE without such a record: FATE itself is an extra, as is all that the privacy core can do without.
CORE = ["numpy", "scipy", "mpmath", "dp-accounting>=0.6", "cryptography", "pynacl", "gmpy2>=2.1", "pyyaml", "rich"]
NN = ["torch", "kymatio==0.3.*"]
REPORT = ["jinja2", "matplotlib"]
# For Python 3.10 and 3.11, the newest that FATE's compiled part is built for.
WITH_FATE = [
    "setuptools<81",  # FATE finds its plugins through pkg_resources, which later releases drop
    "numpy<2",
    "pandas<3",
    "scikit-learn",
    "imbalanced-learn==0.12.*",  # data_prep/over_sampling.py overrides one of its methods
    "packaging",
    "psutil",
    "threadpoolctl",
    "pyarrow<16",  # later ones want numpy 2
]
COMPONENTS = sorted(path.parent.name for path in ROOT.glob("components/*/component.py"))


def part_packages(part):
    return [f"fate_dp.{part}"] + [f"fate_dp.{part}.{name}" for name in find_packages(str(ROOT / part))]


setup(
    name="fate-dp",
    version="0.2.0",
    description="Differential privacy for FATE 2.2: label-private vertical training, with an account of what is spent",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10,<3.14",
    packages=[package for part in PARTS for package in part_packages(part)],
    package_dir={f"fate_dp.{part}": part for part in PARTS},
    package_data={"": ["*.yaml", "*.html", "*.jinja", "*.json", "*.sql", "py.typed"]},
    ext_modules=[KERNEL, RECORDS] if WITH_KERNEL else [],
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if WITH_KERNEL else {},
    install_requires=CORE,
    extras_require={
        "nn": NN,
        "report": REPORT,
        "fate": [*NN, *REPORT, *WITH_FATE, "fate_client[fate,fate_flow]==2.2.0"],
        "test": [
            "pytest",
            "pytest-xdist",
            "hypothesis",
            "jsonschema",
            "phe",  # python-paillier, which our Paillier is compared with: tests/support/phe_numbers.py
            "nbclient",
            "nbformat",
            "ipykernel",
            "mypy",
            "ruff",
            "import-linter<2.7",  # later ones want a newer rich than FATE
            "sympy>=1.12",  # lattice reduction: bench/attack_methods/label_gradients.py
        ],
        "bench": ["interpret-core", "opendp", "opacus==1.5.*", "phe", "sympy>=1.12"],
        "cluster": ["pika", "pyspark==3.5.*"],
    },
    entry_points={
        "console_scripts": ["fate-dp = fate_dp.pipelines.cli.main:main"],
        "fate.ext.component_desc": [f"{name} = fate_dp.components.{name}.component:{name}" for name in COMPONENTS],
    },
)
