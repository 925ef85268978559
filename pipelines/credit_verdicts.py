"""What the source claims and what an honest federation must show, decided from measured figures and never assumed.

A claim that has an interval on one side of its threshold is decided; an interval across it, or a single seed, decides
nothing. Thresholds stand in the claims, so that a reader can disagree with them.
"""
from __future__ import annotations

from .credit_models import ALONE, CENTRAL, CENTRAL_SCIKIT, CENTRAL_WEIGHTED, FEDERATED
from .credit_tables import difference_text, shares_text
from .intervals import paired_difference

FAR_BETTER = 0.05
MORE_EVEN = 0.01
NEAR_CENTRAL = 0.01
LEAKING_AUC = 0.75
# Over-sampling makes the classes equal, so that at the start the bias has no gradient but rounding errors, and RMSprop
# scales whatever it gets up to a step: the order of rows, which FATE shuffles, alone moves scores by some 1e-4.
SAME_SCORES = 1e-3
CENTRALS = (CENTRAL, CENTRAL_SCIKIT, CENTRAL_WEIGHTED)
SPOKEN = {CENTRAL_SCIKIT: "central, scikit-learn", CENTRAL_WEIGHTED: "central, class weights", CENTRAL: "central"}


def verdicts(result: dict) -> list[dict]:
    """Every claim with ``holds`` (true, false, or None where nothing is decided) and a sentence of ``figures``."""
    measures = {model["name"]: model["measures"] for model in result["models"]}
    return [
        far_better(measures),
        more_even(result["evenness"]),
        at_least_best_alone(measures),
        near_central(measures),
        not_below_class_weights(measures),
        no_leak(result["models"]),
        runs_equal_simulation(result["flow"]),
    ]


def best_alone(measures: dict[str, dict], name: str) -> str:
    """The institution whose model has the highest mean of a measure; chosen on the test rows, in its favour."""
    alone = [model for model in measures if model.startswith(ALONE)]
    return max(alone, key=lambda model: measures[model][name]["mean"])


def far_better(measures) -> dict:
    """The source's claim about the federation and each institution alone."""
    best = best_alone(measures, "specificity")
    gained = paired_difference(measures[FEDERATED]["specificity"], measures[best]["specificity"])
    return {
        "claim": "The source: federated is far better than each institution alone (here: specificity higher by more "
                 f"than {FAR_BETTER:g} than the best of them)",
        "holds": above(gained, FAR_BETTER),
        "figures": f"Federated minus {spoken(best)}, the best alone on the test rows: {difference_text(gained)} in "
                   "specificity.",
    }  # fmt: skip


def more_even(evenness) -> dict:
    """The source's claim about the shares of two institutions."""
    claim = ("The source: the more even two institutions' shares, the better (here: specificity higher by more than "
             f"{MORE_EVEN:g} at even shares than at the most uneven ones)")  # fmt: skip
    if len(evenness) < 2:
        return {"claim": claim, "holds": None, "figures": "Shares were not varied."}
    uneven, *_, even = sorted(evenness, key=lambda line: min(line["shares"]))
    ends = even["federated"], uneven["federated"]
    gained = {name: paired_difference(*(end[name] for end in ends)) for name in ("specificity", "auc")}
    return {
        "claim": claim,
        "holds": above(gained["specificity"], MORE_EVEN),
        "figures": f"{shares_text(even['shares'])} minus {shares_text(uneven['shares'])}: "
                   f"{difference_text(gained['specificity'])} in specificity, {difference_text(gained['auc'])} in AUC.",
    }  # fmt: skip


def near_central(measures) -> dict:
    """Whether pooling the rows would change the ranking of loans, everything else being equal."""
    difference, figures = compared(measures, FEDERATED, CENTRAL)
    return {
        "claim": f"The federated AUC is within {NEAR_CENTRAL:g} of the central model of the same objective",
        "holds": inside(difference, NEAR_CENTRAL),
        "figures": figures,
    }


def not_below_class_weights(measures) -> dict:
    """Whether the common way to train on all rows in one place would rank loans better."""
    difference, figures = compared(measures, FEDERATED, CENTRAL_WEIGHTED)
    return {
        "claim": f"The federated AUC is at most {NEAR_CENTRAL:g} below scikit-learn's central regression with class "
                 "weights",
        "holds": above(difference, -NEAR_CENTRAL),
        "figures": figures,
    }  # fmt: skip


def compared(measures, first: str, second: str) -> tuple[dict, str]:
    """The interval of the difference of two models' AUC, and a sentence of all three."""
    difference = paired_difference(measures[first]["auc"], measures[second]["auc"])
    return difference, (
        f"AUC {measures[first]['auc']['mean']:.4f} ({spoken(first)}) and {measures[second]['auc']['mean']:.4f} "
        f"({spoken(second)}), difference {difference_text(difference)}."
    )


def at_least_best_alone(measures) -> dict:
    """Whether an institution would lose specificity by joining."""
    best = best_alone(measures, "specificity")
    federated, alone = measures[FEDERATED]["specificity"], measures[best]["specificity"]
    known = alone["low"] is not None
    lower = f", whose interval begins at {alone['low']:.4f}" if known else " on a single seed, without an interval"
    return {
        "claim": "The federated specificity is at least that of the best institution alone minus its interval",
        "holds": federated["mean"] >= alone["low"] if known else None,
        "figures": f"Federated {federated['mean']:.4f}, {spoken(best)} alone {alone['mean']:.4f}{lower}.",
    }


def no_leak(models) -> dict:
    """Whether any model is better than what is known at application time allows."""
    highest, name = max((max(model["measures"]["auc"]["values"]), model["name"]) for model in models)
    return {
        "claim": f"No column gives the outcome away: every AUC is below {LEAKING_AUC:g}",
        "holds": highest < LEAKING_AUC,
        "figures": f"The highest AUC of any model and seed is {highest:.4f} ({spoken(name)}).",
    }


def runs_equal_simulation(runs) -> dict:
    """Whether the figures that were simulated are those of FATE-Flow, too."""
    claim = f"The run on FATE-Flow equals the simulation: scores differ by less than {SAME_SCORES:g}"
    if not runs:
        return {"claim": claim, "holds": None, "figures": "Nothing ran on FATE-Flow."}
    largest = max(run["agreement"]["largest_score_difference"] for run in runs)
    seeds = ", ".join(f"seed {run['seed']}" for run in runs)
    return {
        "claim": claim,
        "holds": largest < SAME_SCORES,
        "figures": f"Largest difference of a test row's score: {largest:.1e} ({seeds}).",
    }


def above(difference: dict, threshold: float) -> bool | None:
    """Whether a difference exceeds a threshold: None where its interval does not tell."""
    if difference["low"] is None or difference["low"] <= threshold < difference["high"]:
        return None
    return difference["low"] > threshold


def inside(difference: dict, reach: float) -> bool | None:
    """Whether a difference lies within -reach and reach: None where its interval does not tell."""
    if difference["low"] is None:
        return None
    if -reach <= difference["low"] and difference["high"] <= reach:
        return True
    return False if difference["low"] > reach or difference["high"] < -reach else None


def paired(models: list[dict]) -> list[dict]:
    """The federated model against the others, seed by seed."""
    measures = {model["name"]: model["measures"] for model in models}
    titles = {model["name"]: model["title"] for model in models}
    names = ("specificity", "auc")
    best = {name: best_alone(measures, name) for name in names}
    words = f"the best alone ({spoken(best['specificity'])} by specificity, {spoken(best['auc'])} by AUC)"
    others = {"best alone": (words, best)}
    others.update((name, (titles[name], dict.fromkeys(names, name))) for name in CENTRALS)
    return [
        {"name": f"{FEDERATED} - {name}", "title": f"federated minus {title}", "measures": {
            measure: paired_difference(measures[FEDERATED][measure], measures[other][measure])
            for measure, other in against.items()}}
        for name, (title, against) in others.items()
    ]  # fmt: skip


def spoken(name: str) -> str:
    """A model's name in a sentence: alone_host_9998 is host 9998."""
    return SPOKEN.get(name) or name.removeprefix(f"{ALONE}_").replace("_", " ")
