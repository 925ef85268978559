"""What the private study found: its part of the result, its verdicts, its tables, and the picture of privacy against AUC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..cli.tables import TextTable, print_table
from ..report.page import INK, SERIES, svg_drawing
from .balancing import intervals_of
from .models import MEASURES, above, paired_difference
from .private_jobs import COLUMNS, DELTA, KINDS, ROWS, SMOTENC, TRANSFER
from .private_study import YARDSTICKS, PrivateStudy
from .tables import difference_text, interval_text

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from rich.console import Console

SMALL = {
    "small_alone": "its own loans alone",
    "small_federated": "the others' private model as it is",
    "small_fine_tuned": "the others' model, fine-tuned on its own loans",
}
NEAR, FAR = 0.01, 0.05
PART_TITLES = {ROWS: "institutions split by rows", COLUMNS: "bank and bureau, split by columns"}
MARKERS = "osD^vPX"
LINES = ("-", "--", ":", "-.")


def describe(study: PrivateStudy, found: dict) -> dict:
    """The result's entry of a private study from the records of its jobs and its yardsticks."""
    jobs = found["jobs"]
    models: dict[tuple, list[dict]] = {}
    for job in jobs:
        for model in job["models"]:
            models.setdefault((model["kind"], model["epsilon"]), []).append(model["measures"])
    transfers = [job["transfer"] for job in jobs if "transfer" in job]
    named = {name: [each[name] for each in transfers] for name in SMALL} if transfers else {}
    lines = [{"job_id": job["job_id"], **line} for job in jobs for line in job["ledger"] or ()]
    return {
        "seeds": list(study.seeds),
        "parts": list(study.parts),
        "epsilons": list(study.epsilons),
        "delta": DELTA,
        "models": [_model(kind, epsilon, measured) for (kind, epsilon), measured in models.items()],
        "yardsticks": _measured(YARDSTICKS, found["yardsticks"]),
        "transfer": _measured(SMALL, named),
        "jobs": [{name: job[name] for name in ("name", "seed", "job_id", "seconds", "page")} for job in jobs],
        "ledger": None if any(job["ledger"] is None for job in jobs) else lines,
        "constant": found["constant"],
    }


def _model(kind: str, epsilon: float | None, measured: list[dict]) -> dict:
    told = KINDS[kind]
    return {
        "kind": kind,
        "part": told.part,
        "title": told.title,
        "protects": told.protects,
        "epsilon": epsilon,
        "measures": intervals_of(measured, MEASURES),
    }


def _measured(titles: dict[str, str], measured: dict[str, list[dict]]) -> list[dict]:
    return [
        {"name": name, "title": title, "measures": intervals_of(measured[name], MEASURES)}
        for name, title in titles.items()
        if name in measured
    ]


# Verdicts: what the source proposes, and what a reader would like to be true of privacy.


def private_verdicts(private: dict) -> list[dict]:
    """Every claim that the parts which ran can decide."""
    aucs: dict[Any, dict] = {(model["kind"], model["epsilon"]): model["measures"]["auc"] for model in private["models"]}
    aucs |= {each["name"]: each["measures"]["auc"] for each in (*private["yardsticks"], *private["transfer"])}
    specificity = {(model["kind"], model["epsilon"]): model["measures"]["specificity"] for model in private["models"]}
    return [
        found
        for make in (_rows, _columns, _weights, _transfer)
        for found in make(aucs, specificity, private["epsilons"])
    ]


def _compared(
    claim: str, first: tuple[str, dict | None], second: tuple[str, dict | None], threshold: float, what: str = "AUC"
) -> Iterator[dict]:
    """One verdict: whether the first exceeds the second by more than a threshold; none where one was not measured."""
    (name, left), (other, right) = first, second
    if left is None or right is None:
        return
    difference = paired_difference(left, right)
    yield {
        "claim": claim,
        "holds": above(difference, threshold),
        "figures": f"{what} {left['mean']:.4f} ({name}) and {right['mean']:.4f} ({other}), difference "
        f"{difference_text(difference)}.",
    }


def _rows(aucs: dict, specificity: dict, epsilons: list) -> Iterator[dict]:
    least = min(epsilons)
    for kind in ("homo_secure_sum", "homo_local", "homo_shuffle"):
        private = f"{KINDS[kind].title}, epsilon {least:g}", aucs.get((kind, least))
        yield from _compared(
            f"Privacy is affordable by rows: {KINDS[kind].title} at epsilon {least:g} is at most {NEAR:g} of AUC below the "
            "federation without privacy",
            private,
            ("federated, SMOTENC", aucs.get("federated")),
            -NEAR,
        )


def _columns(aucs: dict, specificity: dict, epsilons: list) -> Iterator[dict]:
    least = min(epsilons)
    for word, kinds in (
        ("labels", [kind for kind in KINDS if kind.startswith("label_")]),
        ("records", [kind for kind in KINDS if kind.startswith("record_")]),
    ):
        measured = [kind for kind in kinds if (kind, least) in aucs]
        if measured:
            best = max(measured, key=lambda kind: aucs[kind, least]["mean"])
            yield from _compared(
                f"Privacy is affordable by columns: the best private model of {word} at epsilon {least:g} is at most "
                f"{NEAR:g} of AUC below the central model (the best is chosen on the held-out loans, in its favour)",
                (f"{KINDS[best].title}, epsilon {least:g}", aucs[best, least]),
                ("central", aucs.get("central")),
                -NEAR,
            )


def _weights(aucs: dict, specificity: dict, epsilons: list) -> Iterator[dict]:
    for epsilon in sorted({4.0 if 4.0 in epsilons else max(epsilons)}):
        weighted = specificity.get(("homo_secure_sum_weighted", epsilon))
        yield from _compared(
            f"Class weights do privately what SMOTENC is for: at epsilon {epsilon:g} they recognise more of the charged-off "
            f"loans by over {FAR:g} than the same training without them",
            (f"class weights, epsilon {epsilon:g}", weighted),
            ("without", specificity.get(("homo_secure_sum", epsilon))),
            FAR,
            "specificity",
        )
        yield from _compared(
            f"Nothing is lost without SMOTENC: class weights at epsilon {epsilon:g} are at most {NEAR:g} of AUC below HomoLR on "
            "over-sampled loans, which has no privacy",
            (f"class weights, epsilon {epsilon:g}", aucs.get(("homo_secure_sum_weighted", epsilon))),
            ("HomoLR after smote, on FATE-Flow", aucs.get((SMOTENC, None))),
            -NEAR,
        )


def _transfer(aucs: dict, specificity: dict, epsilons: list) -> Iterator[dict]:
    small = {name: (title, aucs.get(name)) for name, title in SMALL.items()}
    yield from _compared(
        "The source proposes transfer: a small institution gains from the others' private model (here: fine-tuned AUC higher "
        f"by more than {NEAR:g} than alone)",
        small["small_fine_tuned"],
        small["small_alone"],
        NEAR,
    )
    yield from _compared(
        "Fine-tuning pays: its AUC is above that of the others' model as it is",
        small["small_fine_tuned"],
        small["small_federated"],
        0.0,
    )


# Tables.


def private_table(private: dict, part: str, measure: str = "auc") -> TextTable:
    """A measure of each kind of model of a part, one column for each epsilon."""
    epsilons = private["epsilons"]
    found = {(model["kind"], model["epsilon"]): model for model in private["models"] if model["part"] == part}
    headings = ("no promise", *(f"epsilon {epsilon:g}" for epsilon in epsilons))
    rows = []
    for kind in dict.fromkeys(kind for kind, _ in found):
        cells = [found.get((kind, epsilon)) for epsilon in (None, *epsilons)]
        title = next(cell["title"] for cell in cells if cell)
        rows.append((title, *(interval_text(cell["measures"][measure]) if cell else "-" for cell in cells)))
    if part == ROWS:
        empty = ("-",) * len(epsilons)
        rows += [
            (f"{each['title']}, one process", interval_text(each["measures"][measure]), *empty)
            for each in private["yardsticks"]
        ]
    return TextTable(("model", *headings), tuple(rows), frozenset(headings))


def protects(private: dict, part: str) -> dict[str, str]:
    """What the epsilon of each kind of a part protects, by the kind's title."""
    return {model["title"]: model["protects"] for model in private["models"] if model["part"] == part}


def transfer_table(private: dict) -> TextTable:
    """The models of the small institution."""
    headings = ("AUC", "specificity")
    rows = [
        (each["title"], interval_text(each["measures"]["auc"]), interval_text(each["measures"]["specificity"]))
        for each in private["transfer"]
    ]
    return TextTable(("the small institution uses", *headings), tuple(rows), frozenset(headings))


def ledger_table(private: dict) -> TextTable:
    """What every job of the first seed charged to whom, equal lines of several parties put together."""
    names = {job["job_id"]: job["name"] for job in private["jobs"] if job["seed"] == private["seeds"][0]}
    lines: dict[tuple, list[str]] = {}
    for line in private["ledger"] or ():
        if line["job_id"] in names:
            told = (names[line["job_id"]], line["mechanism"], line["unit"], line["relation"] or "-")
            lines.setdefault((*told, number_text(line["epsilon"]), number_text(line["delta"])), []).append(
                line["party"]
            )
    headings = ("job", "parties", "mechanism", "unit", "relation", "epsilon", "delta")
    rows = tuple((told[0], ", ".join(dict.fromkeys(parties)), *told[1:]) for told, parties in lines.items())
    return TextTable(headings, rows, frozenset(("epsilon", "delta")))


def number_text(value: Any) -> str:
    """A ledger's number to four digits; a word, such as infinity, as it is."""
    return value if isinstance(value, str) else "-" if value is None else f"{value:.4g}"


def print_private(private: dict, console: Console) -> None:
    """Print held-out AUC of every private model, and what a small institution gains."""
    for part, title in PART_TITLES.items():
        if has_part(private, part):
            print_table(console, f"Private models on FATE-Flow, held-out AUC: {title}", private_table(private, part))
    if private["transfer"]:
        print_table(console, "Transfer to a small institution", transfer_table(private))


# The picture.


def privacy_figures(private: dict) -> list[Markup]:
    """AUC against epsilon of every private model, a drawing for each part in the same scale; yardsticks as lines across."""
    parts = [
        part for part in (ROWS, COLUMNS) if any(each["part"] == part and each["epsilon"] for each in private["models"])
    ]
    shown = [*(each for each in private["models"] if each["epsilon"]), *_lines_across(private)]
    measured = [each["measures"]["auc"] for each in shown]
    ends = [each[end] for each in measured for end in ("mean", "low", "high") if each[end] is not None]
    room = 0.05 * (max(ends) - min(ends)) or 0.01 if ends else 0

    def drawing(part: str) -> Markup:
        def draw(axis: Axes) -> None:
            _draw_part(axis, private, part)
            axis.set_ylim(min(ends) - room, max(ends) + room)

        description = f"Held-out AUC by epsilon, {PART_TITLES[part]}"
        return svg_drawing(f"privacy-{part}", description, (5.6, 6.4), draw)

    return [drawing(part) for part in parts]


def _lines_across(private: dict) -> list[dict]:
    return [each for each in private["yardsticks"] if each["name"] in ("central", "alone", "federated")]


def _draw_part(axis: Axes, private: dict, part: str) -> None:
    models = [model for model in private["models"] if model["part"] == part and model["epsilon"] is not None]
    kinds = list(dict.fromkeys(model["kind"] for model in models))
    for number, kind in enumerate(kinds):
        found = sorted((model for model in models if model["kind"] == kind), key=lambda model: model["epsilon"])
        # Side by side, since whiskers on top of each other could not be told apart.
        shift = 1.03 ** (number - (len(kinds) - 1) / 2)
        _points(axis, [model["epsilon"] * shift for model in found], found, number)
    for number, each in enumerate(_lines_across(private)):
        style: dict[str, Any] = {"color": INK, "linewidth": 1, "linestyle": LINES[number % len(LINES)], "zorder": 0}
        axis.axhline(each["measures"]["auc"]["mean"], label=f"{each['title']}, no privacy", **style)
    axis.set_xscale("log")
    axis.set_xticks(private["epsilons"], [f"{epsilon:g}" for epsilon in private["epsilons"]])
    axis.minorticks_off()
    axis.set_xlabel("epsilon (nats)")
    axis.set_ylabel("held-out AUC")
    axis.set_title(PART_TITLES[part], fontsize=11)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), fontsize=9, ncols=1)


def _points(axis: Axes, places: list[float], found: list[dict], number: int) -> None:
    intervals = [model["measures"]["auc"] for model in found]
    reaches = None
    if all(each["low"] is not None for each in intervals):
        reaches = [each["high"] - each["mean"] for each in intervals]
    axis.errorbar(
        places,
        [each["mean"] for each in intervals],
        reaches,
        color=SERIES[number % len(SERIES)],
        marker=MARKERS[number % len(MARKERS)],
        linestyle="-",
        linewidth=1.2,
        capsize=3,
        label=found[0]["title"],
    )


def summary(private: dict | None) -> str:
    """What the private part found, in one sentence, for the head of the report; empty where there is none."""
    if private is None:
        return ""
    least = min(private["epsilons"])
    told = []
    for part, words in PART_TITLES.items():
        models = [model for model in private["models"] if model["part"] == part and model["epsilon"] == least]
        if models:
            best = max(models, key=lambda model: model["measures"]["auc"]["mean"])
            told.append(f"{words}, {best['measures']['auc']['mean']:.3f} ({best['title']})")
    if not told:
        return ""
    return f"With differential privacy at epsilon {least:g}, the best held-out AUC is: {'; '.join(told)}. "


def has_part(private: dict, part: str) -> bool:
    return bool(private["transfer"]) if part == TRANSFER else any(model["part"] == part for model in private["models"])
