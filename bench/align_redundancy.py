"""Training on joined rows beside rows without a partner: removed by align, or kept as zero rows as circuit PSI does.

    python -m bench.align_redundancy

Both hospitals hold the same 426 patients (scikit-learn's breast-cancer data, 10 and 20 features), and so many others
that a share of 0 to 50 % of each table has no partner.

- removed: the tables go through align, and share_lr trains on what it leaves;
- kept: what circuit PSI leaves is emulated, shares of one row for each row of a table. Rows without a partner are 0 in
  features and label, and train like records, with an intercept and the label 0.
- kept, weighed out: the same rows with a membership of 0, so that they weigh nothing and only take time.

Accuracy is that of the opened weights on 143 held-out patients, in per cent. Times are processor seconds of both
parties together, in which other work on the machine counts less than in wall time; the alignment is not in them.

The last line printed is one JSON object: `accuracy_spread`, the largest distance in points of 'removed' from its
accuracy without redundancy, and `time_ratio_50`, the training time of 'removed' at 50 % over that at 0 %.
"""

import json
import os
import tempfile
import time
from dataclasses import dataclass

import numpy as np

from fate_dp.components.align.component import MESSAGES as OF_JOIN
from fate_dp.components.common.wire.channel import with_plain_messages
from fate_dp.components.protocols.joined_tables import Alignment
from fate_dp.components.share_lr.agreement import SharedRows, joint_terms
from fate_dp.components.share_lr.component import MESSAGES as OF_TRAINING
from fate_dp.components.share_lr.scoring import UNITS_OF_WEIGHTS, open_weights
from fate_dp.components.share_lr.settings import ShareSettings
from fate_dp.components.share_lr.training import JoinedTraining, run_epochs
from fate_dp.crypto.joined_records import FRACTION_BITS, SHARE_BITS, split_shares
from tests.support.local_parties import cpu_seconds, frame_of, run_parties

PARTIES = (("guest", "9999"), ("host", "10000"))
GUEST_FEATURES = 10
REDUNDANCY = (0, 10, 20, 30, 40, 50)
EPOCHS = 30
REMOVED, KEPT, WEIGHED = "removed", "kept", "kept, weighed out"
SEED = 2024
LEAKS = (
    ("PSI", "ids of all matches", "their number", "in clear, at their owners"),
    ("circuit PSI", "nothing", "nothing", "shares; rows without a partner stay"),
    ("ALIGN", "nothing", "the number of matches", "shares of the matches alone"),
    ("ALIGN, hidden size", "nothing", "that number plus secret dummies", "shares of matches and dummies"),
)
"""Way to join, what a party learns of who matched, of how many, and what becomes of features. All show table sizes."""


@dataclass(frozen=True)
class Patients:
    """Standardised features (n, 30) and labels (n,) of training and held-out patients."""

    features: np.ndarray
    labels: np.ndarray
    test_features: np.ndarray
    test_labels: np.ndarray

    def accuracy(self, weights: np.ndarray) -> float:
        """Of weights with the intercept last, on the held-out patients, in per cent."""
        scores = self.test_features @ weights[:-1] + weights[-1]
        return 100 * float(np.mean((scores > 0) == (self.test_labels == 1)))


def patients() -> Patients:
    """The same at every process."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    data = load_breast_cancer()
    train, test, labels, test_labels = train_test_split(
        data.data, data.target.astype(float), test_size=0.25, stratify=data.target, random_state=SEED
    )
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    return Patients((train - mean) / deviation, labels, (test - mean) / deviation, test_labels)


def others(percent: int, count: int) -> int:
    """Rows without a partner that make up so many per cent of a table with ``count`` matches."""
    return round(count * percent / (100 - percent))


@with_plain_messages({**OF_JOIN, **OF_TRAINING})
def party(ctx, folder: str, redundancy: tuple[int, ...], epochs: int) -> dict:
    """Everything at one party: {(variant, percent): (weights, processor seconds, wall seconds)}."""
    os.environ["FATE_DP_HOME"] = folder
    held, results = patients(), {}
    # Whatever is loaded or laid down once is no part of the first measurement.
    _trained(ctx.sub_ctx("warm-up"), _kept(ctx.sub_ctx("warm-up rows"), held, 0, KEPT), epochs)
    for percent in redundancy:
        for variant in (REMOVED, KEPT, WEIGHED):
            own = ctx.sub_ctx(f"{variant}-{percent}")
            make = _aligned if variant == REMOVED else _kept
            rows = make(own.sub_ctx("rows"), held, others(percent, len(held.labels)), variant)
            before, start = cpu_seconds(), time.perf_counter()
            weights = _trained(own.sub_ctx("train"), rows, epochs)
            results[variant, percent] = weights, cpu_seconds() - before, time.perf_counter() - start
    return results


def _aligned(ctx, held: Patients, redundant: int, variant: str) -> SharedRows:
    """The party's own table, with patients that only it has, through align."""
    import pandas as pd

    from fate_dp.components.align.run import run
    from fate_dp.components.align.settings import Settings

    role = ctx.local.role
    columns = slice(0, GUEST_FEATURES) if role == "guest" else slice(GUEST_FEATURES, None)
    generator = np.random.default_rng([SEED, redundant, len(role)])
    extra = generator.choice(len(held.labels), redundant)
    features = np.vstack([held.features, held.features[extra]])[:, columns]
    features[len(held.labels) :] += 0.1 * generator.standard_normal((redundant, features.shape[1]))
    table = pd.DataFrame(features, columns=[f"x{number}" for number in range(features.shape[1])])
    ids = [f"patient {row}" for row in range(len(held.labels))] + [f"{role} alone {row}" for row in range(redundant)]
    table.insert(0, "id", ids)
    table.insert(0, "sample_id", [str(row) for row in range(len(ids))])
    if role == "guest":
        table["y"] = np.append(held.labels, held.labels[extra]).astype(int)
    frame = frame_of(ctx, table.sample(frac=1, random_state=redundant), label="y" if role == "guest" else None)
    shares, alignment = run(ctx, Settings(), frame)
    return SharedRows.of(shares, json.loads(json.dumps(alignment.to_json())))


def _kept(ctx, held: Patients, redundant: int, variant: str) -> SharedRows:
    """Shares of the matches and of zero rows, as circuit PSI would leave them; masks are the same at both parties."""
    from fate_dp.components.protocols.joined_tables import feature_names, write_shares

    count, width = len(held.labels), held.features.shape[1]
    values = np.zeros((count + redundant, width + 2))
    values[:count] = np.column_stack([held.features, held.labels, np.ones(count)])
    values[count:, -1] = variant == KEPT
    units = np.rint(values * 2.0**FRACTION_BITS).astype(np.int64).astype(object)
    masks = np.random.default_rng(SEED).integers(0, 1 << 62, units.shape).astype(object) << SHARE_BITS - 1 - 62
    shares = split_shares(masks if ctx.local.role == "guest" else units - masks)
    names = feature_names("guest", GUEST_FEATURES), feature_names("host", width - GUEST_FEATURES)
    alignment = Alignment(variant, len(shares), *names, labelled=True)
    middle = len(shares) // 2
    blocks = ctx.computing.parallelize([(0, shares[:middle]), (1, shares[middle:])], include_key=True, partition=2)
    frame = write_shares(ctx, blocks, alignment.names, {0: 0, 1: middle}, alignment.session)
    return SharedRows.of(frame, json.loads(json.dumps(alignment.to_json())))


def _trained(ctx, rows: SharedRows, epochs: int) -> np.ndarray:
    """Weights of share_lr with its defaults on labels without flips, opened to both."""
    settings = ShareSettings(epochs=epochs, tol=0.0)
    terms = joint_terms(rows, settings, float("inf"))
    training = JoinedTraining(ctx, rows.training_blocks(), terms)
    run_epochs(ctx, training)
    weights = open_weights(ctx.sub_ctx("finish"), training.weight_share(), "both")
    assert weights is not None
    return weights.astype(np.float64) / 2.0**UNITS_OF_WEIGHTS


def measured() -> dict:
    """{(variant, percent): (accuracy, processor seconds of both, wall seconds of the slower)}."""
    held = patients()
    with tempfile.TemporaryDirectory() as folder:
        results = run_parties(
            party,
            PARTIES,
            {"OMP_NUM_THREADS": "1"},
            timeout=3600,
            record=False,
            folder=folder,
            redundancy=REDUNDANCY,
            epochs=EPOCHS,
        )
    broken = [result.error for result in results.values() if result.error]
    if broken:
        raise RuntimeError(broken[0])
    guest, host = (results[name].value for name in PARTIES)
    return {
        key: (held.accuracy(guest[key][0]), guest[key][1] + host[key][1], max(guest[key][2], host[key][2]))
        for key in guest
    }


def main():
    from rich.console import Console
    from rich.table import Table

    console = Console()
    with console.status("training with 0 to 50 % redundant rows, three times each"):
        found = measured()
    table = Table(title=f"{len(patients().labels)} common patients, {EPOCHS} epochs")
    variants = (REMOVED, KEPT, WEIGHED)
    for heading in ("redundant", *(f"{what}, {name}" for name in variants for what in ("accuracy %", "CPU s"))):
        table.add_column(heading, justify="right")
    for percent in REDUNDANCY:
        cells = [
            text for name in variants for text in (f"{found[name, percent][0]:.1f}", f"{found[name, percent][1]:.1f}")
        ]
        table.add_row(f"{percent} %", *cells)
    console.print(table)
    leaks = Table("way to join", "who matched", "how many", "features", title="What a party learns beside table sizes")
    for row in LEAKS:
        leaks.add_row(*row)
    console.print(leaks)
    accuracies = [found[REMOVED, percent][0] for percent in REDUNDANCY]
    figures = {
        "accuracy_spread": round(max(abs(one - accuracies[0]) for one in accuracies), 3),
        "time_ratio_50": round(found[REMOVED, 50][1] / found[REMOVED, 0][1], 2),
    }
    print(json.dumps({"bench": "align-redundancy", "figures": figures}))


if __name__ == "__main__":
    main()
