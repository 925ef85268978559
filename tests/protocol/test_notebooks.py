"""The notebooks in docs/notebooks/ run from top to bottom, draw their pictures, and are committed without outputs."""

import copy
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
MAX_BYTES = 100_000


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def book(request):
    return nbformat.read(request.param, as_version=4)


def test_there_are_three_that_the_readme_links():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 3 and all(f"docs/notebooks/{path.name}" in readme for path in NOTEBOOKS)


def test_it_is_committed_without_outputs(book):
    nbformat.validate(book)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert code and not any(cell.outputs or cell.execution_count for cell in code)
    assert len(nbformat.writes(book)) < MAX_BYTES


def test_every_cell_runs_and_pictures_are_drawn(book, tmp_path, monkeypatch):
    # One thread: on a busy machine the libraries' own threads wait for each other.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    done = NotebookClient(
        copy.deepcopy(book), timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in done.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not any(output.output_type == "error" for output in outputs)
    assert not [output.text for output in outputs if output.output_type == "stream" and output.name == "stderr"]
    pictures = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    assert pictures and all(len(picture) < MAX_BYTES for picture in pictures)
