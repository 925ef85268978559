"""The bar of a preparation: seen in a terminal while it runs, and nowhere else."""

import io

import pytest
from rich.console import Console

from fate_dp.pipelines.cli.data import ShareBar


def drawn(is_terminal, failure=None):
    text = io.StringIO()
    console = Console(file=text, force_terminal=is_terminal, width=80)
    try:
        with ShareBar(console) as bar:
            bar.show("reading", 0.5)
            bar.show("dividing", None)
            if failure is not None:
                raise failure
    except ValueError:
        assert failure is not None
    return text.getvalue()


@pytest.mark.parametrize("failure", [None, ValueError("refused")])
def test_a_pipe_gets_not_even_an_empty_line(failure):
    assert drawn(False, failure) == ""


@pytest.mark.parametrize("failure", [None, ValueError("refused")])
def test_a_terminal_gets_the_bar_and_its_cursor_back(failure):
    text = drawn(True, failure)
    assert "dividing" in text and text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
