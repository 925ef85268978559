"""``fate-dp plan homo-gbdt``: what a training of dp_homo_gbdt costs in each trust model, and how loud its noise is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fate_dp.components.dp_homo_gbdt.settings import AGGREGATIONS, TrainSettings

from ..jobs.text_tables import print_table, print_text, rounded_up, table_of_cells

if TYPE_CHECKING:
    from rich.console import Console

    from fate_dp.components.protocols.noisy_rounds.terms import RoundTerms


@dataclass(frozen=True)
class TreesPlan:
    """One trust model.

    Attributes:
        epsilon: of all trainings together, by relation.
        noise_of_leaf: standard deviation of the noise in the sum of gradients of one leaf, over all parties.
        least_records: records of a leaf from which on the noise moves its step by less than ``VISIBLE``.
    """

    aggregation: str
    noise_multiplier: float
    epsilon: dict[str, Any]
    noise_of_leaf: float
    least_records: float


@dataclass(frozen=True)
class HomoGBDTPlan:
    """The answer; ``records_of_leaf`` is their mean number, ``warning`` a sentence on a delta that promises too little."""

    clients: int
    records: int
    trees: int
    rounds: int
    depth: int
    trainings: int
    delta: float
    records_of_leaf: float
    rows: tuple
    warning: str | None


VISIBLE = 0.5
"""In log odds: how far noise may move the step of a leaf that is called readable."""
CURVATURE = 0.25
"""The most that a record adds to a leaf's curvature, that of a score of 0."""


def plan_homo_gbdt(
    settings: TrainSettings, clients: int, trainings: int = 1, progress: Callable[[str], None] = lambda sentence: None
) -> HomoGBDTPlan:
    """The two trust models beside each other; ValueError in the component's own sentence where there is no such training."""
    rows = []
    for trust in AGGREGATIONS:
        progress(f"Accounting aggregation {trust}")
        rows.append(_row(replace(settings, aggregation=trust), clients, trainings))
    return HomoGBDTPlan(
        clients,
        settings.records,
        settings.trees,
        settings.rounds,
        settings.depth,
        trainings,
        settings.delta,
        settings.records / 2**settings.depth,
        tuple(rows),
        terms_of(settings, clients).delta_warning(),
    )


def terms_of(settings: TrainSettings, clients: int) -> RoundTerms:
    """Of one training, with the noise that is asked for or that the target needs."""
    from fate_dp.components.dp_homo_gbdt.boosting import round_terms
    from fate_dp.components.protocols.noisy_rounds.account import calibrate_terms

    terms = round_terms(settings, clients)
    if settings.epsilon is None:
        return terms
    return calibrate_terms(terms, settings.epsilon, settings.delta, settings.relation)


def _row(settings: TrainSettings, clients: int, trainings: int) -> TreesPlan:
    from fate_dp.components.dp_homo_gbdt.boosting import noise_of_sums
    from fate_dp.components.dp_homo_gbdt.trees import clip_of_trees
    from fate_dp.components.protocols.noisy_rounds.account import events_of, noise_of, relations_of
    from fate_dp.privacy.accounting.total import total_epsilon

    terms = terms_of(settings, clients)
    epsilons = {}
    for relation in relations_of(terms):
        events = [(event, count * trainings) for event, count in events_of(terms, relation)]
        epsilons[str(relation)] = total_epsilon(events, terms.delta)
    # Of parties that are all there, in a round after the first one.
    noise = noise_of_sums(terms, clients, clip_of_trees(settings.trees_of_round, 1))
    return TreesPlan(terms.aggregation, noise_of(terms), epsilons, noise, noise / (CURVATURE * VISIBLE))


def _cells(row: TreesPlan) -> dict[str, str]:
    return {
        "aggregation": row.aggregation,
        "noise": f"sigma {rounded_up(row.noise_multiplier)}",
        "epsilon, add-or-remove": rounded_up(row.epsilon["add_or_remove"]),
        "epsilon, replace-one": rounded_up(row.epsilon["replace_one"]),
        "noise of a leaf": rounded_up(row.noise_of_leaf),
        "records of a readable leaf": f"{math.ceil(row.least_records)}",
    }


def print_plan(plan: HomoGBDTPlan, console: Console) -> None:
    times = f", {plan.trainings} trainings" if plan.trainings > 1 else ""
    title = (
        f"dp_homo_gbdt: {plan.trees} trees of depth {plan.depth} in {plan.rounds} rounds, {plan.clients} parties with data, "
        f"{plan.records} records, delta {plan.delta:g}{times}"
    )
    print_table(console, title, table_of_cells(map(_cells, plan.rows), texts=2))
    print_text(
        console,
        "Epsilon (nats) is against server, other parties and whoever gets the model; accountant: PLD (dp-accounting). Sigma is "
        "over what one record moves all sums of a round by. Noise of a leaf is the standard deviation in its sum of gradients, to "
        f"which a record adds at most 1; from so many records on it moves the leaf's step in log odds by less than {VISIBLE:g} at a "
        f"score of 0. A leaf has {plan.records_of_leaf:.4g} records in the mean; those of fewer are drawn to the nodes above them. "
        "With local the server sees every party's own sums, and the noise of all parties adds up.",
    )
    if plan.warning:
        print_text(console, f"Warning: {plan.warning}")
