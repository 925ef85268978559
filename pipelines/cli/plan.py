"""The ``fate-dp plan`` command: from flags to a printed plan."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from fate_dp.components.common.parameters import number

from ..jobs.party_ledgers import label_budget
from ..jobs.plan import (
    MAX_MESSAGES,
    LabelPlan,
    LabelPlanRequest,
    TrainingPlan,
    TrainingPlanRequest,
    check_whole,
    plan_labels,
    plan_training,
)
from ..jobs.text_tables import TextTable, json_able, print_table, print_text, rounded_down, rounded_up, table_of_cells
from .console import given, parties_folder, wide_console
from .try_model import plan_card, print_card_plan


def labels(options: argparse.Namespace) -> None:
    asked = given(options, LabelPlanRequest)
    if options.source is not None:
        cap, spent = label_budget(parties_folder(options), options.party, options.source)
        # A --cap that was given asks what another cap would hold.
        asked |= {"cap": cap if options.cap is None else options.cap, "spent": spent}
    request = LabelPlanRequest(**asked)
    answer(options, lambda progress: plan_labels(request), print_label_plan)


def training(options: argparse.Namespace) -> None:
    asked = given(options, TrainingPlanRequest)
    if options.batch_size is not None:
        check_whole("records", options.records, 1)
        check_whole("batch_size", options.batch_size, 1, largest=options.records)
        asked["sampling_probability"] = options.batch_size / options.records
    request = TrainingPlanRequest(**asked)
    answer(options, lambda progress: plan_training(request, progress), print_training_plan)


def homo_nn(options: argparse.Namespace) -> None:
    from .plan_horizontal import plan_homo_nn, print_plan, request_of

    request = request_of(options)
    answer(options, lambda progress: plan_homo_nn(request, progress), print_plan)


def homo_gbdt(options: argparse.Namespace) -> None:
    from fate_dp.components.dp_homo_gbdt.settings import TrainSettings, given_settings

    from .plan_horizontal import plan_homo_gbdt, show_trees

    settings = given_settings(given(options, TrainSettings))
    check_whole("trainings", options.trainings, 1)
    answer(options, lambda progress: plan_homo_gbdt(settings, options.clients, options.trainings, progress), show_trees)


def hetero_lr(options: argparse.Namespace) -> None:
    request = LinkRequest(**given(options, LinkRequest))
    answer(options, lambda progress: plan_link(request), print_link_plan)


def card(options: argparse.Namespace) -> None:
    answer(options, lambda progress: plan_card(options), print_card_plan)


def answer(
    options: argparse.Namespace, plan: Callable[[Callable[[str], None]], Any], show: Callable[[Any, Console], None]
) -> None:
    """Make a plan, which tells its progress to what `plan` is given, and print it as JSON or by `show`."""
    if options.json:
        print(json.dumps(json_able(asdict(plan(lambda sentence: None))), indent=2, allow_nan=False))
        return
    console = wide_console()
    with console.status("") as status:
        made = plan(status.update)
    show(made, console)


# A plan in a terminal and as JSON. Epsilons and noise are rounded up, counts of runs and records down.

NOTES = {
    "local": "every client protects its own {own_records} records in its own message, about {own_batch:.4g} of them in "
    "a round; its noise alone counts against the server.",
    "shuffle": "Gaussian messages are not pure local randomisers: shuffling amplifies nothing, the local epsilon is charged. "
    "The shuffler sees who sent a message, but only its ciphertext.",
    "secure_sum": "{missing} of {clients} clients may collude or drop out (an observing client is one of them), so only the "
    "others' shares count as noise. Discrete shares add a slack that depends on the grid; their event charges "
    "it.",
}

UNSPENT = "No ledger and no policy is read: the cap is taken as unspent. --source reads those of a label source."
SPENT = "A second release of the same records at the same epsilon and under the same key costs nothing."


def noise_table(plan: TrainingPlan) -> TextTable:
    return table_of_cells(
        (
            {
                "aggregation": row.aggregation,
                "server sees": row.server_sees,
                "sigma per client": rounded_up(row.client_sigma),
                "sigma of sum": rounded_up(row.sum_sigma),
                "sigma of mean": rounded_up(row.mean_sigma),
                "noise/signal": "-" if row.noise_to_signal is None else rounded_up(row.noise_to_signal),
            }
            for row in plan.rows
        ),
        texts=2,
    )


def epsilon_table(plan: TrainingPlan) -> TextTable:
    return table_of_cells(
        {
            "aggregation": row.aggregation,
            "server, add-or-remove": rounded_up(row.epsilon_server["add_or_remove"]),
            "server, replace-one": rounded_up(row.epsilon_server["replace_one"]),
            "other clients, add-or-remove": rounded_up(row.epsilon_client["add_or_remove"]),
            "other clients, replace-one": rounded_up(row.epsilon_client["replace_one"]),
            "runs in budget": _runs_text(row.runs, plan.request.most_runs),
        }
        for row in plan.rows
    )


def shuffled_table(plan: TrainingPlan) -> TextTable:
    return table_of_cells(
        {
            "messages": f"one per {line.sender}",
            "honest messages": f"{line.messages}{' (of more)' if line.messages == MAX_MESSAGES else ''}",
            "epsilon0": rounded_up(line.epsilon0),
            "epsilon, one round": rounded_up(line.epsilon_one_round),
            "epsilon, all rounds": rounded_up(line.epsilon_all_rounds),
        }
        for line in plan.shuffled_pure
    )


def print_label_plan(plan: LabelPlan, console: Console) -> None:
    request = plan.request
    spent = "" if request.spent is None else f", of which {request.spent:g} is spent"
    interest = f"the class of interest (prior {plan.prior:g})"
    rows = (
        ("keep a label with probability", f"{plan.keep_probability:.6g}"),
        ("flip it with probability", f"{plan.flip_probability:.6g}"),
        (
            f"flips to expect among {request.records} labels (the real number is never released)",
            f"{plan.expected_flips:.6g}",
        ),
        (f"P(true label is {interest} | flipped label is)", f"{plan.posterior_if_shown:.6g}"),
        ("P(the same | flipped label is not)", f"{plan.posterior_if_not_shown:.6g}"),
        ("standard error of the class share, from flipped labels", rounded_up(plan.standard_error)),
        ("the same, from true labels", rounded_up(plan.standard_error_unflipped)),
        ("true labels that would tell as much about the share", rounded_down(plan.equivalent_records)),
        ("jobs that repeat this release (same key, source, epsilon): no further epsilon", "any number"),
        (
            f"releases that add up and fit the cap {request.cap:g}{spent} (each a new epsilon or key)",
            str(plan.releases) if plan.releases else "none: refused",
        ),
        ("epsilon left of the cap after one release", rounded_down(plan.left_after_one)),
    )
    title = f"Flipping labels among {request.classes} classes at epsilon {request.epsilon:g} nats, delta 0"
    print_table(console, title, TextTable(("quantity", "value"), rows, frozenset(("value",))))
    observers = "against host, arbiter and whoever gets the model. Features are not covered."
    print_text(console, f"Unit label, replace-one; {observers}")
    print_text(console, UNSPENT if request.spent is None else SPENT)
    if plan.choices:
        title = f"Flips, or noise on sums (dp_hetero_lr, privacy label, delta {request.delta:g})"
        print_table(console, title, choice_table(plan))
        print_text(console, advice(plan))


def choice_table(plan: LabelPlan) -> TextTable:
    asked = plan.request.columns is not None
    return table_of_cells(
        {
            "epsilon": f"{choice.epsilon:g}",
            "flips, per label": rounded_up(choice.variance_of_flips),
            "noise, per column and model": rounded_up(choice.variance_of_noise),
            "noise better up to columns x models": str(choice.largest_size),
            **({"noise over flips": rounded_up(choice.noise_over_flips or 0.0)} if asked else {}),
        }
        for choice in plan.choices
    )


def advice(plan: LabelPlan) -> str:
    request = plan.request
    (choice,) = [each for each in plan.choices if each.epsilon == request.epsilon]
    rule = (
        "Variances are those of X^T y at equal epsilon, for rows as long as their clip. Flips serve any number of models, "
        "and FATE's own components; noise is drawn anew for each model."
    )
    if choice.noise_over_flips is None:
        return f"{rule} With --columns, and --models for more than one, this says which of the two to take."
    size = f"{request.columns} columns and {request.models} model{'s' if request.models > 1 else ''}"
    taken = "noise (privacy label)" if choice.noise_over_flips < 1 else "flips (label_flip)"
    limit = (
        "at every epsilon from 2^-10 to 32 alike"
        if plan.crossover is None
        else f"the crossover is at epsilon {plan.crossover:.3g}, below which noise is better"
    )
    return f"{rule} For {request.records} records, {size} at epsilon {request.epsilon:g}: take {taken}; {limit}."


def print_training_plan(plan: TrainingPlan, console: Console) -> None:
    request = plan.request
    asked = f"{request.rounds} rounds, each record in a round with probability {request.sampling_probability:.4g}"
    title = f"Noise for {asked}: noise multiplier {rounded_up(plan.noise_multiplier, 6)}"
    print_table(console, title, noise_table(plan))
    print_table(console, f"Epsilon of one run at delta {request.delta:g}, unit record", epsilon_table(plan))
    budget = "no budget was given (--cap-epsilon)"
    if request.cap_epsilon is not None:
        budget = f"the budget is epsilon {request.cap_epsilon:g} at delta {request.delta:g} against the server"
    print_text(
        console,
        f"Target and budget are stated under {request.relation}; {budget}; runs are composed, not "
        "divided. Other clients see the mean only, and know their own noise.",
    )
    facts = {
        "own_records": request.records // request.clients,
        "own_batch": request.expected_batch / request.clients,
        "missing": request.max_dropouts,
        "clients": request.clients,
    }
    if request.cap_epsilon is not None:
        print_text(console, UNSPENT)
    for row in plan.rows:
        print_text(console, f"{row.aggregation}: {NOTES[row.aggregation].format(**facts)}")
    title = f"For comparison: pure messages through a shuffler, delta {request.delta:g}, replace-one"
    print_table(console, title, shuffled_table(plan))


def _runs_text(runs: int | None, most_runs: int) -> str:
    if runs is None:
        return "-"
    return f"{runs} or more" if runs == most_runs else str(runs)


# What a line between guest and host costs a training, before one is bought or booked.


@dataclass(frozen=True)
class LinkRequest:
    """A training of solver cross_product between a guest and one host, and the line between them, whose ways share its rate."""

    rows: int
    guest_columns: int
    host_columns: int
    epochs: int = 30
    key_length: int = 2048
    flipback: bool = False
    delay: float = 50.0
    rate: float = 100.0

    def __post_init__(self) -> None:
        for name in ("rows", "guest_columns", "host_columns", "epochs"):
            number(name, getattr(self, name), at_least=1, whole=True)
        number("key_length", self.key_length, at_least=2048, whole=True)
        number("delay", self.delay, at_least=0)
        number("rate", self.rate, above=0)


@dataclass(frozen=True)
class LinkPlan:
    """The answer: bytes both ways, messages that wait for one another, and seconds of waiting for the line."""

    request: LinkRequest
    bytes: int
    delays: int
    seconds: float


def plan_link(request: LinkRequest) -> LinkPlan:
    from fate_dp.components.common.vocabulary import he_param
    from fate_dp.components.dp_hetero_lr.settings import TrainSettings
    from fate_dp.components.dp_hetero_lr.traffic import traffic

    settings = TrainSettings(epochs=request.epochs, he_param=he_param({"key_length": request.key_length}))
    found = traffic(request.rows, (request.guest_columns, request.host_columns), settings, request.flipback)
    return LinkPlan(request, found.bytes, found.delays, found.seconds(request.delay / 1e3, request.rate * 1e6))


def print_link_plan(plan: LinkPlan, console: Console) -> None:
    request = plan.request
    rows = (
        ("messages, MB both ways", rounded_up(plan.bytes / 1e6, 3)),
        ("of them in sequence, each waiting for the one before", str(plan.delays)),
        ("seconds of waiting for the line", rounded_up(plan.seconds, 3)),
    )
    title = (
        f"{request.epochs} epochs on {request.rows:,} rows, {request.guest_columns} + {request.host_columns} columns, "
        f"{request.delay:g} ms each way, {request.rate:g} Mbit/s"
    )
    print_table(console, title, TextTable(("quantity", "value"), rows, frozenset(("value",))))
    print_text(
        console,
        "Computation is extra; at 2048 bits 10,000 rows of 30 columns take some 10 processor seconds (make bench-hetero-lr).",
    )
