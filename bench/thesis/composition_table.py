"""The source's composition statement beside RDP and PLD: what a reader of the thesis would report, and what is true.

    python -m bench.thesis.composition_table

Gaussian noise on the clipped sum of a Poisson sample, add-or-remove, unit record. Every column is an upper bound of
the same epsilon (nats) at delta 1e-5: eq. 3.23 of the thesis, which gives up that nobody knows in which rounds a record
took part; the last line of eq. 3.24, which gives up sampling altogether; RDP; PLD. `noise` is sigma over the clip,
`ratio` eq. 3.23 over PLD. README.md says where eq. 3.23 holds.

The last line printed is one JSON object; its figures are named by rounds, sampling and noise.
"""

import json
from dataclasses import dataclass

from bench.thesis.composition import source_composition_epsilon, unsampled_source_epsilon
from fate_dp.privacy.accounting.accountant import make_accountant
from fate_dp.privacy.events import ADD_OR_REMOVE, Event, PoissonSampledGaussian

DELTA = 1e-5
NOISE_MULTIPLIERS = (1.0, 1.5, 4.0)
ROUNDS_AND_SAMPLING = ((100, 0.01), (100, 0.04), (500, 0.01), (500, 0.04), (2250, 0.01), (2250, 0.04))


@dataclass(frozen=True)
class Comparison:
    """Four upper bounds of one epsilon."""

    rounds: int
    sampling_probability: float
    noise_multiplier: float
    source: float
    unsampled: float
    rdp: float
    pld: float

    @property
    def figures(self):
        setting = f"rounds_{self.rounds}_sampling_{self.sampling_probability:g}_noise_{self.noise_multiplier:g}"
        bounds = {"source": self.source, "unsampled": self.unsampled, "rdp": self.rdp, "pld": self.pld}
        return {f"epsilon_{name}_{setting}": round(epsilon, 6) for name, epsilon in bounds.items()}


def main():
    from rich.console import Console

    console = Console()
    with console.status("accounting"):
        comparisons = [compare(*setting, noise) for setting in ROUNDS_AND_SAMPLING for noise in NOISE_MULTIPLIERS]
    console.print(_table(comparisons))
    figures = {name: epsilon for comparison in comparisons for name, epsilon in comparison.figures.items()}
    print(json.dumps({"bench": "source-composition", "figures": figures}))


def compare(rounds, sampling_probability, noise_multiplier):
    """The four bounds for one setting."""
    return Comparison(
        rounds,
        sampling_probability,
        noise_multiplier,
        source=source_composition_epsilon(rounds, sampling_probability, noise_multiplier, DELTA),
        unsampled=unsampled_source_epsilon(rounds, noise_multiplier, DELTA),
        rdp=_accounted("rdp", rounds, sampling_probability, noise_multiplier),
        pld=_accounted("pld", rounds, sampling_probability, noise_multiplier),
    )


def _accounted(kind, rounds, sampling_probability, noise_multiplier):
    accountant = make_accountant(kind, ADD_OR_REMOVE)
    process = PoissonSampledGaussian(sampling_probability, noise_multiplier)
    accountant.compose(Event(process, "record", ADD_OR_REMOVE, "server"), rounds)
    return accountant.epsilon(DELTA)


def _table(comparisons):
    from rich.table import Table

    table = Table(title=f"epsilon at delta {DELTA:g}, add-or-remove, unit record")
    for column in ("rounds", "sampling", "noise", "eq. 3.23", "eq. 3.24", "RDP", "PLD", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in comparisons:
        setting = (row.rounds, row.sampling_probability, row.noise_multiplier)
        bounds = (row.source, row.unsampled, row.rdp, row.pld, row.source / row.pld)
        table.add_row(*(f"{value:g}" for value in setting), *(f"{value:.3f}" for value in bounds))
    return table


if __name__ == "__main__":
    main()
