"""``fate-dp plan hetero-lr``: what a line between guest and host costs a training, before one is bought or booked."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fate_dp.components.common.parameters import number

from ..jobs.text_tables import TextTable, print_table, print_text, rounded_up

if TYPE_CHECKING:
    from rich.console import Console

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
        ("of them one after the other, each waits for the one before", str(plan.delays)),
        ("seconds of waiting for the line", rounded_up(plan.seconds, 3)),
    )
    title = (
        f"{request.epochs} epochs on {request.rows:,} rows, {request.guest_columns} + {request.host_columns} columns, "
        f"{request.delay:g} ms each way, {request.rate:g} Mbit/s"
    )
    print_table(console, title, TextTable(("quantity", "value"), rows, frozenset(("value",))))
    print_text(
        console,
        "Computing is not in it; at 2048 bits 10,000 rows of 30 columns take some 10 processor seconds (make bench-hetero-lr).",
    )
