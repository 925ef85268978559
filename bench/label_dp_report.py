"""The report of the label-privacy benchmark: one self-contained HTML file with a table and a picture."""

import math

from bench.report_parts import image, subplots, table, write_page

LINES = (
    ("taylor", "plain", "Taylor, without flipback"),
    ("taylor", "flipback", "Taylor, with flipback"),
    ("exact", "plain", "exact, without flipback"),
    ("exact", "flipback", "exact, with flipback"),
)


def write_report(path, rows):
    """Write the report to ``path``, from rows as ``label_dp.summarise`` returns them."""
    write_page(path, "What label privacy costs", _study_section(rows))


def _study_section(rows):
    columns = ("plain", "flipback", "gain", "over_taylor")
    cells = [
        [text(row["epsilon"]), _sigmoid(row), *(_with_error(row[name]) for name in columns), row["modes"]]
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
    axis.set_xticks(range(len(of_sigmoid)), [text(row["epsilon"]) for row in of_sigmoid])
    axis.set_xlabel("epsilon")
    axis.set_ylabel("held-out accuracy")
    axis.legend()
    return image(figure, "Held-out accuracy by epsilon for both sigmoids, with and without flipback")


def _with_error(pair):
    return f"{pair[0]:.4f} ± {pair[1]:.4f}"


def text(value):
    """An epsilon as text."""
    return "∞" if value == math.inf else f"{value:g}"
