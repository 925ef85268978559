"""The report of the flipback benchmark: one self-contained HTML file with verdicts, tables and pictures."""

import html
import math

from bench.label_dp_report import text
from bench.report_parts import image, subplots, table, write_page

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
PANELS = ("guest's weights alone (source: B)", "host's weights alone (source: A)", "joint model (not in the source)")
RATES = {
    "source": "the source's learning rate 0.005",
    "default": "dp_hetero_lr's learning rate 1 / (m / 4 + alpha) and momentum 0.3",
}


def write_report(path, sweeps, shares, verdicts):
    """Write the report to ``path``.

    :param sweeps: {"source" | "default": {(epsilon, lambda): Course}}.
    :param shares: {(mode, epsilon, share): interval of the gain}.
    :param verdicts: sentences.
    """
    listed = "".join(f"<li>{html.escape(line)}</li>" for line in verdicts)
    sections = [f"<h2>Verdicts</h2><ul>{listed}</ul>"]
    sections += [_sweep_section(sweeps[name], described) for name, described in RATES.items()]
    sections.append(_share_section(shares))
    write_page(path, "Flips and flipback", "\n".join(sections))


def _sweep_section(sweep, described):
    by_epsilon = [sweep[key] for key in sorted(sweep) if key[1] == 2.0]
    by_lambda = [sweep[key] for key in sorted(sweep) if key in SOURCE_FINALS and key[0] == 4.0]
    return (
        f"<h2>The source's sweeps with {html.escape(described)}</h2>"
        "<p>Mean over 20 splits of five trainings each (line) and standard deviation from split to split (band) of 30 "
        "epochs, resample flipback after every fifth. A diamond at the right edge is the final figure that the source "
        "prints for its one run (tables 3.1 to 3.8); the source's A is our host, its B our guest. lambda enters the "
        "gradient as lambda &theta; / n. The loss is that of the labels trained on, with the penalty.</p>"
        f"<h3>epsilon 2, 4, 8, &infin; at lambda 2</h3>{_sweep_picture(by_epsilon, 'epsilon')}"
        f"<h3>lambda 0.1, 0.2, 0.8, 2 at epsilon 4</h3>{_sweep_picture(by_lambda, 'lambda')}"
        f"{_final_table(by_epsilon + [each for each in by_lambda if each.penalty != 2.0])}"
        f"<h3>Do flips regularise?</h3>{_gap_table(sweep)}"
    )


def _sweep_picture(courses, varied):
    figure, axes = subplots(1, 4, (19, 4.4))
    for number, course in enumerate(courses):
        value = course.epsilon if varied == "epsilon" else course.penalty
        _draw(axes[0], course.losses, f"C{number}", f"{varied} {text(value)}")
        for panel, axis in enumerate(axes[1:]):
            _draw(axis, course.accuracies[:, :, panel], f"C{number}", f"{varied} {text(value)}")
            axis.set_ylim(0.5, 1.0)
        host, guest = SOURCE_FINALS[course.epsilon, course.penalty]
        for axis, final in ((axes[1], guest), (axes[2], host)):
            axis.plot([course.losses.shape[1] + 0.8], [final], marker="D", color=f"C{number}", linestyle="none")
    for axis, title in zip(axes, ("loss on the labels trained on", *PANELS)):
        axis.set_title(title)
        axis.set_xlabel("epoch")
    axes[0].set_ylabel("loss")
    axes[1].set_ylabel("held-out accuracy")
    axes[-1].legend(loc="lower right")
    return image(figure, f"Loss and accuracy per epoch by {varied}")


def _draw(axis, courses, colour, label):
    epochs = range(1, courses.shape[1] + 1)
    mean, spread = courses.mean(axis=0), courses.std(axis=0, ddof=1)
    axis.plot(epochs, mean, color=colour, label=label)
    axis.fill_between(epochs, mean - spread, mean + spread, color=colour, alpha=0.12, linewidth=0)


def _final_table(courses):
    cells = []
    for course in courses:
        finals = course.accuracies[:, -1, :]
        host, guest = SOURCE_FINALS[course.epsilon, course.penalty]
        ours = [f"{mean:.3f} ± {spread:.3f}" for mean, spread in zip(finals.mean(axis=0), finals.std(axis=0, ddof=1))]
        settled = f"{course.settled.mean():.1f}"
        cells.append(
            [text(course.epsilon), f"{course.penalty:g}", f"{guest:.3f}", ours[0], f"{host:.3f}", *ours[1:], settled]
        )
    headings = ["epsilon", "lambda", "guest: source", "guest: here", "host: source", "host: here", "joint: here"]
    note = (
        "<p>Final accuracy; here mean ± standard deviation from split to split of five trainings' mean, while the source "
        "prints single runs. Differences smaller than that, the source's over lambda among them, say nothing about the "
        "setting. The last column: epochs until the loss has made 95 % of its way.</p>"
    )
    return note + table([*headings, "epochs to convergence"], cells)


def _gap_table(sweep):
    """Held-out accuracy and the gap to the training rows, with flips at epsilon 4 and without, by lambda."""
    values = sorted(penalty for epsilon, penalty in sweep if epsilon == 4.0)
    cells = []
    for value in values:
        flipped, plain = sweep[4.0, value], sweep[math.inf, value]
        accuracies = [f"{course.held_out.mean():.4f}" for course in (flipped, plain)]
        gaps = [f"{(course.fitted - course.held_out).mean():+.4f}" for course in (flipped, plain)]
        cells.append([f"{value:g}", *accuracies, *gaps])
    headings = ["lambda", "held-out, epsilon 4", "held-out, no flips", "gap, epsilon 4", "gap, no flips"]
    return "<p>Gap: accuracy on training rows less held-out accuracy, both on true labels.</p>" + table(headings, cells)


def _share_section(shares):
    figure, axes = subplots(1, 2, (12, 4.2), sharey=True)
    cells = []
    for axis, mode in zip(axes, dict.fromkeys(mode for mode, _, _ in shares)):
        for number, epsilon in enumerate(dict.fromkeys(epsilon for _, epsilon, _ in shares)):
            own = {share: gain for (m, e, share), gain in shares.items() if (m, e) == (mode, epsilon)}
            means, reaches = zip(*((gain["mean"], gain["high"] - gain["mean"]) for gain in own.values()))
            places = [place + 0.06 * number for place in range(len(own))]
            axis.errorbar(places, means, yerr=reaches, marker="o", capsize=4, label=f"epsilon {epsilon:g}")
            told = (f"{mean:+.4f} ± {reach:.4f}" for mean, reach in zip(means, reaches))
            cells.append([mode, f"{epsilon:g}", *told])
        axis.axhline(0, color="#999", linewidth=0.8)
        axis.set_xticks(range(len(own)), [f"{share:.1%}" for share in own])
        axis.set_title(mode)
        axis.set_xlabel("share of the records that a round touches")
    axes[0].set_ylabel("gain in held-out accuracy")
    axes[0].legend()
    headings = ["mode", "epsilon", *(f"{share:.1%}" for share in own)]
    return (
        "<h2>The share of flipback</h2><p>Held-out accuracy with flipback less that without, paired by flips and start "
        "weights, mean ± 95 % over splits.</p>"
        f"{table(headings, cells)}{image(figure, 'Gain of flipback by share')}"
    )
