"""The computed tables of ``docs/privacy/tables.md``, each by the library's public functions.

    python -m tests.pages.computed_tables flip_rates

prints one of them. Epsilons, deltas and noise are rounded up, numbers of records down.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fate_dp.pipelines.jobs.plan import LabelPlanRequest, TrainingPlanRequest, plan_labels, plan_training
from fate_dp.pipelines.jobs.text_tables import rounded_down, rounded_up
from fate_dp.privacy.accounting.calibration import subsampled_gaussian_epsilon
from fate_dp.privacy.accounting.composition import compose_pure
from fate_dp.privacy.accounting.gaussian import gaussian_delta, gaussian_sigma
from fate_dp.privacy.accounting.privacy_profiles import in_amplified_range, shuffle_closed_form
from fate_dp.privacy.accounting.shuffling import shuffle_epsilon

DELTA = 1e-5
SHUFFLE_DELTA = 1e-6


@dataclass(frozen=True)
class ComputedTable:
    """A table with its title and a sentence on what it shows; headings name the function of their column."""

    title: str
    says: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as Markdown; cells must hold no line breaks."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def flip_rates() -> ComputedTable:
    """How often labels are flipped, and what is left of their information."""
    rows = []
    for epsilon in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0):
        two, ten = (plan_labels(LabelPlanRequest(1000, epsilon, classes)) for classes in (2, 10))
        rates = (two.keep_probability, two.flip_probability, ten.flip_probability)
        worth = (rounded_down(plan.equivalent_records, 3) for plan in (two, ten))
        rows.append((f"{epsilon:g}", *map("{:.5f}".format, rates), *worth))
    return ComputedTable(
        "Flip rates",
        "Randomised response with k classes, and how many unflipped labels would tell as much about the share of one "
        "class (prior 1/k) as 1000 flipped ones do: for two classes 1000 (1 - 2q)^2.",
        ("epsilon", "keep, k = 2", "flip q, k = 2", "flip, k = 10", "worth of 1000, k = 2", "worth of 1000, k = 10"),
        rows,
    )


def fresh_flips() -> ComputedTable:
    """What T independent flips of the same labels cost."""
    rows = []
    for epsilon, times in ((1.0, 1), (1.0, 2), (1.0, 5), (1.0, 10), (1.0, 30), (0.5, 20)):
        once, fresh = f"{epsilon:g}", rounded_up(compose_pure([epsilon] * times, DELTA), 6)
        rows.append((once, str(times), once, f"{epsilon * times:g}", fresh))
    return ComputedTable(
        "Fresh flips",
        "Flipping anew at every epoch composes; a memoised flip is released once. `compose_pure` is exact for "
        f"randomised response, here at delta {DELTA:g}.",
        ("epsilon of one flip", "times T", "memoised", "fresh, delta 0", f"fresh, delta {DELTA:g}"),
        rows,
    )


def gaussian_calibration() -> ComputedTable:
    """The analytic Gaussian beside the classic formula."""
    rows = []
    for epsilon in (0.1, 0.5, 1.0, 2.0, 8.0, 10.0, 50.0):
        classic = math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon
        sigma, real = rounded_up(gaussian_sigma(epsilon, DELTA), 5), gaussian_delta(classic, epsilon)
        holds = "yes" if real <= DELTA else "**no**"
        rows.append((f"{epsilon:g}", sigma, f"{classic:.4g}", rounded_up(real, 3), holds))
    return ComputedTable(
        "Gaussian noise for one query of sensitivity 1",
        f"`gaussian_sigma` at delta {DELTA:g} beside the classic sqrt(2 ln(1.25 / delta)) / epsilon, which is proved "
        "for epsilon below 1 only and adds too little noise at large epsilon.",
        ("epsilon", "analytic sigma", "classic sigma", "its real delta", "classic holds"),
        rows,
    )


def relations() -> ComputedTable:
    """One noise, two relations, two accountants."""
    rows = []
    for rate, rate_text, noise, steps in ((4096 / 60000, "4096/60000", 3.937, 219), (0.04, "0.04", 1.5, 2250)):
        epsilons = (
            subsampled_gaussian_epsilon(rate, noise, steps, DELTA, accountant=accountant, relation=relation)
            for accountant, relation in (("pld", "add_or_remove"), ("rdp", "add_or_remove"), ("pld", "replace_one"))
        )
        rows.append((rate_text, f"{noise:g}", str(steps), *map(rounded_up, epsilons)))
    return ComputedTable(
        "The relation matters",
        f"`subsampled_gaussian_epsilon` of the same Poisson-sampled training at delta {DELTA:g}; the noise multiplier "
        "is sigma over the clip.",
        ("sampling", "noise multiplier", "steps", "add-or-remove, PLD", "add-or-remove, RDP", "replace-one, PLD"),
        rows,
    )


def shuffled_flips() -> ComputedTable:
    """One shuffled message per unit: exact, numeric bound and closed form."""
    rows = []
    for messages, epsilon0 in ((100, 1.0), (1000, 1.0), (10000, 1.0), (10000, 2.0), (100000, 4.0)):
        case, closed = (epsilon0, messages, SHUFFLE_DELTA), "out of its range"
        if in_amplified_range(*case):
            closed = rounded_up(shuffle_closed_form(*case))
        bounds = (rounded_up(shuffle_epsilon(*case, randomizer)) for randomizer in ("randomized_response", "any"))
        rows.append((str(messages), f"{epsilon0:g}", *bounds, closed, "not amplified"))
    return ComputedTable(
        "Shuffled messages, one round",
        f"`shuffle_epsilon` at delta {SHUFFLE_DELTA:g}, replace-one, of n honest messages. For randomised response the "
        "exact sum over the worst data set; for any pure local randomiser the numeric clones bound; beside them the "
        "closed form of the same paper. Out of its range none of the bounds for any randomiser is claimed.",
        ("n", "epsilon0", "randomised response", "any pure randomiser", "closed form", "Gaussian messages"),
        rows,
    )


def trust_models() -> ComputedTable:
    """The three trust models at one target."""
    request = TrainingPlanRequest(60000, 10, 219, 4096 / 60000, DELTA, epsilon=2.0, cap_epsilon=8.0)
    rows = []
    for row in plan_training(request).rows:
        bounds = (
            row.client_sigma,
            row.sum_sigma,
            *(row.epsilon_server[each] for each in ("add_or_remove", "replace_one")),
        )
        rows.append((row.aggregation, row.server_sees, *map(rounded_up, bounds), str(row.runs)))
    return ComputedTable(
        "Three trust models",
        "`fate-dp plan training --records 60000 --clients 10 --rounds 219 --batch-size 4096 --epsilon 2 --delta 1e-5 "
        "--cap-epsilon 8`: the same clients and the same model; what differs is what the server sees. Sigma is in "
        "units of the clip.",
        (
            "aggregation",
            "server sees",
            "sigma per client",
            "sigma of the sum",
            "epsilon, add-or-remove",
            "epsilon, replace-one",
            "runs in epsilon 8",
        ),
        rows,
    )


TABLES = {
    "flip_rates": flip_rates,
    "fresh_flips": fresh_flips,
    "gaussian_calibration": gaussian_calibration,
    "relations": relations,
    "shuffled_flips": shuffled_flips,
    "trust_models": trust_models,
}


def main() -> None:
    """Print the table named on the command line."""
    table = TABLES[sys.argv[1]]()
    print(markdown_table(table.headings, table.rows))


if __name__ == "__main__":
    main()
