"""What the study found, in one form for all its parts: models with their measures over splits, jobs, and verdicts on claims.

``result.json`` is what `assemble` gives. A model has

- ``part``: one of `PARTS`; ``key``, unique together with ``epsilon``; ``title``;
- ``epsilon`` in nats, None where nothing is promised, and ``note``: what it protects, or how the model was trained;
- ``measures``: by name `models.interval`: mean, low and high end of a 95 % interval (None for one split), values by split.

A job has ``name``, ``seed``, ``job_id``, ``seconds``, ``page``, its lines in the ``ledger`` (None where the ledgers are on other
machines), and HomoLR's its ``agreement`` with the simulation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fate_dp.privacy.private_files import atomic_write

from .models import ALONE, CENTRAL, CENTRAL_WEIGHTED, FEDERATED, MEASURES, above, interval, paired_difference
from .private_jobs import COLUMNS, KINDS, ROWS, SMOTENC, TRANSFER

TOGETHER, BALANCING, SHARES, YARDSTICKS = "together", "balancing", "shares", "yardsticks"
PARTS = (TOGETHER, BALANCING, SHARES, ROWS, YARDSTICKS, COLUMNS, TRANSFER)
SCHEMA = "fate-dp/credit-risk/1"
FAR_BETTER, MORE_EVEN, NEAR, FAR = 0.05, 0.01, 0.01, 0.05
LEAKING_AUC = 0.75
# Over-sampling makes the classes equal, so that at the start the bias has no gradient but rounding errors, and RMSprop
# scales whatever it gets up to a step: the order of rows, which FATE shuffles, alone moves scores, by some 1e-5 after 20
# epochs and by 1e-3 after 3 on 2,000 loans (`models.spread_by_order`). What a few orders spread over, one more may exceed.
SAME_SCORES, SPREADS = 1e-3, 3

Models = dict[tuple[str, "float | None"], dict]
"""By key and epsilon."""


def model(
    part: str,
    key: str,
    title: str,
    measured: Sequence[dict[str, float]],
    note: str = "",
    epsilon: float | None = None,
    names: Sequence[str] = MEASURES,
) -> dict:
    """The entry of a model; ``measured`` are its measures on each split."""
    measures = {name: interval([values[name] for values in measured]) for name in names}
    return {"part": part, "key": key, "title": title, "epsilon": epsilon, "note": note, "measures": measures}


def write_result(result: dict, folder: Path) -> None:
    """Write result.json and then report.html, each whole or not at all."""
    from .report import report_html

    atomic_write(folder / "result.json", json.dumps(result, indent=2, allow_nan=False) + "\n")
    atomic_write(folder / "report.html", report_html(result))


# What the source claims and what an honest federation must show, decided from measured figures and never assumed: an interval
# on one side of the threshold decides, one across it, or a single split, decides nothing.


@dataclass(frozen=True)
class Claim:
    """That the first model's measure exceeds the second's by more than a threshold."""

    text: str
    first: tuple[str, float | None]
    second: tuple[str, float | None]
    threshold: float
    measure: str = "auc"


def verdicts(result: dict) -> list[dict]:
    """Every claim whose models were measured: ``claim``, ``holds`` (true, false, None if not decided) and ``figures``."""
    models: Models = {(each["key"], each["epsilon"]): each for each in result["models"]}
    found = [decided(claim, models) for claim in claims(models) if claim.first in models and claim.second in models]
    runs = [job for job in result["jobs"] if "agreement" in job]
    return [*found, no_leak(result["models"]), *([runs_equal_simulation(runs)] if runs else [])]


def decided(claim: Claim, models: Models) -> dict:
    """The verdict on a claim, split by split."""
    first, second = models[claim.first], models[claim.second]
    left, right = first["measures"][claim.measure], second["measures"][claim.measure]
    difference = paired_difference(left, right)
    return {
        "claim": f"{claim.text} (difference above {claim.threshold:g})",
        "holds": above(difference, claim.threshold),
        "figures": f"{claim.measure}: {left['mean']:.4f} ({spoken(first)}), {right['mean']:.4f} ({spoken(second)}), difference "
        f"{difference_text(difference)}.",
    }


def spoken(entry: dict) -> str:
    return entry["title"] if entry["epsilon"] is None else f"{entry['title']}, epsilon {entry['epsilon']:g}"


def difference_text(difference: dict) -> str:
    """The mean of a difference with its sign, and both ends of its interval where there is one."""
    mean, low, high = (difference[name] and f"{difference[name]:+.4f}" for name in ("mean", "low", "high"))
    return f"{difference['mean']:+.4f}" if low is None else f"{mean} ({low} to {high})"


def claims(models: Models) -> Iterator[Claim]:
    """All claims that the measured models allow."""
    yield from _claims_of_learning_together(models)
    private = {epsilon for key, epsilon in models if epsilon is not None and key in KINDS}
    if private:
        yield from _claims_of_privacy(models, min(private))
    at = 4.0 if 4.0 in private else max(private, default=None)
    weighted, plain = ("homo_secure_sum_weighted", at), ("homo_secure_sum", at)
    text = "Class weights do privately what SMOTENC is for: they recognise more of the charged-off loans"
    yield Claim(text, weighted, plain, FAR, "specificity")
    yield Claim("Nothing is lost without SMOTENC, which ends all privacy", weighted, (SMOTENC, None), -NEAR)
    small = {name: (f"small_{name}", None) for name in ("alone", "federated", "fine_tuned")}
    text = "The source proposes transfer: a small institution gains from the others' private model"
    yield Claim(text, small["fine_tuned"], small["alone"], NEAR)
    yield Claim("Fine-tuning pays", small["fine_tuned"], small["federated"], 0.0)


def _claims_of_learning_together(models: Models) -> Iterator[Claim]:
    federated = (FEDERATED, None)
    alone = [key for key in models if key[0].startswith(f"{ALONE}_")]
    if alone:
        # Chosen on the held-out loans, in its favour.
        best = max(alone, key=lambda key: models[key]["measures"]["specificity"]["mean"])
        text = "The source: federated is far better than the best institution alone"
        yield Claim(text, federated, best, FAR_BETTER, "specificity")
        yield Claim("The best institution loses nothing by joining", federated, best, -NEAR, "specificity")
    yield Claim("Pooling the loans gains nothing, with the same objective", federated, (CENTRAL, None), -NEAR)
    text = "Nor does scikit-learn's central regression with class weights"
    yield Claim(text, federated, (CENTRAL_WEIGHTED, None), -NEAR)
    shared = [key for key in models if key[0].startswith("federated at ")]
    if len(shared) > 1:
        text = "The source: the more even two institutions' shares, the better"
        yield Claim(text, shared[-1], shared[0], MORE_EVEN, "specificity")


def _claims_of_privacy(models: Models, least: float) -> Iterator[Claim]:
    text = "Privacy is affordable by {}: {} is at most a little below the model without"
    for kind in ("homo_secure_sum", "homo_local", "homo_shuffle"):
        yield Claim(text.format("rows", KINDS[kind].title), (kind, least), ("yardstick_federated", None), -NEAR)
    for word in ("label", "record"):
        measured = [key for key in models if key[0].startswith(f"{word}_") and key[1] == least]
        if measured:
            best = max(measured, key=lambda key: models[key]["measures"]["auc"]["mean"])
            told = f"the best private model of {word}s, chosen on the held-out loans,"
            yield Claim(text.format("columns", told), best, ("yardstick_central", None), -NEAR)


def no_leak(models: list[dict]) -> dict:
    """Whether any model is better than what is known at application time allows."""
    highest, title = max((max(each["measures"]["auc"]["values"]), each["title"]) for each in models)
    return {
        "claim": f"No column gives the outcome away: every AUC is below {LEAKING_AUC:g}",
        "holds": highest < LEAKING_AUC,
        "figures": f"The highest AUC of any model and split is {highest:.4f} ({title}).",
    }


def runs_equal_simulation(runs: list[dict]) -> dict:
    """Whether the figures that were simulated are those of FATE-Flow, too."""
    told = [run["agreement"] for run in runs]
    largest, spread = (max(each[name] for each in told) for name in ("largest_score_difference", "spread_by_order"))
    within = [each["largest_score_difference"] < max(SAME_SCORES, SPREADS * each["spread_by_order"]) for each in told]
    return {
        "claim": f"HomoLR on FATE-Flow equals its simulation: scores differ by less than {SAME_SCORES:g}, or {SPREADS} times what "
        "the order of rows alone changes",
        "holds": all(within),
        "figures": f"Largest difference of a held-out loan's score: {largest:.1e}; by the order of rows alone: {spread:.1e}.",
    }
