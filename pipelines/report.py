"""The demo's report: one HTML file that needs nothing else, for readers who do not run programs."""
from __future__ import annotations

import html
import math
import os

from .page import card_html, filled, head_html, moment, percent, row_html, table_html
from .report_figures import loss_figure, roc_figure, seconds_figure
from .tables import MODELS, epsilon_text, ledger_table, model_table, observer_table, party_table, training_table
from .whole_file import write_whole

OBSERVERS = {
    "guest": "The guest \N{EN DASH} holds the labels", "host": "The host \N{EN DASH} holds further features, no labels",
    "arbiter": "The arbiter \N{EN DASH} holds no records", "model": "Whoever gets the model",
}  # fmt: skip
TITLE = "What label privacy costs, and what it protects"


def write_report(result: dict, path: str | os.PathLike) -> None:
    """Write the report of a result, a dictionary as result_schema.json describes it, to `path`, whole or not at all."""
    write_whole(path, report_html(result))


def report_html(result: dict) -> str:
    """The report as one HTML document; the same result gives the same text."""
    private, data = result["models"]["private"], result["data"]
    texts = {
        "title": TITLE,
        "created": moment(result["created"]),
        "summary": summary(result),
        "precision_of_figures": precision_of_figures(private["metrics"]),
        "rows": str(private["metrics"]["rows"]),
        "does": result["privacy"]["protocol"]["does"],
        "solver": result["privacy"]["protocol"]["solver"],
        "component": result["privacy"]["protocol"]["component"],
        "collusion": result["privacy"]["protocol"]["collusion"],
        "data_name": data["name"],
        "seed": str(data["seed"]),
        "total": f"{result['seconds']['total']:.0f}",
        "jobs": "Jobs on FATE-Flow: " + "; ".join(f"{job['name']} {job['job_id']}" for job in result["jobs"]) + ".",
        **{name: result[name] for name in ("fate_dp_version", "fate_version", "schema")},
        **label_guarantee(private["epsilon"]),
    }
    drawn = {
        "cards": cards(result),
        "model_table": table_html(model_table(result)),
        "training_table": table_html(training_table(result)),
        "observer_table": table_html(observer_table(result)),
        "views": views_html(result["privacy"]),
        "party_table": table_html(party_table(result)),
        "ledgers": "\n".join(ledger_html(party, entries) for party, entries in result["ledgers"].items()),
        "loss_figure": loss_figure(result["models"]),
        "roc_figure": roc_figure(result["models"]),
        "seconds_figure": seconds_figure(result["seconds"]["tasks"]),
    }
    return filled("report_template.html", texts, drawn)


def summary(result: dict) -> str:
    """What was done and what came out, in one paragraph."""
    data, models = result["data"], result["models"]
    guest, *hosts = data["parties"]
    others = " and ".join(f"{host['party']} ({host['features']} features)" for host in hosts)
    accuracy = {name: models[name]["metrics"]["accuracy"] for name in MODELS}
    private, rows = models["private"], models["private"]["metrics"]["rows"]
    return (
        f"{guest['party'].capitalize()} (the labels and {guest['features']} features) and {others} trained one "
        f"logistic regression on {data['common_rows']['train']} common records of {data['name']}, without "
        f"showing each other their data. Beforehand the guest flipped some of its labels at random, at epsilon "
        f"{epsilon_text(private['epsilon'])}. On {rows} held-out records the model is right in "
        f"{percent(accuracy['private'])} of all cases. That is "
        f"{comparison(accuracy['private'] - accuracy['guest_only'])} the guest reaches with its own features on the "
        f"same flipped labels, and {comparison(accuracy['private'] - accuracy['not_private'])} the same training "
        f"reaches without any flips."
    )


def comparison(difference: float) -> str:
    """A difference of two shares in words, to be followed by what is compared with."""
    points = round(100 * difference, 1)
    if points == 0:
        return "as much as"
    return f"{abs(points):.1f} percentage points {'more' if points > 0 else 'less'} than"


def precision_of_figures(metrics: dict) -> str:
    """How far accuracies on this many records can be trusted."""
    accuracy, rows = metrics["accuracy"], metrics["rows"]
    error = math.sqrt(accuracy * (1 - accuracy) / rows)
    return (f"One held-out record is {100 / rows:.1f} percentage points of accuracy, and the standard error of the "
            f"private model's is {100 * error:.1f}: differences of a few records are chance.")


def score_releases(releases: list[dict]) -> str:
    """How often the guest got joint scores of training records."""
    return " ".join(
        f"By the ledger of {release['party']}, over all jobs, the guest got the joint scores of all training records "
        f"{release['released']} of at most {release['cap']} times." for release in releases)


def views_html(privacy: dict) -> str:
    """What each observer sees of the protocol that ran, and what protects the others from it, as a list of definitions."""
    parts = []
    for view in privacy["protocol"]["views"]:
        told = f"{view['sees']} Protection: {view['protected_by']}"
        if view["observer"] == "guest" and privacy["score_releases"]:
            told = f"{told} {score_releases(privacy['score_releases'])}"
        title = OBSERVERS.get(view["observer"], view["observer"])
        parts.append(f"<dt>{html.escape(title)}</dt>\n<dd>{html.escape(told)}</dd>")
    return "\n".join(parts)


def label_guarantee(epsilon: float) -> dict[str, str]:
    """What an epsilon of labels with two classes means: rates of the flip and the change of odds."""
    from fate_dp.privacy.mechanisms.randomized_response import flip_probability

    flip = flip_probability(epsilon)
    return {"epsilon": epsilon_text(epsilon), "flip": percent(flip), "keep": percent(1 - flip),
            "odds": f"{math.exp(epsilon):.1f}"}


def cards(result: dict) -> str:
    """The key figures at the head of the page."""
    models = result["models"]
    figures = [(name, percent(models[name]["metrics"]["accuracy"]), f"accuracy: {models[name]['title']}")
               for name in MODELS]
    figures.append(("epsilon", f"ε = {epsilon_text(models['private']['epsilon'])}", "of each training label"))
    return "\n".join(card_html(*figure) for figure in figures)


def ledger_html(party: str, entries: list[dict]) -> str:
    """One party's ledger; below each line its note, times and jobs, which need the whole width."""
    heading = f"<h3>Ledger of {html.escape(party)}</h3>"
    if not entries:
        return f"{heading}<p>Nothing was released.</p>"
    table = ledger_table(entries)
    lines = []
    for entry, row in zip(entries, table.rows):
        explained = html.escape(explanation(entry))
        lines.append(f'<tbody>{row_html(table, row)}<tr class="explained"><td></td>'
                     f'<td colspan="{len(row) - 1}">{explained}</td></tr></tbody>')
    body = "".join(lines)
    return f'{heading}<div class="scroll"><table class="ledger">{head_html(table)}{body}</table></div>'


def explanation(entry: dict) -> str:
    pending = f" {entry['pending']} uses are not confirmed, and charged all the same." if entry["pending"] else ""
    charged = "Counted towards a cap" if entry["counted"] else "Not counted towards a cap"
    return (f"{entry['note'][:1].upper()}{entry['note'][1:]}. {charged}; relation {entry['relation']}.{pending} "
            f"First used {moment(entry['first_time'])}, last {moment(entry['last_time'])}; "
            f"jobs {', '.join(entry['jobs']) or 'none'}.")
