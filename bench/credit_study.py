"""What privacy costs a credit-risk model: institutions apart by rows and by columns, by trust, mechanism and epsilon.

    python -m bench.credit_study [--csv FILE] [--seeds N] [--choose] [--out FOLDER]

Held-out AUC on Lending Club's loans (without the file on as many generated ones), delta 1e-5, means and 95 % intervals
(Student's t) over seeds, each with a split of its own, which share loans. All models of a seed are judged on the same
held-out loans, in public units. The picture of AUC by epsilon goes to credit-study.html.

*By rows*: three institutions with 25, 25 and 50 % of the training loans. HomoLR with the source's settings and SMOTENC
(``auc_federated``; central and alone likewise; not private); ``dp_homo_nn``, unit record, ``secure_sum`` and ``local``
under add-or-remove, ``shuffle`` under replace-one, at epsilon 8, 4 and 1, and class weights from a public prior. With SMOTENC the same
training has a record epsilon of infinity, whatever its noise: the figure named ``_smotenc`` is its price.
*By columns*: bank and bureau. For labels alone flips (epsilon, 0) with ``dp_hetero_lr`` or SecureBoost, and noise on
X^T t with ``dp_hetero_lr`` or ``dp_scorecard``; for records (replace-one) each party's own noise. Cut points and units are public.
``auc_vertical_label_eps_1`` and ``auc_vertical_record_eps_1`` are ``dp_hetero_lr``'s, the first with noise on X^T t: that
one of its two was the better on the seeds of ``--choose``.
*Transfer*: an institution with 1 % of the loans, which the federation of the others has not seen: alone, with the
federation's private model (epsilon 4) as it is, and fine-tuned from it towards its own rows, which nothing protects then.

How settings were fixed: rounds, batch and learning rate of ``dp_homo_nn`` by hand on the split of seed 101, some ten
settings seen, and fine-tuning's strength with ``--choose`` on seeds 101 to 103; reported seeds begin at 1. Their splits are others, of
the same loans. Of SecureBoost, noise and ridges nothing was chosen here; the trees' settings come from Adult (``bench-trees``).

Streams are seeded, so that nothing here is private. The last line printed is one JSON object.
"""

import argparse
import json
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from bench import credit_study_models as models
from bench.credit_study_models import Loans
from bench.credit_study_transfer import transfer
from bench.hetero_noise_tasks import LENDING_CLUB
from bench.report_parts import image, subplots, table
from examples.credit_risk.models import interval, numbers, party_rows, pooled_rows, train
from examples.credit_risk.private_jobs import EPSILONS, LOCAL, SECURE_SUM, SHUFFLE, TRANSFER
from examples.credit_risk.private_runs import PrivateStudy, options_of, yardstick_scores
from examples.synthetic_loans import write_synthetic
from fate_dp.data_prep.lending_club.cleaning import clean
from fate_dp.data_prep.lending_club.columns import FEATURES, LABEL, NUMERIC
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import divide

SEEDS, CHOOSING_SEEDS = range(1, 6), range(101, 104)
GENERATED_ROWS = 47_348
ROWS = {
    f"homo_{aggregation}": partial(models.horizontal, aggregation=aggregation)
    for aggregation in (SECURE_SUM, LOCAL, SHUFFLE)
}
ROWS["homo_secure_sum_weighted"] = partial(models.horizontal, aggregation=SECURE_SUM, weighted=True)
COLUMNS = {
    "label_flips_regression": models.regression_on_flips,
    "label_flips_trees": models.trees_on_flips,
    "label_noise_regression": models.regression_with_label_noise,
    "label_noise_scorecard": models.scorecard_with_label_noise,
    "record_noise_regression": models.regression_with_record_noise,
    "record_noise_scorecard": models.scorecard_with_record_noise,
}
NAMED = {
    "auc_federated": "federated",
    "auc_central": "central",
    "auc_alone": "alone",
    "auc_homo_eps_4": "homo_secure_sum_eps_4",
    "auc_vertical_label_eps_1": "label_noise_regression_eps_1",
    "auc_vertical_record_eps_1": "record_noise_regression_eps_1",
}


def main():
    import torch
    from rich.console import Console

    torch.set_num_threads(1)
    options, console = parse_options(), Console(width=120)
    loans = loans_of(options.csv, console)
    seeds = CHOOSING_SEEDS if options.choose else SEEDS[: options.seeds]
    if len(seeds) < 2:
        raise SystemExit(
            f"--seeds must be from 2 to {len(SEEDS)}, since one seed has no interval, got {options.seeds}."
        )
    found = {}
    for seed in seeds:
        for name, value in aucs_of(loans, seed, every_strength=options.choose).items():
            found.setdefault(name, []).append(value)
        console.print(f"seed {seed} is measured", highlight=False)
    results = {name: interval(values) for name, values in found.items()}
    console.print(lines_of(results))
    if not options.choose:
        write_page(results, options.out / "credit-study.html")
        console.print(f"Picture: {options.out / 'credit-study.html'}")
    figures = {name: results[measured]["mean"] for name, measured in NAMED.items()}
    figures |= {f"auc_{name}": result["mean"] for name, result in results.items()}
    rounded = {name: round(value, 4) for name, value in figures.items()}
    print(json.dumps({"bench": "credit-study", "figures": rounded}))


def parse_options():
    parser = argparse.ArgumentParser(
        description="What privacy costs a credit-risk model, split by rows and by columns."
    )
    parser.add_argument("--csv", type=Path, default=LENDING_CLUB, help=f"Lending Club's loan file ({LENDING_CLUB})")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help=f"how many of {len(SEEDS)} seeds, at least 2")
    parser.add_argument("--choose", action="store_true", help="the seeds on which settings are chosen, none reported")
    parser.add_argument("--out", type=Path, default=Path("out/credit-study"), help="folder of the picture")
    return parser.parse_args()


def loans_of(csv, console):
    """The cleaned loans of a file, or of a generated one where there is none."""
    if csv.is_file():
        return clean(csv)
    console.print(f"There is no file {csv}: all figures are of {GENERATED_ROWS:,} generated loans.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "generated.csv.gz"
        write_synthetic(path, GENERATED_ROWS, 2024)
        return clean(path)


def aucs_of(loans, seed, every_strength=False):
    """{name: held-out AUC} of every model of one seed."""
    from sklearn.metrics import roc_auc_score

    options = PrepOptions(seed=seed, units="public", over_sampling="none")
    balanced = PrepOptions(seed=seed, units="public")
    plain = divide(loans, options)
    held_out, labels = numbers(plain.test)
    auc = partial(roc_auc_score, labels)
    parties = list(party_rows(plain).values())
    synthetic = divide(loans, balanced)
    found = without_privacy(plain, synthetic, balanced, held_out, auc, seed)
    for epsilon in EPSILONS:
        for name, fit in ROWS.items():
            found[f"{name}_eps_{epsilon:g}"] = auc(fit(parties, held_out, epsilon=epsilon, seed=seed))
    # Over-sampled rows: the noise is that of epsilon 4, and the guarantee is none.
    smotenc = list(party_rows(synthetic).values())
    found["homo_secure_sum_smotenc"] = auc(models.horizontal(smotenc, held_out, SECURE_SUM, 4.0, seed))
    task = by_columns(loans, seed)
    found["vertical_without_privacy"] = roc_auc_score(task.test_labels, models.regression_on_flips(task, None, seed))
    for epsilon in EPSILONS:
        for name, fit in COLUMNS.items():
            found[f"{name}_eps_{epsilon:g}"] = roc_auc_score(task.test_labels, fit(task, epsilon, seed))
    small = divide(loans, options_of(TRANSFER, PrivateStudy(), seed))
    return found | transfer(list(party_rows(small).values()), held_out, auc, seed, every_strength)


def without_privacy(plain, synthetic, balanced, held_out, auc, seed):
    """HomoLR by the way to balance, and its yardsticks; central has the federation's objective here."""
    central = numbers(pooled_rows(synthetic, balanced))
    found = {"central": auc(train([central]).scores(held_out))}
    for name, scores in yardstick_scores(plain, synthetic, balanced, held_out, seed).items():
        found.setdefault(name, float(np.mean([auc(each) for each in np.atleast_2d(scores)])))
    return found


def by_columns(loans, seed):
    """The same loans, held-out ones included, split by columns."""
    division = divide(loans, PrepOptions(seed=seed, split="vertical", units="public"))
    guest, host = (party.training for party in division.parties)
    held = [[name for name in FEATURES if name in frame.columns] for frame in (guest, host)]
    counts = tuple(sum(name in NUMERIC for name in names) for names in held)
    # The guest has all three groups of indicators.
    squares = (counts[0] + 3, counts[1])
    return Loans(
        tuple(frame[names].to_numpy(float) for frame, names in zip((guest, host), held)),
        guest[LABEL].to_numpy(float),
        tuple(division.test[names].to_numpy(float) for names in held),
        division.test[LABEL].to_numpy(float),
        squares,
        counts,
    )


def lines_of(results):
    """A table of all models."""
    from rich.table import Table

    lines = Table("model", "held-out AUC, 95 %", title="What each model reaches")
    for name, result in results.items():
        lines.add_row(name, text(result))
    return lines


def text(result):
    return f"{result['mean']:.4f} ± {result['high'] - result['mean']:.4f}"


def write_page(results, path):
    """AUC by epsilon as a picture, and the table."""
    figure, axes = subplots(1, 2, (12, 5), sharey=True)
    for axis, names in zip(axes, (ROWS, COLUMNS)):
        for name in names:
            found = [results[f"{name}_eps_{epsilon:g}"] for epsilon in EPSILONS]
            reach = [each["high"] - each["mean"] for each in found]
            label = name.replace("_", " ")
            axis.errorbar(EPSILONS, [each["mean"] for each in found], reach, marker="o", capsize=3, label=label)
        for name, style in (("federated", "-"), ("alone", ":"), ("central", "--")):
            axis.axhline(results[name]["mean"], color="0.4", linestyle=style, linewidth=1, label=f"{name}, not private")
        axis.set_xscale("log")
        axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axis.set_xlabel("epsilon (nats), delta 1e-5; privacy grows to the left")
        axis.legend(fontsize=8)
    axes[0].set_ylabel("held-out AUC")
    axes[0].set_title("institutions split by rows")
    axes[1].set_title("bank and bureau, split by columns")
    picture = image(figure, "Held-out AUC by epsilon of every private model")
    cells = [(name.replace("_", " "), text(result)) for name, result in results.items()]
    body = picture + table(("model", "held-out AUC, 95 %"), cells)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<!doctype html><meta charset='utf-8'><title>Credit study</title>{body}", encoding="utf-8")


if __name__ == "__main__":
    main()
