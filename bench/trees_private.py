"""Tables, public bins and trainings of dp_homo_gbdt for `make bench-trees`: three parties in one process, their own code."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from fate_dp.components.dp_homo_gbdt.boosting import GrownBatch, Server, contribution, round_terms, scores_of
from fate_dp.components.dp_homo_gbdt.settings import TrainSettings
from fate_dp.components.dp_homo_gbdt.trees import curvature_weight, leaf_sums
from fate_dp.components.protocols.noisy_rounds.account import calibrate_terms
from fate_dp.privacy.noise.stream import open_stream
from tests.support.local_parties import frame_of, run_parties
from tests.support.simulated_rounds import Transport

PARTIES, DELTA = 3, 1e-6
FOLDS, SEED = 5, 20261124
TIMED_ROWS, TIMED_COLUMNS = 40_000, 20
TIMED_PARTIES = (("guest", "9999"), ("host", "10000"), ("host", "9998"), ("arbiter", "10001"))
# UCI's own description of Adult names the categories of the text columns, whose numbers follow the alphabet here, and numbers
# education from 1 to 16. Cut points are what one would write down without the table: five years of a working life, the ends of
# schools and degrees, usual hours of a week, round sums of money.
ROUND_SUMS = [factor * power for power in (100.0, 1000.0, 10000.0) for factor in (1.0, 2.0, 5.0)]
ADULT_NUMBERS = {
    "age": {"cuts": [20, 25, 30, 35, 40, 45, 50, 55, 60, 65]},
    "fnlwgt": {"cuts": [50_000, 100_000, 150_000, 200_000, 250_000, 300_000, 400_000]},
    "education-num": {"cuts": [8, 9, 10, 12, 13, 14]},
    "capital-gain": {"cuts": [0, *ROUND_SUMS]},
    "capital-loss": {"cuts": [0, *ROUND_SUMS]},
    "hours-per-week": {"cuts": [20, 30, 35, 40, 45, 50, 60]},
}


@dataclass(frozen=True, eq=False)
class Table:
    """Columns (rows, d) by name, labels 0 and 1, and the rules of columns that are no standard normal's."""

    names: list[str]
    values: np.ndarray
    labels: np.ndarray
    rules: dict | None = None


def adult(path):
    """UCI Adult with its columns as they are, texts numbered in the order of the alphabet."""
    table = pd.read_csv(path, skipinitialspace=True)
    labels = table.pop(table.columns[-1]).astype(str).str.contains(">50K").to_numpy(float)
    rules = dict(ADULT_NUMBERS)
    for name in table.columns:
        if name not in rules:
            numbered = table[name].astype("category").cat
            rules[name] = {"categories": list(range(len(numbered.categories)))}
            table[name] = numbered.codes
    return Table(list(table.columns), table.to_numpy(float), labels, rules)


def plain(values, labels):
    """A table of standardised columns."""
    return Table([f"x{place}" for place in range(values.shape[1])], values, labels)


def train(table, rows, settings, rng=None) -> list[GrownBatch]:
    """The batches of one training on these rows, divided evenly among three parties at random."""
    given = replace(settings, columns=table.rules, records=len(rows))
    terms = round_terms(given, PARTIES)
    if given.epsilon is not None:
        terms = calibrate_terms(terms, given.epsilon, given.delta, given.relation)
    bins, stream, generator = given.bins_of(table.names), open_stream(rng), np.random.default_rng(len(rows))
    server, transport = Server(given, terms, bins), Transport(terms)
    parts = np.array_split(generator.permutation(rows), PARTIES)
    codes, labels = [bins.codes(table.values[part]) for part in parts], [table.labels[part] for part in parts]
    scores = [np.zeros(len(part)) for part in parts]
    for number in range(given.rounds):
        splits, clip, weight = server.draw(), terms.clip_of(number), curvature_weight(number)
        sums = [leaf_sums(splits, *each, clip, weight) for each in zip(codes, labels, scores)]
        sent = [contribution(each, terms, place, number, stream) for place, each in enumerate(sums)]
        grown = server.grow(splits, transport.deliver(sent), PARTIES, number)
        for score, code in zip(scores, codes):
            score += splits.step_of(code, grown.values)
    return server.batches


def predicted(table, rows, batches, settings):
    """Scores of these rows, each a log odds."""
    bins = replace(settings, columns=table.rules).bins_of(table.names)
    return scores_of(batches, bins.codes(table.values[rows]))


def auc_of(table, epsilon, folds=FOLDS):
    """(mean, standard error) over stratified folds of the AUC of dp_homo_gbdt's defaults at this epsilon."""
    settings, found = TrainSettings(records=len(table.labels), epsilon=epsilon, delta=DELTA), []
    for rows, held_out in StratifiedKFold(folds, shuffle=True, random_state=SEED).split(table.values, table.labels):
        batches = train(table, rows, settings)
        found.append(roc_auc_score(table.labels[held_out], predicted(table, held_out, batches, settings)))
    return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(folds))


def made_up_rows(rows, generator):
    """A table of standard normal columns, whose labels follow from a few of them."""
    values = generator.normal(size=(rows, TIMED_COLUMNS))
    odds = values[:, 0] - values[:, 1] * (values[:, 2] > 0) - 1
    names = {f"x{place}": column for place, column in enumerate(values.T)}
    ids = [str(number) for number in generator.choice(10**9, rows, replace=False)]
    labels = (generator.random(rows) < 1 / (1 + np.exp(-odds))).astype(int)
    return pd.DataFrame({"sample_id": ids, "id": ids, **names, "y": labels})


def _train_at(ctx, tables, given):
    """The component at this party; the seconds that it took."""
    from fate_dp.components.common.wire.channel import plain_messages
    from fate_dp.components.dp_homo_gbdt.component import MESSAGES
    from fate_dp.components.dp_homo_gbdt.train import train_party

    own = tables.get(tuple(ctx.federation.local_party))
    frame = None if own is None else frame_of(ctx, own, "y")
    with plain_messages(ctx, MESSAGES) as plain:
        begun = time.perf_counter()
        train_party(plain, given, frame)
        return time.perf_counter() - begun


def seconds_of_training():
    """Of the slowest of four processes, from the first check of its table to the scores of its rows."""
    generator, data = np.random.default_rng(SEED), TIMED_PARTIES[:PARTIES]
    sizes = [len(part) for part in np.array_split(np.arange(TIMED_ROWS), PARTIES)]
    with tempfile.TemporaryDirectory() as home:
        results = run_parties(
            _train_at,
            TIMED_PARTIES,
            {"OMP_NUM_THREADS": "1", "FATE_DP_HOME": home},
            1800,
            record=False,
            forked=True,
            tables={party: made_up_rows(rows, generator) for party, rows in zip(data, sizes)},
            given={"records": TIMED_ROWS, "epsilon": 1.0, "delta": DELTA},
        )
    broken = next((result.error for result in results.values() if result.error), None)
    if broken:
        raise RuntimeError(f"dp_homo_gbdt failed: {broken}")
    return max(result.value for result in results.values())
