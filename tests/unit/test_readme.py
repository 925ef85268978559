"""The examples of the pages on vertical training and on the privacy core do what they say."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRIVACY_CORE = ROOT / "docs" / "howto" / "privacy-core.md"
VERTICAL = ROOT / "docs" / "howto" / "vertical-training.md"


def example_of(page, count=1):
    """Execute the Python examples of a page, one after the other, and return their names."""
    examples = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    assert len(examples) == count
    names = {}
    exec(compile("\n".join(examples), str(page), "exec"), names)
    return names


def test_the_example_of_the_privacy_core_trains_within_its_target():
    names = example_of(PRIVACY_CORE, 2)
    assert 1.99 < names["accountant"].epsilon(1e-5) <= 2
    assert names["mean"].shape == (20,) and names["release"].event.mechanism == "PoissonSampledGaussian"
    # Laplace noise of scale 2 * 6 / 200 on each weight: 1 is sixteen scales, and parts are biased by less than one more.
    first, second = names["weights"].value
    assert abs(first - 1) < 1 and abs(second + 1) < 1 and names["weights"].event.mechanism == "PureDP"


def test_the_pipeline_compiles():
    pipeline = example_of(VERTICAL)["pipeline"]
    pipeline.compile()
    assert list(pipeline.tasks) == ["reader_0", "psi_0", "label_flip_0", "dp_hetero_lr_0"]
