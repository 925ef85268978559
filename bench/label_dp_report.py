"""The report of the label-privacy benchmark: one self-contained HTML file with tables and pictures."""

import html
import math

from bench.report_parts import image, subplots, table

# Tables 3.1 to 3.8 of the source: final accuracies of its one run per setting, as (its A: our host, its B: our guest).
SOURCE_FINALS = {
    (math.inf, 2.0): (0.9161, 0.8601),
    (2.0, 2.0): (0.8462, 0.9021),
    (4.0, 2.0): (0.9161, 0.7622),
    (8.0, 2.0): (0.8252, 0.8531),
    (4.0, 0.8): (0.8671, 0.9091),
    (4.0, 0.2): (0.8671, 0.8881),
    (4.0, 0.1): (0.8601, 0.8741),
}
LINES = (
    ("taylor", "plain", "Taylor, without flipback"),
    ("taylor", "flipback", "Taylor, with flipback"),
    ("exact", "plain", "exact, without flipback"),
    ("exact", "flipback", "exact, with flipback"),
)
PANELS = ("guest's weights alone (source: B)", "host's weights alone (source: A)", "joint model (not in the source)")
RATES = {
    "source": "the source's learning rate 0.005",
    "default": "dp_hetero_lr's learning rate 1 / (m / 4 + alpha) and momentum 0.3",
}
STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ccc;padding:.3em .8em;text-align:right}"
    "img{max-width:100%}"
)


def write_report(path, rows, sweeps):
    """Write the report to ``path``.

    :param rows: summary per epsilon and sigmoid, as ``label_dp.summarise`` returns it.
    :param sweeps: {"source" | "default": {(epsilon, lambda): Sweep}}.
    """
    sections = [_study_section(rows)]
    for name, described in RATES.items():
        sections.append(_sweep_section(sweeps[name], described))
    body = "\n".join(sections)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>What label privacy costs</title>'
        f"<style>{STYLE}</style></head><body><h1>What label privacy costs</h1>\n{body}\n</body></html>\n",
        encoding="utf-8",
    )


def _study_section(rows):
    columns = ("plain", "flipback", "gain", "over_taylor")
    cells = [
        [_text(row["epsilon"]), _sigmoid(row), *(_with_error(row[name]) for name in columns), row["modes"]]
        for row in rows
    ]
    headings = ["without flipback", "with flipback", "its gain, paired", "gain over taylor, paired", "mode of flipback"]
    return (
        "<p>Breast cancer (569 records), vertical logistic regression on labels flipped by randomised response (unit "
        "label, replace-one, observer host), with Taylor's gradient and with the exact sigmoid by majorisation in "
        "three corrections. Accuracy on held-out records against true labels, mean ± standard error over 20 "
        "stratified splits, each flipped ten times over. Computed with the plaintext twin of the encrypted protocol. "
        "A star marks the sigmoid that a rule in epsilon alone takes.</p>"
        f"{table(['epsilon', 'sigmoid', *headings], cells)}{_study_picture(rows)}"
    )


def _sigmoid(row):
    return f"{row['sigmoid']} *" if row["chosen"] else row["sigmoid"]


def _study_picture(rows):
    figure, axes = subplots(1, 1, (8, 4.2), sharey=True)
    axis = axes[0]
    for number, (sigmoid, name, label) in enumerate(LINES):
        of_sigmoid = [row for row in rows if row["sigmoid"] == sigmoid]
        # Beside one another, so that one line's errors do not hide the next one's.
        places = [place + 0.05 * number for place in range(len(of_sigmoid))]
        means, errors = zip(*(row[name] for row in of_sigmoid))
        axis.errorbar(places, means, yerr=errors, marker="os"[number % 2], capsize=4, label=label)
    axis.set_xticks(range(len(of_sigmoid)), [_text(row["epsilon"]) for row in of_sigmoid])
    axis.set_xlabel("epsilon")
    axis.set_ylabel("held-out accuracy")
    axis.legend()
    return image(figure, "Held-out accuracy by epsilon for both sigmoids, with and without flipback")


def _sweep_section(sweeps, described):
    by_epsilon = [sweeps[key] for key in sorted(sweeps) if key[1] == 2.0]
    by_lambda = [sweeps[key] for key in sorted(sweeps) if key[0] == 4.0]
    return (
        f"<h2>The source's sweeps with {html.escape(described)}</h2>"
        "<p>Mean over 20 splits (line) and standard deviation from split to split (band) of 30 epochs, resample "
        "flipback after every fifth. A diamond at the right edge is the final figure that the source prints for its "
        "one run (tables 3.1 to 3.8); the source's A is our host, its B our guest. lambda enters the gradient as "
        "lambda &theta; / n.</p>"
        f"<h3>epsilon 2, 4, 8, &infin; at lambda 2</h3>{_sweep_picture(by_epsilon, 'epsilon')}"
        f"<h3>lambda 0.1, 0.2, 0.8, 2 at epsilon 4</h3>{_sweep_picture(by_lambda, 'lambda')}"
        f"{_sweep_table(sweeps)}"
    )


def _sweep_picture(sweeps, varied):
    figure, axes = subplots(1, 3, (15, 4.4), sharey=True)
    for panel, (axis, title) in enumerate(zip(axes, PANELS)):
        for number, sweep in enumerate(sweeps):
            _draw_course(axis, sweep, panel, f"C{number}", varied)
        axis.set_title(title)
        axis.set_xlabel("epoch")
    axes[0].set_ylabel("held-out accuracy")
    axes[-1].legend(loc="lower right")
    return image(figure, f"Accuracy per epoch by {varied}")


def _draw_course(axis, sweep, panel, colour, varied):
    courses = sweep.accuracies[:, :, panel]
    epochs = range(1, courses.shape[1] + 1)
    mean, spread = courses.mean(axis=0), courses.std(axis=0, ddof=1)
    value = sweep.epsilon if varied == "epsilon" else sweep.penalty
    axis.plot(epochs, mean, color=colour, label=f"{varied} {_text(value)}")
    axis.fill_between(epochs, mean - spread, mean + spread, color=colour, alpha=0.12, linewidth=0)
    if panel < 2:
        host, guest = SOURCE_FINALS[sweep.epsilon, sweep.penalty]
        axis.plot([len(epochs) + 0.8], [(guest, host)[panel]], marker="D", color=colour, linestyle="none")


def _sweep_table(sweeps):
    cells = []
    for (epsilon, penalty), sweep in sorted(sweeps.items()):
        finals = sweep.accuracies[:, -1, :]
        host, guest = SOURCE_FINALS[epsilon, penalty]
        ours = [f"{mean:.3f} ± {spread:.3f}" for mean, spread in zip(finals.mean(axis=0), finals.std(axis=0, ddof=1))]
        cells.append([_text(epsilon), f"{penalty:g}", f"{guest:.3f}", ours[0], f"{host:.3f}", ours[1], ours[2]])
    headings = ["epsilon", "lambda", "guest: source", "guest: here", "host: source", "host: here", "joint: here"]
    note = (
        "<p>Final accuracy; here mean ± standard deviation of a single run, since the source prints single runs. "
        "Differences smaller than that deviation, the source's over lambda among them, say nothing about the setting.</p>"
    )
    return note + table(headings, cells)


def _with_error(pair):
    return f"{pair[0]:.4f} ± {pair[1]:.4f}"


def _text(value):
    return "∞" if value == math.inf else f"{value:g}"
