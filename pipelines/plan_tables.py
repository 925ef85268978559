"""A plan in a terminal and as JSON. Epsilons and noise are rounded up, counts of runs and records down."""
from __future__ import annotations

import math
from dataclasses import asdict
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from .plan import MOST_MESSAGES, LabelPlan, TrainingPlan
from .tables import TextTable, print_table, print_text

NOTES = {
    "local": "every client protects its own {own_records} records in its own message, about {own_batch:.4g} of them in "
    "a round; its noise alone counts against the server.",
    "shuffle": "Gaussian messages are not pure local randomisers: shuffling amplifies nothing, the local epsilon is "
    "charged. The shuffler sees who sent, and only ciphertexts of what.",
    "secure_sum": "{missing} of {clients} clients may collude or drop out (an observing client is one of them), so the "
    "others' shares are the whole noise. Discrete shares add a slack that depends on the grid; their event charges it.",
}

UNSPENT = "No ledger and no policy is read: the cap is taken as unspent. --source reads those of a label source."
SPENT = "A release at an epsilon, and under the key, that the source was flipped at before costs nothing for the same records."


def rounded_up(value: float, digits: int = 4) -> str:
    """Text of ``digits`` significant digits that is never below the value."""
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 4) -> str:
    """Text of ``digits`` significant digits that is never above the value."""
    return _rounded(value, digits, ROUND_FLOOR)


def plan_json(plan: LabelPlan | TrainingPlan) -> dict:
    """The plan as a JSON object; an infinite epsilon is the text 'infinity', as in the ledger."""
    return _json_able(asdict(plan))


def label_plan_table(plan: LabelPlan) -> TextTable:
    """What is answered about flipping labels, one line each."""
    request = plan.request
    interest = f"the class of interest (prior {plan.prior:g})"
    rows = (
        ("keep a label with probability", f"{plan.keep_probability:.6g}"),
        ("flip it with probability", f"{plan.flip_probability:.6g}"),
        (f"flips to expect among {request.records} labels (the real number is never released)",
         f"{plan.expected_flips:.6g}"),
        (f"P(true label is {interest} | flipped label is)", f"{plan.posterior_if_shown:.6g}"),
        ("P(the same | flipped label is not)", f"{plan.posterior_if_not_shown:.6g}"),
        ("standard error of the class share, from flipped labels", rounded_up(plan.standard_error)),
        ("the same, from true labels", rounded_up(plan.standard_error_unflipped)),
        ("true labels that would tell as much about the share", rounded_down(plan.equivalent_records)),
        ("jobs that repeat this release (same key, source, epsilon): no further epsilon", "any number"),
        (f"releases that add up and fit {_room(request)} (each a new epsilon or key)",
         str(plan.releases) if plan.releases else "none: refused"),
        ("epsilon left of the cap after one release", rounded_down(plan.left_after_one)),
    )  # fmt: skip
    return TextTable(("quantity", "value"), rows, frozenset(("value",)))


def _room(request) -> str:
    spent = "" if request.spent is None else f", of which {request.spent:g} is spent"
    return f"the cap {request.cap:g}{spent}"


def noise_table(plan: TrainingPlan) -> TextTable:
    """Noise and what it does to the mean update, per trust model."""
    rows = tuple(
        (row.trust, row.server_sees, rounded_up(row.client_sigma), rounded_up(row.sum_sigma),
         rounded_up(row.mean_sigma), "-" if row.noise_to_signal is None else rounded_up(row.noise_to_signal))
        for row in plan.rows)
    headings = ("trust", "server sees", "sigma per client", "sigma of sum", "sigma of mean", "noise/signal")
    return TextTable(headings, rows, frozenset(headings[2:]))


def epsilon_table(plan: TrainingPlan) -> TextTable:
    """Epsilon per trust model, observer and relation, and how many runs fit the budget."""
    rows = tuple(
        (row.trust, rounded_up(row.epsilon_server["add_or_remove"]), rounded_up(row.epsilon_server["replace_one"]),
         rounded_up(row.epsilon_client["add_or_remove"]), rounded_up(row.epsilon_client["replace_one"]),
         _runs_text(row.runs, plan.request.most_runs))
        for row in plan.rows)
    headings = ("trust", "server, add-or-remove", "server, replace-one", "other clients, add-or-remove",
                "other clients, replace-one", "runs in budget")
    return TextTable(headings, rows, frozenset(headings[1:]))


def shuffled_table(plan: TrainingPlan) -> TextTable:
    """What shuffling gives a pure local randomiser."""
    rows = tuple(
        (f"one per {line.sender}", _messages_text(line.messages), rounded_up(line.epsilon0),
         rounded_up(line.epsilon_one_round), rounded_up(line.epsilon_all_rounds))
        for line in plan.shuffled_pure)
    headings = ("messages", "honest messages", "epsilon0", "epsilon, one round", "epsilon, all rounds")
    return TextTable(headings, rows, frozenset(headings[1:]))


def print_label_plan(plan: LabelPlan, console) -> None:
    """Print the answer on a rich console."""
    request = plan.request
    print_table(
        console, f"Flipping labels among {request.classes} classes at epsilon {request.epsilon:g} nats, delta 0",
        label_plan_table(plan))
    print_text(
        console, "Unit label, replace-one; against host, arbiter and whoever gets the model. Features are not covered.")
    print_text(console, UNSPENT if request.spent is None else SPENT)


def print_training_plan(plan: TrainingPlan, console) -> None:
    """Print the answer on a rich console."""
    request = plan.request
    asked = f"{request.rounds} rounds, each record in a round with probability {request.sampling_probability:.4g}"
    print_table(
        console, f"Noise for {asked}: noise multiplier {rounded_up(plan.noise_multiplier, 6)}", noise_table(plan))
    print_table(console, f"Epsilon of one run at delta {request.delta:g}, unit record", epsilon_table(plan))
    budget = "no budget was given (--cap-epsilon)" if request.cap_epsilon is None else (
        f"the budget is epsilon {request.cap_epsilon:g} at delta {request.delta:g} against the server")
    print_text(console, f"Target and budget are stated under {request.relation}; {budget}; runs are composed, not "
               "divided. Other clients see the mean only, and know their own noise.")
    facts = {
        "own_records": request.records // request.clients, "own_batch": request.expected_batch / request.clients,
        "missing": request.tolerated, "clients": request.clients,
    }  # fmt: skip
    if request.cap_epsilon is not None:
        print_text(console, UNSPENT)
    for row in plan.rows:
        print_text(console, f"{row.trust}: {NOTES[row.trust].format(**facts)}")
    print_table(
        console, f"For comparison: pure messages through a shuffler, delta {request.delta:g}, replace-one",
        shuffled_table(plan))


def _rounded(value, digits, direction):
    if not math.isfinite(value):
        return "infinity"
    rounded = Context(prec=digits, rounding=direction).create_decimal(Decimal(value)).normalize()
    # Where all digits stand before the point, the exponent would only hide them.
    return f"{rounded:f}" if -5 < rounded.adjusted() < 15 else f"{rounded:g}"


def _runs_text(runs, most_runs):
    if runs is None:
        return "-"
    return f"{runs} or more" if runs == most_runs else str(runs)


def _messages_text(messages):
    return f"{messages} (of more)" if messages == MOST_MESSAGES else str(messages)


def _json_able(value):
    if isinstance(value, dict):
        return {name: _json_able(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_able(item) for item in value]
    return "infinity" if value == math.inf else value
