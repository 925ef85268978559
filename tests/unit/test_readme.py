"""The README's example of the privacy core does what it says."""
import re
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_example_trains_within_its_target():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    (example,) = [code for code in blocks if "make_accountant" in code]
    names = {}
    exec(compile(example, str(README), "exec"), names)
    assert 1.99 < names["accountant"].epsilon(1e-5) <= 2
    assert names["mean"].shape == (20,) and names["release"].event.mechanism == "PoissonSampledGaussian"
