"""Poisson batches: bounds, refusals, and no generator but the stream anywhere among the mechanisms."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fate_dp.privacy.mechanisms as mechanisms
from fate_dp.privacy.mechanisms import sampling
from fate_dp.privacy.mechanisms.sampling import poisson_sample
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

SOURCES = sorted(Path(mechanisms.__file__).parent.glob("*.py"))


@given(st.integers(0, 200), st.floats(0, 1))
def test_a_batch_holds_increasing_indices_of_records(records, probability):
    batch = poisson_sample(records, probability)
    assert batch.dtype == np.int64 and (np.diff(batch) > 0).all()
    assert not batch.size or 0 <= batch[0] <= batch[-1] < records


def test_nobody_or_everybody_takes_part_at_the_ends():
    assert poisson_sample(1000, 0.0).size == poisson_sample(0, 0.5).size == 0
    assert poisson_sample(1000, 1.0).tolist() == list(range(1000))


def test_an_empty_batch_can_be_drawn():
    assert any(poisson_sample(2, 0.1).size == 0 for _ in range(100))


def test_large_batches_are_drawn_in_parts_without_a_difference(monkeypatch):
    whole = poisson_sample(1000, 0.3, ReproducibleStream(1))
    monkeypatch.setattr(sampling, "COINS_AT_ONCE", 64)
    assert np.array_equal(poisson_sample(1000, 0.3, ReproducibleStream(1)), whole)


def test_a_batch_never_repeats():
    np.random.seed(1)
    first = poisson_sample(1000, 0.5)
    np.random.seed(1)
    assert not np.array_equal(first, poisson_sample(1000, 0.5))


@pytest.mark.parametrize("probability", [-0.1, 1.1, math.nan, True, None, "1"])
def test_a_probability_out_of_range_is_refused(probability):
    with pytest.raises(InvalidArgument) as refusal:
        poisson_sample(10, probability)
    assert str(refusal.value) == f"probability must be a number from 0 to 1, got {probability!r}."


def test_other_refusals():
    for records in (-1, 1.5, None, True):
        with pytest.raises(InvalidArgument):
            poisson_sample(records, 0.5)
    with pytest.raises(InvalidArgument):
        poisson_sample(10, 0.5, rng=np.random.default_rng(1))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_no_mechanism_reads_a_generator_of_numpy_torch_or_python(source):
    tree = ast.parse(source.read_text(encoding="utf-8"))
    attributes = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not {name for name in attributes if name.startswith(("np.random", "numpy.random", "torch."))}
    assert not imported & {"random", "numpy.random", "torch", "secrets"}
