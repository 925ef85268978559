"""The ``fate-dp plan`` command: its flags, and from them to a printed plan."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from fate_dp.components.common.parameters import number
from fate_dp.privacy.events import RELATIONS
from fate_dp.privacy.validation import DEFAULT_DELTA

from ..jobs.text_tables import TextTable, json_able, print_table, print_text, rounded_down, rounded_up, table_of_cells
from .console import Commands, Run, add_command, add_home, add_kinds, given, parties_folder, wide_console
from .try_model import add_card_flags, plan_card, print_card_plan

if TYPE_CHECKING:
    from rich.console import Console

    from ..jobs.plan import LabelPlan, TrainingPlan


def add_plan(commands: Commands) -> None:
    text = "answer 'what noise, what accuracy loss, how many runs' before anything is spent"
    kinds = add_kinds(commands, "plan", text, "what to plan")

    def add(name: str, text: str, run: Run, add_flags: Callable[[argparse.ArgumentParser], None]) -> None:
        command = add_command(kinds, name, text, run)
        command.add_argument("--json", action="store_true", help="print JSON instead of tables")
        add_flags(command)

    add("labels", "flip labels: probabilities, information loss, releases that fit the cap", labels, _add_labels)
    add("training", "train with noise in three trust models: local, shuffle, secure_sum", training, _add_training)
    text = "a training of dp_homo_nn: what each trust model costs and how noisy it is"
    add("homo-nn", text, homo_nn, _add_homo_nn)
    text = "a training of dp_homo_gbdt: what it costs in two trust models and how noisy leaves are"
    add("homo-gbdt", text, homo_gbdt, _add_homo_gbdt)
    text = "a training of dp_hetero_lr over a line between two sites: bytes, delays, seconds of waiting"
    add("hetero-lr", text, hetero_lr, add_link_flags)
    for name, text in (("scorecard", "a training of dp_scorecard"), ("binning", "counts by bin of dp_binning")):
        add(name, f"{text}: noise of a bin, errors of WOE and points", card, partial(add_card_flags, kind=name))


def _add_target(command: argparse.ArgumentParser) -> None:
    target = command.add_mutually_exclusive_group(required=True)
    target.add_argument("--epsilon", type=float, help="target in nats: how much noise does it need?")
    target.add_argument("--noise-multiplier", type=float, help="sigma over the clip: which epsilon does it give?")
    command.add_argument("--delta", type=float, help=f"delta of the guarantee ({DEFAULT_DELTA:g})")


def _add_labels(command: argparse.ArgumentParser) -> None:
    command.add_argument("--records", type=int, required=True, help="number of labels")
    command.add_argument("--epsilon", type=float, required=True, help="nats per label")
    command.add_argument("--classes", type=int, help="label values that may occur (2)")
    command.add_argument("--cap", type=float, help="total epsilon that the source may spend (the policy's default)")
    text = "take cap and spending of this declared label source"
    command.add_argument("--source", metavar="NAMESPACE/NAME/COLUMN", help=text)
    command.add_argument("--party", default="9999", help="with --source: whose it is (9999)")
    add_home(command, "with --source: folder of the server and the parties")
    text = "features of all parties together: are flips or noise on sums of labels better?"
    command.add_argument("--columns", type=int, help=text)
    command.add_argument("--models", type=int, help="trainings on these labels, each with noise of its own (1)")
    command.add_argument("--delta", type=float, help=f"delta of noise on sums; flips need none ({DEFAULT_DELTA:g})")
    command.add_argument("--prior", type=float, help="public guess of the share of the class of interest (1/classes)")


def _add_training(command: argparse.ArgumentParser) -> None:
    command.add_argument("--records", type=int, required=True, help="records of all clients together")
    command.add_argument("--clients", type=int, required=True, help="clients of equal size")
    command.add_argument("--rounds", type=int, required=True, help="noisy updates in one run")
    sampling = command.add_mutually_exclusive_group(required=True)
    sampling.add_argument("--sampling-probability", type=float, help="chance that each record takes part in a round")
    sampling.add_argument("--batch-size", type=int, help="the same as an expected number of records, over all clients")
    _add_target(command)
    command.add_argument("--clip", type=float, help="largest l2 norm of one contribution (1)")
    command.add_argument("--dimension", type=int, help="coordinates of an update, for the ratio of noise to signal")
    command.add_argument("--relation", choices=RELATIONS, help="for target and budget (add_or_remove)")
    command.add_argument("--max-dropouts", type=int, help="clients that may collude or drop out (1)")
    command.add_argument("--cap-epsilon", type=float, help="budget of the dataset: how many runs does it hold?")
    command.add_argument("--epsilon0", type=float, help="epsilon of a pure local randomiser, for comparison (1)")


def _add_homo_nn(command: argparse.ArgumentParser) -> None:
    command.add_argument("--clients", type=int, required=True, help="parties with data, of equal size")
    command.add_argument("--records", type=int, required=True, help="records of all parties together")
    command.add_argument("--batch-size", type=float, help="expected records of a round, over all parties (all records)")
    command.add_argument("--rounds", type=int, help="noisy updates (50)")
    _add_target(command)
    text = "epsilon of one message with aggregation shuffle (what --epsilon allows, or 1)"
    command.add_argument("--epsilon0", type=float, help=text)
    command.add_argument("--relation", choices=RELATIONS, help="for the target (add_or_remove; shuffle: replace_one)")
    command.add_argument("--model", default="logistic_regression", help="name of the model (logistic_regression)")
    command.add_argument("--model-params", metavar="JSON", help="its parameters, for example '{\"hidden\": [32]}'")
    command.add_argument("--features", type=int, help="features of a record, to count the model's parameters")
    command.add_argument("--classes", type=int, help="number of classes (2)")
    command.add_argument("--dimension", type=int, help="parameters of the model, instead of --model and --features")
    command.add_argument("--clip", type=float, help="largest l2 norm of one contribution (by features and noise)")
    command.add_argument("--privacy", help="record or client (record)")
    command.add_argument("--max-dropouts", type=int, help="parties that may drop out or collude (1)")
    command.add_argument("--local-steps", type=int, help="steps of a party in a round (1)")
    command.add_argument("--local-learning-rate", type=float, help="learning rate of these steps")


def _add_homo_gbdt(command: argparse.ArgumentParser) -> None:
    command.add_argument("--clients", type=int, required=True, help="parties with data")
    command.add_argument("--records", type=int, required=True, help="records of all parties together")
    command.add_argument("--trees", type=int, help="trees of all rounds together (160)")
    command.add_argument("--rounds", type=int, help="noisy releases (8)")
    command.add_argument("--depth", type=int, help="levels of splits of a tree (6)")
    _add_target(command)
    command.add_argument("--relation", choices=RELATIONS, help="for the target (add_or_remove)")
    command.add_argument("--max-dropouts", type=int, help="parties that may drop out or collude (1)")
    command.add_argument("--trainings", type=int, default=1, help="runs with noise of their own, such as folds (1)")


def labels(options: argparse.Namespace) -> None:
    from ..jobs.party_ledgers import label_budget
    from ..jobs.plan import LabelPlanRequest, plan_labels

    asked = given(options, LabelPlanRequest)
    if options.source is not None:
        cap, spent = label_budget(parties_folder(options), options.party, options.source)
        # A --cap that was given asks what another cap would hold.
        asked |= {"cap": cap if options.cap is None else options.cap, "spent": spent}
    request = LabelPlanRequest(**asked)
    answer(options, lambda progress: plan_labels(request), print_label_plan)


def training(options: argparse.Namespace) -> None:
    from ..jobs.plan import TrainingPlanRequest, check_whole, plan_training

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

    from ..jobs.plan import check_whole
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
    from ..jobs.plan import MAX_MESSAGES

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

EPOCHS, KEY_LENGTH = 30, 2048


@dataclass(frozen=True)
class LinkRequest:
    """A training of solver cross_product between a guest and one host, and the line between them, whose ways share its rate."""

    rows: int
    guest_columns: int
    host_columns: int
    epochs: int = EPOCHS
    key_length: int = KEY_LENGTH
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


def add_link_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("--rows", type=int, required=True, help="joined records")
    command.add_argument("--guest-columns", type=int, required=True, help="features of the guest")
    command.add_argument("--host-columns", type=int, required=True, help="features of the host")
    command.add_argument("--epochs", type=int, help=f"epochs ({EPOCHS})")
    command.add_argument("--key-length", type=int, help=f"bits of the Paillier keys ({KEY_LENGTH})")
    command.add_argument("--flipback", action="store_true", default=None, help="with the default rounds of flipback")
    command.add_argument("--delay", type=float, help="milliseconds from site to site, each way (50)")
    command.add_argument("--rate", type=float, help="Mbit/s (100)")


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
