"""What a party pays once for its key and for the other party's, before any row: CPU seconds of each part."""

import statistics
import time
from collections.abc import Callable

REPEATS = 3


def key_costs(key_length: int) -> dict[str, float]:
    """{part: median CPU seconds} for one party with one other.

    A key pair is drawn until its primes are found, which varies; all else follows from its length.
    """
    from fate_dp.crypto.modulus_proof import prove
    from fate_dp.crypto.paillier import DrawnBlinding, PublicKey, generate_keypair
    from fate_dp.crypto.powers import comb_height
    from fate_dp.crypto.residues import EXPECTED_ANSWERS

    private = generate_keypair(key_length)[1]
    wire, height = private.to_wire(), comb_height(EXPECTED_ANSWERS)
    parts = {
        "key pair": lambda: generate_keypair(key_length),
        "proof of the modulus": lambda: prove(private.public_key.n, private._primes),
        "check of the other's": lambda: PublicKey.from_wire(wire),
        "bases for blinding": lambda: DrawnBlinding(private.public_key, height),
    }
    return {part: statistics.median(_seconds(work) for _ in range(REPEATS)) for part, work in parts.items()}


def cost_table(costs: dict[str, float], key_length: int):
    """The costs as a table, and their sum."""
    from rich.table import Table

    table = Table(title=f"One-time costs of a key of {key_length} bits, CPU s of a party")
    for part in (*costs, "together"):
        table.add_column(part, justify="right")
    table.add_row(*(f"{seconds:.3f}" for seconds in (*costs.values(), sum(costs.values()))))
    return table


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
