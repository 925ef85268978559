"""``fate-dp plan homo-nn`` and ``homo-gbdt``: what a training costs in each trust model, before anything is spent.

Computed from public numbers only, by the functions that every party computes its charges with. Epsilons are in nats, at
the request's delta, under both relations where there is an account; noise is per coordinate of a round's mean gradient,
in units of the clip. Proved is what the component's guarantee.yaml says; clients are honest but curious.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console

from fate_dp.components.dp_homo_gbdt import settings as gbdt
from fate_dp.components.dp_homo_gbdt.boosting import noise_of_sums, round_terms
from fate_dp.components.dp_homo_gbdt.trees import clip_of_trees
from fate_dp.components.dp_homo_nn.settings import AGGREGATIONS, TrainSettings, given_settings, module_name
from fate_dp.components.protocols.noisy_rounds.account import (
    calibrate_terms,
    events_of,
    honest_messages,
    noise_of,
    relations_of,
)
from fate_dp.components.protocols.noisy_rounds.terms import RoundTerms
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.validation import refusal

from ..jobs.text_tables import print_table, print_text, rounded_up, table_of_cells
from .console import given


@dataclass(frozen=True)
class HomoNNRequest:
    """What is asked. ``settings`` are those of a training with aggregation secure_sum; the other two differ in trust alone."""

    settings: TrainSettings
    clients: int
    features: int | None = None
    dimension: int | None = None
    epsilon0: float | None = None


@dataclass(frozen=True)
class TrustPlan:
    """One trust model; ``refused`` says in a sentence why there is no such training, and the rest is None then."""

    aggregation: str
    noise_multiplier: float | None = None
    epsilon0: float | None = None
    epsilon: dict[str, Any] | None = None
    epsilon_if_shuffler_and_server_collude: float | None = None
    noise_of_mean: float | None = None
    noise_to_signal: float | None = None
    messages: int | None = None
    refused: str | None = None


@dataclass(frozen=True)
class HomoNNPlan:
    """The answer; ``warning`` is a sentence on a delta that promises too little."""

    clients: int
    dimension: int
    rounds: int | None
    batch_size: float | None
    records: int
    delta: float
    rows: tuple
    warning: str | None


def plan_homo_nn(request: HomoNNRequest, progress: Callable[[str], None] = lambda sentence: None) -> HomoNNPlan:
    """The three trust models beside each other; raises ValueError where none of them could run."""
    dimension, settings = dimension_of(request), request.settings
    rows = []
    for trust in AGGREGATIONS:
        progress(f"Accounting aggregation {trust}")
        rows.append(_row(request, trust, dimension))
    possible = next((row.aggregation for row in rows if not row.refused), None)
    if possible is None:
        raise ValueError(rows[0].refused)
    return HomoNNPlan(
        request.clients,
        dimension,
        settings.rounds,
        settings.batch_size,
        settings.records,
        settings.delta,
        tuple(rows),
        _terms(request, _with_trust(request, possible), dimension).delta_warning(),
    )


def dimension_of(request: HomoNNRequest) -> int:
    """Parameters of the model, as given or counted on it; ValueError for a model that only an operator has."""
    if request.dimension is not None:
        return request.dimension
    name = request.settings.model["name"]
    if module_name(name) is not None:
        raise ValueError(f"Only the parties' operators have the model {name!r}. Give its parameters with --dimension.")
    if request.features is None:
        raise ValueError("--features is missing. Give the number of features, or of parameters with --dimension.")
    from fate_dp.components.dp_homo_nn.models.registry import ModelSource, spec_of_job
    from fate_dp.components.dp_homo_nn.models.spec import dimension

    return dimension(
        ModelSource.of(spec_of_job(request.settings, request.features), request.settings.loss, {}).module()
    )


def _row(request: HomoNNRequest, trust: str, dimension: int) -> TrustPlan:
    from fate_dp.components.dp_homo_nn.round_terms import calibrated, guarantee_of, noise_of_mean

    try:
        settings = _with_trust(request, trust)
        terms = calibrated(settings, _terms(request, settings, dimension))
        guarantee = guarantee_of(settings, terms)
    except ValueError as refusal:
        return TrustPlan(trust, refused=str(refusal))
    noise, messages = noise_of_mean(terms), honest_messages(terms) if trust == "shuffle" else None
    return TrustPlan(
        trust,
        terms.noise_multiplier,
        terms.epsilon0,
        dict(guarantee.epsilons),
        guarantee.collusion,
        noise,
        noise * math.sqrt(dimension),
        messages,
    )


def _with_trust(request: HomoNNRequest, trust: str) -> TrainSettings:
    if trust != "shuffle":
        return replace(request.settings, aggregation=trust)
    epsilon0 = request.epsilon0 or (None if request.settings.epsilon else 1.0)
    return replace(
        request.settings,
        aggregation=trust,
        shuffler="shuffler",
        noise_multiplier=None,
        epsilon0=epsilon0,
        relation=None,
        epsilon=request.settings.epsilon if epsilon0 is None else None,
    )


def _terms(request: HomoNNRequest, settings: TrainSettings, dimension: int) -> RoundTerms:
    from fate_dp.components.dp_homo_nn import round_terms

    return round_terms.round_terms(settings, [f"client {number}" for number in range(request.clients)], dimension)


def _cells(row: TrustPlan) -> dict[str, str]:
    epsilons = row.epsilon or {}
    size = f"sigma {_up(row.noise_multiplier)}" if row.epsilon0 is None else f"epsilon0 {_up(row.epsilon0)}"
    return {
        "aggregation": row.aggregation,
        "noise": "refused" if row.refused else size,
        "epsilon, add-or-remove": _up(epsilons.get("add_or_remove")),
        "epsilon, replace-one": _up(epsilons.get("replace_one")),
        "if shuffler and server collude": _up(row.epsilon_if_shuffler_and_server_collude),
        "noise of mean": _up(row.noise_of_mean),
        "noise/signal": _up(row.noise_to_signal),
    }


def _up(value: float | None) -> str:
    return "-" if value is None else rounded_up(value)


def print_plan(plan: HomoNNPlan, console: Console) -> None:
    title = (
        f"dp_homo_nn: {plan.rounds} rounds, {plan.clients} parties with data, about {plan.batch_size:g} of "
        f"{plan.records} units in a round, {plan.dimension} parameters, delta {plan.delta:g}"
    )
    print_table(console, title, table_of_cells(map(_cells, plan.rows), texts=2))
    for row in plan.rows:
        if row.refused:
            print_text(console, f"{row.aggregation}: {row.refused}")
    print_text(
        console,
        "Epsilon (nats) is against server, other clients and whoever gets the model; accountant: PLD "
        "(dp-accounting), for shuffle the better of hiding among clones and composition. Noise of mean is the standard "
        "deviation per coordinate of a round's mean over the clip; noise/signal is its expected norm over the clip. "
        "Sigma, over the clip too, is that of the whole sum with secure_sum, and of each party's own message with local.",
    )
    if plan.warning:
        print_text(console, f"Warning: {plan.warning}")


def request_of(options: argparse.Namespace) -> HomoNNRequest:
    """The request of a command line; raises ValueError in the words of the component's own checks."""
    asked = {**given(options, TrainSettings), "model": {"name": options.model, "params": _params(options.model_params)}}
    # Of a message with aggregation shuffle, beside a target or a noise for the others.
    epsilon0 = asked.pop("epsilon0", None)
    return HomoNNRequest(given_settings(asked), options.clients, options.features, options.dimension, epsilon0)


def _params(text: str | None) -> dict[str, Any]:
    try:
        return {} if text is None else json.loads(text)
    except json.JSONDecodeError as error:
        allowed = "a JSON object, such as '{\"hidden\": [32]}'"
        raise ValueError(refusal("--model-params", text, allowed)) from error


@dataclass(frozen=True)
class TreesPlan:
    """One trust model: ``epsilon`` of all trainings together, by relation, and the standard deviation ``noise_of_leaf``
    in the sum of gradients of one leaf, over all parties. From ``least_records`` on it moves a leaf's step by less
    than ``VISIBLE``."""

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
    settings: gbdt.TrainSettings,
    clients: int,
    trainings: int = 1,
    progress: Callable[[str], None] = lambda sentence: None,
) -> HomoGBDTPlan:
    """The two trust models beside each other; ValueError in the component's own sentence where there is no such training."""
    rows = []
    for trust in gbdt.AGGREGATIONS:
        progress(f"Accounting aggregation {trust}")
        rows.append(_trees_row(replace(settings, aggregation=trust), clients, trainings))
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


def terms_of(settings: gbdt.TrainSettings, clients: int) -> RoundTerms:
    """Of one training, with the noise that is asked for or that the target needs."""
    terms = round_terms(settings, clients)
    if settings.epsilon is None:
        return terms
    return calibrate_terms(terms, settings.epsilon, settings.delta, settings.relation)


def _trees_row(settings: gbdt.TrainSettings, clients: int, trainings: int) -> TreesPlan:
    terms = terms_of(settings, clients)
    epsilons = {}
    for relation in relations_of(terms):
        events = [(event, count * trainings) for event, count in events_of(terms, relation)]
        epsilons[str(relation)] = total_epsilon(events, terms.delta)
    # Of parties that are all there, in a round after the first one.
    noise = noise_of_sums(terms, clients, clip_of_trees(settings.trees_of_round, 1))
    return TreesPlan(terms.aggregation, noise_of(terms), epsilons, noise, noise / (CURVATURE * VISIBLE))


def _trees_cells(row: TreesPlan) -> dict[str, str]:
    return {
        "aggregation": row.aggregation,
        "noise": f"sigma {rounded_up(row.noise_multiplier)}",
        "epsilon, add-or-remove": rounded_up(row.epsilon["add_or_remove"]),
        "epsilon, replace-one": rounded_up(row.epsilon["replace_one"]),
        "noise of a leaf": rounded_up(row.noise_of_leaf),
        "records of a readable leaf": f"{math.ceil(row.least_records)}",
    }


def show_trees(plan: HomoGBDTPlan, console: Console) -> None:
    times = f", {plan.trainings} trainings" if plan.trainings > 1 else ""
    title = (
        f"dp_homo_gbdt: {plan.trees} trees of depth {plan.depth} in {plan.rounds} rounds, {plan.clients} parties with data, "
        f"{plan.records} records, delta {plan.delta:g}{times}"
    )
    print_table(console, title, table_of_cells(map(_trees_cells, plan.rows), texts=2))
    print_text(
        console,
        "Epsilon (nats) is against server, other parties and whoever gets the model; accountant: PLD (dp-accounting). Sigma is "
        "in units of how far one record moves all sums of a round. Noise of a leaf is the standard deviation in its sum of "
        "gradients, to which a record adds at most 1; in a readable leaf it moves the step in log odds by less than "
        f"{VISIBLE:g} at a score of 0. A leaf has {plan.records_of_leaf:.4g} records on average; leaves with fewer are drawn "
        "towards the nodes above them. With local the server sees every party's own sums, and the noise of all parties adds "
        "up.",
    )
    if plan.warning:
        print_text(console, f"Warning: {plan.warning}")
