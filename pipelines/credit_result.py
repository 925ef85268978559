"""From what a credit study measured to its result (schema: credit_result_schema.json) and its files."""
from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from fate_dp.data_prep.lending_club.columns import FEATURES, LABEL
from fate_dp.data_prep.lending_club.preparation import class_counts

from .class_measures import MEASURES
from .credit_balancing import TITLES
from .credit_evenness import intervals_of
from .credit_models import CENTRAL, CENTRAL_SCIKIT, CENTRAL_WEIGHTED, FEDERATED, alone_name
from .credit_verdicts import paired, verdicts
from .whole_file import ResultNotWritten, write_whole

# The thesis that this study repeats, table of its central model.
SOURCE_FIGURES = {
    "central": {
        "charged_off_precision": 0.28, "charged_off_recall": 0.66, "charged_off_f1": 0.40,
        "fully_paid_precision": 0.90, "fully_paid_recall": 0.65, "fully_paid_f1": 0.75,
    }
}  # fmt: skip
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


def assemble(study, found, seconds: float) -> dict:
    """The whole result of a study."""
    models = describe_models(study, found)
    result = {
        "schema": "fate-dp/credit-study/1",
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "fate_dp_version": version("fate-dp"),
        "fate_version": version("pyfate"),
        "data": describe_data(study, found),
        "settings": describe_settings(study),
        "models": models,
        "paired": paired(models),
        "source_figures": SOURCE_FIGURES,
        "balancing": found.balancing,
        "evenness": found.evenness,
        **describe_losses(study, found),
        "flow": found.runs,
        "seconds": {"total": seconds, "steps": found.seconds},
    }
    return {**result, "verdicts": verdicts(result)}


def describe_data(study, found) -> dict:
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
                "role": party.role, "party_id": party.party_id,
                "share": len(party.original) / len(division.training),
                "before": party.rows_before, "after": party.rows_after, "largest_influence": party.largest_influence,
            }
            for party in division.parties
        ],
    }  # fmt: skip


def describe_settings(study) -> dict:
    options = study.preparation
    return {
        "homo_lr": asdict(study.settings),
        "over_sampling": {"method": options.over_sampling, "neighbours": options.neighbours},
        "seeds": list(study.seeds),
        "flow_seeds": list(study.flow_seeds),
        "shares": list(options.shares),
        "skew": options.skew,
        "concentration": options.concentration,
        "most_missing": options.most_missing,
        "units": options.units,
        "test_share": options.test_share,
        "threshold": study.settings.threshold,
    }


def describe_models(study, found) -> list[dict]:
    """Every model with what it is and its measures over the seeds; central first, the federation last."""
    method = study.preparation.over_sampling
    words = {"balancing": TITLES[method], "over_sampled": "" if method == "none" else ", over-sampled there"}
    described = {name: [text.format(**words) for text in texts] for name, texts in CENTRAL_MODELS.items()}
    for party in found.first_division.parties:
        described[alone_name(party)] = (f"{party.role} {party.party_id} alone", OWN_ROWS)
    described[FEDERATED] = ("federated", federation_sentence(study))
    return [
        {"name": name, "title": title, "how": how, "measures": intervals_of(found.measures[name], MEASURES)}
        for name, (title, how) in described.items()
    ]


def federation_sentence(study) -> str:
    """Which seeds ran on FATE-Flow, and what stands for the rest."""
    if not study.flow_seeds:
        return "HomoLR's arithmetic over all parties in one process; nothing ran on FATE-Flow."
    ran = ", ".join(str(seed) for seed in study.flow_seeds)
    rest = len(study.seeds) - len(study.flow_seeds)
    simulated = f"; the other {rest} by the same arithmetic in one process" if rest else ""
    return f"FATE's HomoLR over all parties, seeds {ran} through FATE-Flow{simulated}."


def describe_losses(study, found) -> dict:
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
    from .credit_report import write_credit_report

    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    write_whole(folder / "result.json", text)
    write_credit_report(result, folder / "report.html")


@contextmanager
def made_folder(folder: Path):
    """The folder, made before long work where it is missing; what a failure leaves of it empty is removed again."""
    missing = [path for path in (folder, *folder.parents) if not os.path.exists(path)]
    try:
        make_folder(folder)
        yield folder
    except BaseException:
        for path in missing:
            with suppress(OSError):
                path.rmdir()
        raise


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultNotWritten(f"The folder {folder} cannot be made: {error.strerror or error}.") from error
