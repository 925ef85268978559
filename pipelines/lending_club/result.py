"""What the source claims and what an honest federation must show, decided from measured figures and never assumed.

A claim that has an interval on one side of its threshold is decided; an interval across it, or a single seed, decides
nothing. Thresholds stand in the claims, so that a reader can disagree with them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from fate_dp.data_prep.lending_club.cleaning import CleanLoans
from fate_dp.data_prep.lending_club.columns import FEATURES, LABEL
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import Division, class_counts
from fate_dp.privacy.private_files import atomic_write
from fate_dp.privacy.validation import InvalidArgument

from ..jobs.flow import fate_version
from ..jobs.ready import HomoLRSettings
from .balancing import TITLES, intervals_of
from .models import (
    ALONE,
    CENTRAL,
    CENTRAL_SCIKIT,
    CENTRAL_WEIGHTED,
    CLASS_MEASURES,
    FEDERATED,
    MEASURES,
    SplitModels,
    above,
    alone_name,
    inside,
    paired_difference,
)
from .private_study import PrivateStudy
from .tables import EVENNESS, difference_text, shares_text

FAR_BETTER = 0.05
MORE_EVEN = 0.01
NEAR_CENTRAL = 0.01
LEAKING_AUC = 0.75
# Over-sampling makes the classes equal, so that at the start the bias has no gradient but rounding errors, and RMSprop
# scales whatever it gets up to a step: the order of rows, which FATE shuffles, alone moves scores, by some 1e-5 after 20
# epochs and by 1e-3 after 3 on 2,000 loans (`spread_by_order`). What a few orders spread over, one more may exceed.
SAME_SCORES = 1e-3
SPREADS = 3
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


def far_better(measures: dict[str, dict]) -> dict:
    """The source's claim about the federation and each institution alone."""
    best = best_alone(measures, "specificity")
    gained = paired_difference(measures[FEDERATED]["specificity"], measures[best]["specificity"])
    return {
        "claim": "The source: federated is far better than each institution alone (here: specificity higher by more "
        f"than {FAR_BETTER:g} than the best of them)",
        "holds": above(gained, FAR_BETTER),
        "figures": f"Federated minus {spoken(best)}, the best alone on the test rows: {difference_text(gained)} in "
        "specificity.",
    }


def more_even(evenness: list[dict]) -> dict:
    """The source's claim about the shares of two institutions."""
    claim = (
        "The source: the more even two institutions' shares, the better (here: specificity higher by more than "
        f"{MORE_EVEN:g} at even shares than at the most uneven ones)"
    )
    if len(evenness) < 2:
        return {"claim": claim, "holds": None, "figures": "Shares were not varied."}
    uneven, *_, even = sorted(evenness, key=lambda line: min(line["shares"]))
    ends = even["federated"], uneven["federated"]
    gained = {name: paired_difference(*(end[name] for end in ends)) for name in EVENNESS}
    return {
        "claim": claim,
        "holds": above(gained["specificity"], MORE_EVEN),
        "figures": f"{shares_text(even['shares'])} minus {shares_text(uneven['shares'])}: "
        f"{difference_text(gained['specificity'])} in specificity, {difference_text(gained['auc'])} in AUC.",
    }


def near_central(measures: dict[str, dict]) -> dict:
    """Whether pooling the rows would change the ranking of loans, everything else being equal."""
    difference, figures = compared(measures, FEDERATED, CENTRAL)
    claim = f"The federated AUC is within {NEAR_CENTRAL:g} of the central model of the same objective"
    return {"claim": claim, "holds": inside(difference, NEAR_CENTRAL), "figures": figures}


def not_below_class_weights(measures: dict[str, dict]) -> dict:
    """Whether the common way to train on all rows in one place would rank loans better."""
    difference, figures = compared(measures, FEDERATED, CENTRAL_WEIGHTED)
    claim = f"The federated AUC is at most {NEAR_CENTRAL:g} below scikit-learn's central regression with class weights"
    return {"claim": claim, "holds": above(difference, -NEAR_CENTRAL), "figures": figures}


def compared(measures: dict[str, dict], first: str, second: str) -> tuple[dict, str]:
    """The interval of the difference of two models' AUC, and a sentence of all three."""
    difference = paired_difference(measures[first]["auc"], measures[second]["auc"])
    return difference, (
        f"AUC {measures[first]['auc']['mean']:.4f} ({spoken(first)}) and {measures[second]['auc']['mean']:.4f} "
        f"({spoken(second)}), difference {difference_text(difference)}."
    )


def at_least_best_alone(measures: dict[str, dict]) -> dict:
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


def no_leak(models: list[dict]) -> dict:
    """Whether any model is better than what is known at application time allows."""
    highest, name = max((max(model["measures"]["auc"]["values"]), model["name"]) for model in models)
    return {
        "claim": f"No column gives the outcome away: every AUC is below {LEAKING_AUC:g}",
        "holds": highest < LEAKING_AUC,
        "figures": f"The highest AUC of any model and seed is {highest:.4f} ({spoken(name)}).",
    }


def runs_equal_simulation(runs: list[dict]) -> dict:
    """Whether the figures that were simulated are those of FATE-Flow, too."""
    claim = (
        f"The run on FATE-Flow equals the simulation: scores differ by less than {SAME_SCORES:g}, or {SPREADS} times what "
        "the order of rows alone changes"
    )
    if not runs:
        return {"claim": claim, "holds": None, "figures": "HomoLR did not run on FATE-Flow."}
    told = [run["agreement"] for run in runs]
    largest, spread = (max(each[name] for each in told) for name in ("largest_score_difference", "spread_by_order"))
    within = [each["largest_score_difference"] < max(SAME_SCORES, SPREADS * each["spread_by_order"]) for each in told]
    seeds = ", ".join(f"seed {run['seed']}" for run in runs)
    return {
        "claim": claim,
        "holds": all(within),
        "figures": f"Largest difference of a test row's score: {largest:.1e}; by the order of rows alone: {spread:.1e} "
        f"({seeds}).",
    }


def paired(models: list[dict]) -> list[dict]:
    """The federated model against the others, seed by seed."""
    measures = {model["name"]: model["measures"] for model in models}
    titles = {model["name"]: model["title"] for model in models}
    best = {name: best_alone(measures, name) for name in EVENNESS}
    words = f"the best alone ({spoken(best['specificity'])} by specificity, {spoken(best['auc'])} by AUC)"
    others = {"best alone": (words, best)}
    others.update((name, (titles[name], dict.fromkeys(EVENNESS, name))) for name in CENTRALS)
    return [
        {
            "name": f"{FEDERATED} - {name}",
            "title": f"federated minus {title}",
            "measures": {
                measure: paired_difference(measures[FEDERATED][measure], measures[other][measure])
                for measure, other in against.items()
            },
        }
        for name, (title, against) in others.items()
    ]


def spoken(name: str) -> str:
    """A model's name in a sentence: alone_host_9998 is host 9998."""
    return SPOKEN.get(name) or name.removeprefix(f"{ALONE}_").replace("_", " ")


# From what a credit study measured to its result (schema: credit_result_schema.json) and its files.

PREPARATION = PrepOptions(units="public")
# The thesis that this study repeats, table of its central model.
SOURCE_FIGURES = {"central": dict(zip(CLASS_MEASURES, (0.28, 0.66, 0.40, 0.90, 0.65, 0.75), strict=True))}
CENTRAL_MODELS = {
    CENTRAL_SCIKIT: (
        "central, scikit-learn, {balancing}",
        "Logistic regression of scikit-learn with its defaults on all training rows in one place{over_sampled}.",
    ),
    CENTRAL_WEIGHTED: (
        "central, scikit-learn, class weights",
        "Logistic regression of scikit-learn with its defaults on the rows as they are, each class weighted by the "
        "inverse of its number of rows.",
    ),
    CENTRAL: (
        "central, same objective",
        "HomoLR's arithmetic with the federation's settings on all training rows in one place{over_sampled}.",
    ),
}
OWN_ROWS = "The federation's settings and arithmetic on the institution's own rows alone."


@dataclass(frozen=True)
class Study:
    """What is studied: the raw file, how it is prepared (its seed is replaced by each of ``seeds``), HomoLR's settings.

    ``synthetic`` says that the rows are generated, so that the report can say so. ``flow_seeds``, some of ``seeds``, go
    through FATE-Flow; the others are simulated.
    """

    csv: Path
    synthetic: bool = False
    preparation: PrepOptions = PREPARATION
    settings: HomoLRSettings = HomoLRSettings()
    seeds: tuple[int, ...] = tuple(range(2024, 2034))
    flow_seeds: tuple[int, ...] = (2024,)
    private: PrivateStudy | None = None
    compared: bool = True
    """Whether ways to balance and shares of institutions are compared, which needs no FATE-Flow and takes most of its time."""

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise InvalidArgument(f"The seeds are {self.seeds!r}; there must be at least one, and none may repeat.")
        for seed in self.seeds:
            replace(self.preparation, seed=seed)
        stray = [seed for seed in self.flow_seeds if seed not in self.seeds]
        if stray:
            raise InvalidArgument(
                f"The seed {stray[0]} is to run on FATE-Flow but is not among the seeds of the study."
            )
        stray = [seed for seed in (self.private.seeds if self.private else ()) if seed not in self.seeds]
        if stray:
            raise InvalidArgument(f"The private seed {stray[0]} is not among the seeds of the study.")
        if self.preparation.units != "public" or self.preparation.split != "horizontal":
            raise InvalidArgument(
                f"The preparation has units {self.preparation.units} and split {self.preparation.split}; the study "
                "needs public units, since HomoLR steps alike in every column, and a horizontal split."
            )


@dataclass
class Findings:
    """What a study has measured so far.

    In the order of the seeds: ``measures`` of every model, and ``influences``, the largest of any real row.
    """

    clean: CleanLoans = None  # type: ignore[assignment]  # the first steps fill these two
    first_division: Division = None  # type: ignore[assignment]
    models: dict[int, SplitModels] = field(default_factory=dict)
    measures: dict[str, list[dict]] = field(default_factory=dict)
    influences: list[int] = field(default_factory=list)
    balancing: list[dict] = field(default_factory=list)
    evenness: list[dict] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    runs: list[dict] = field(default_factory=list)
    run_losses: dict[int, tuple] = field(default_factory=dict)
    seconds: list[dict] = field(default_factory=list)
    private: dict | None = None


def assemble(study: Study, found: Findings, seconds: float) -> dict:
    """The whole result of a study."""
    models = describe_models(study, found)
    result = {
        "schema": "fate-dp/credit-study/2",
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "fate_dp_version": version("fate-dp"),
        "fate_version": fate_version(),
        "data": describe_data(study, found),
        "settings": describe_settings(study),
        "models": models,
        "paired": paired(models),
        "source_figures": SOURCE_FIGURES,
        "balancing": found.balancing,
        "evenness": found.evenness,
        **describe_losses(study, found),
        "flow": found.runs,
        "private": found.private,
        "seconds": {"total": seconds, "steps": found.seconds},
    }
    return {**result, "verdicts": verdicts(result)}


def describe_data(study: Study, found: Findings) -> dict:
    """The raw file, what cleaning did, and how the rows of the first seed are shared out."""
    clean, division = found.clean, found.first_division
    return {
        "source": clean.source,
        "sha256": clean.sha256,
        "synthetic": study.synthetic,
        "steps": [asdict(step) for step in clean.steps],
        "missing": clean.missing,
        "dropped_columns": clean.dropped_columns,
        "notices": [*clean.notices, *found.left_out],
        "rows": len(clean.frame),
        "features": len(FEATURES),
        "train_rows": len(division.training),
        "test_rows": len(division.test),
        "balance": {
            "train_before": class_counts(division.training.frame[LABEL]),
            "train_after": found.models[study.seeds[0]].pooled_after,
            "test": class_counts(division.test[LABEL]),
        },
        "parties": [
            {
                "role": party.role,
                "party_id": party.party_id,
                "share": len(party.original) / len(division.training),
                "before": party.rows_before,
                "after": party.rows_after,
                "largest_influence": party.largest_influence,
            }
            for party in division.parties
        ],
    }


def describe_settings(study: Study) -> dict:
    options = study.preparation
    return {
        "homo_lr": asdict(study.settings),
        "over_sampling": {"method": options.over_sampling, "neighbours": options.neighbours},
        "seeds": list(study.seeds),
        "flow_seeds": list(study.flow_seeds),
        "shares": list(options.shares or ()),
        **{name: getattr(options, name) for name in ("skew", "concentration", "most_missing", "units", "test_share")},
        "threshold": study.settings.threshold,
    }


def describe_models(study: Study, found: Findings) -> list[dict]:
    """Every model with what it is and its measures over the seeds; central first, the federation last.

    Of the federation it says which seeds ran on FATE-Flow, and what stands for the rest.
    """
    method = str(study.preparation.over_sampling)
    words = {"balancing": TITLES[method], "over_sampled": "" if method == "none" else ", over-sampled there"}
    described = {name: tuple(text.format(**words) for text in texts) for name, texts in CENTRAL_MODELS.items()}
    for party in found.first_division.parties:
        described[alone_name(party)] = (f"{party.role} {party.party_id} alone", OWN_ROWS)
    how = "HomoLR's arithmetic over all parties in one process; it did not run on FATE-Flow."
    if study.flow_seeds:
        rest = len(study.seeds) - len(study.flow_seeds)
        simulated = f"; the other {rest} by the same arithmetic in one process" if rest else ""
        ran = ", ".join(map(str, study.flow_seeds))
        how = f"FATE's HomoLR over all parties, seeds {ran} through FATE-Flow{simulated}."
    described[FEDERATED] = ("federated", how)
    return [
        {"name": name, "title": title, "how": how, "measures": intervals_of(found.measures[name], MEASURES)}
        for name, (title, how) in described.items()
    ]


def describe_losses(study: Study, found: Findings) -> dict:
    """Loss curves of the first seed and where the rule of FATE 1.x would have stopped the federation."""
    trained = found.models[study.seeds[0]].trained
    curves = {"central": trained[CENTRAL].losses, "federated, simulated": trained[FEDERATED].losses}
    curves.update((f"federated, FATE-Flow, seed {seed}", losses) for seed, losses in found.run_losses.items())
    settings = study.settings
    return {
        "loss": [{"name": name, "losses": list(losses)} for name, losses in curves.items()],
        "early_stop": {
            "rule": settings.early_stop,
            "tol": settings.tol,
            "epoch": settings.stop_epoch(trained[FEDERATED].losses),
            "epochs_run": settings.epochs,
        },
    }


def write_credit_study(result: dict, folder: Path) -> None:
    """Write result.json and then report.html, each whole or not at all."""
    from .report import write_credit_report

    atomic_write(folder / "result.json", json.dumps(result, indent=2, allow_nan=False) + "\n")
    write_credit_report(result, folder / "report.html")


@contextmanager
def made_folder(folder: Path) -> Iterator[Path]:
    """The folder, made before long work where it is missing; what a failure leaves of it empty is removed again."""
    missing = [path for path in (folder, *folder.parents) if not os.path.exists(path)]
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgument(f"The folder {folder} cannot be made: {error.strerror or error}.") from error
        yield folder
    except BaseException:
        for path in missing:
            with suppress(OSError):
                path.rmdir()
        raise
