"""The report of the sweeps over the trust models: one self-contained HTML file with pictures and tables."""

import html
import math

from bench.report_parts import image, subplots, table, write_page

SWEEPS = (
    ("epsilon", "epsilon", "Accuracy by epsilon", "100 clients of 600 records."),
    ("clients", "clients", "Accuracy by number of clients", "Epsilon 4; 60,000 records divided over the clients."),
    ("sampling", "share of the records in a round", "Accuracy by sampling rate", "secure_sum, 100 clients, 40 rounds."),
    ("rounds", "rounds", "Accuracy by rounds", "secure_sum, 100 clients, a twentieth of the records in each round."),
)
COLOURS = {"secure_sum": "C0", "local": "C1", "shuffle": "C2"}
INTRODUCTION = (
    "MNIST, softmax regression with 410 parameters on 40 whitened coordinates of scattering coefficients, in a map "
    "that no real picture decided. Unit record, replace-one, delta 1e-5, PLD accountant, against server, clients and "
    "model; noise from the operating system's entropy. In shuffle every record sends one epsilon0-LDP message in one "
    "of 20 rounds; against the shuffler together with the server only epsilon0 holds. Where the proof of amplification "
    "ends, at one epsilon0 for 3,000 messages, several epsilons share it. Every point is one training."
)
TITLE = "Three trust models side by side"


def write_report(path, sweeps, outcomes, crossings):
    """Write the report to ``path``.

    :param sweeps: {name: points}; :param outcomes: {point: (terms, accuracy)}; :param crossings: of ``compare``.
    """
    sections = [_sweep_section(sweeps[name], outcomes, name, *texts) for name, *texts in SWEEPS]
    write_page(path, TITLE, "\n".join([f"<p>{INTRODUCTION}</p>", *sections, _crossing_section(crossings)]))


def _sweep_section(points, outcomes, name, axis_name, title, note):
    lines = {}
    for point in points:
        label = point.aggregation if name in {"epsilon", "clients"} else f"epsilon {point.epsilon:g}"
        lines.setdefault(label, []).append((getattr(point, name), outcomes[point][1]))
    figure, (axis,) = subplots(1, 1, (8, 4.2))
    for label, pairs in lines.items():
        axis.plot(*zip(*sorted(pairs)), marker="o", label=label, color=COLOURS.get(label))
    axis.set_xscale("log")
    values = sorted({getattr(point, name) for point in points})
    axis.set_xticks(values, [f"{value:g}" for value in values])
    axis.minorticks_off()
    axis.set_xlabel(axis_name)
    axis.set_ylabel("test accuracy")
    axis.legend()
    rows = [_row(point, *outcomes[point]) for point in points]
    headings = ("aggregation", "epsilon", "clients", "rounds", "sampling", "noise multiplier", "epsilon0", "accuracy")
    return f"<h2>{title}</h2><p>{html.escape(note)}</p>{image(figure, title)}{table(headings, rows)}"


def _row(point, terms, accuracy):
    numbers = (point.epsilon, point.clients, point.rounds, point.sampling)
    noise = [f"{value:.3f}" if value is not None else "" for value in (terms.noise_multiplier, terms.epsilon0)]
    return [point.aggregation, *(f"{number:g}" for number in numbers), *noise, f"{accuracy:.4f}"]


def _crossing_section(crossings):
    figure, axes = subplots(1, len(crossings), (15, 4.2))
    for axis, (records, errors, _) in zip(axes, crossings):
        for trust, colour in COLOURS.items():
            pairs = [(clients, of_trust[trust]) for clients, of_trust in errors.items()]
            pairs = [pair for pair in pairs if math.isfinite(pair[1])]
            axis.plot(*zip(*pairs), marker="o", label=trust, color=colour)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(f"{records} record{'s' * (records > 1)} per client")
        axis.set_xlabel("clients")
    axes[0].set_ylabel("error of a round's mean, in clips")
    axes[0].legend()
    most = max(crossings[0][1])
    rows = [
        [str(records), f"none up to {most:,}" if crossing is None else f"{crossing:,}"]
        for records, _, crossing in crossings
    ]
    return (
        "<h2>Where shuffling starts to pay</h2><p>Computed, not trained: root-mean-square error that noise adds to a "
        "round's mean, 410 parameters, epsilon 1, 40 rounds with a twentieth of the records each, which are two epochs "
        "in shuffle.</p>"
        f"{image(figure, 'Error by number of clients')}"
        f"{table(('records per client', 'clients from which shuffle has a smaller error than local'), rows)}"
    )
