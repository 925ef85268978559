"""A benchmark's report, which is one self-contained HTML file, and its parts: a grid of axes, pictures, tables."""

import base64
import html
import io

STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ccc;padding:.3em .8em;text-align:right}"
    "img{max-width:100%}"
)


def write_page(path, title, body):
    """Write the report to ``path``; ``body`` is HTML below the title, which is text."""
    heading = html.escape(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{heading}</title><style>{STYLE}</style>'
        f"</head><body><h1>{heading}</h1>\n{body}\n</body></html>\n",
        encoding="utf-8",
    )


def subplots(rows, columns, size, **options):
    """A figure that no window shows, and its axes, row by row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(rows, columns, squeeze=False, **options).flat)


def image(figure, description):
    """The figure as an image element that holds its own data."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img alt="{html.escape(description)}" src="data:image/png;base64,{encoded}">'


def table(headings, rows):
    """A table element; cells are text, which is escaped."""
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
