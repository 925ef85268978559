"""Parts of a benchmark's report, which is one self-contained HTML file: a grid of axes, pictures, tables."""

import base64
import html
import io


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
