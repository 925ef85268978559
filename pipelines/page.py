"""What the reports share: their look, tables as HTML, times and shares as text."""
from __future__ import annotations

import html
from datetime import datetime
from pathlib import Path
from string import Template

from .tables import TextTable

FOLDER = Path(__file__).parent


def filled(template: str, texts: dict[str, str], drawn: dict[str, str]) -> str:
    """The page of a template beside this file; `texts` are escaped, `drawn` is HTML already."""
    style = (FOLDER / "report_style.html").read_text(encoding="utf-8")
    escaped = {name: html.escape(text) for name, text in texts.items()}
    return Template((FOLDER / template).read_text(encoding="utf-8")).substitute(escaped, style=style, **drawn)


def moment(time: str) -> str:
    """A time as datetime.isoformat writes it, to the minute."""
    return datetime.fromisoformat(time).strftime("%Y-%m-%d %H:%M %Z").strip()


def percent(share: float) -> str:
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def card_html(kind: str, figure: str, text: str) -> str:
    """A key figure at the head of a page; `kind` chooses its colour."""
    return f'<div class="card {kind}"><b>{html.escape(figure)}</b><span>{html.escape(text)}</span></div>'


def table_html(table: TextTable) -> str:
    return f"<table>{head_html(table)}<tbody>{''.join(row_html(table, row) for row in table.rows)}</tbody></table>"


def head_html(table: TextTable) -> str:
    return f"<thead>{row_html(table, table.headings, 'th')}</thead>"


def row_html(table: TextTable, row: tuple[str, ...], element: str = "td") -> str:
    cells = []
    for heading, text in zip(table.headings, row):
        kind = ' class="number"' if heading in table.numeric else ""
        cells.append(f"<{element}{kind}>{html.escape(text)}</{element}>")
    return f"<tr>{''.join(cells)}</tr>"
