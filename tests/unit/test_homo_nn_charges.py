"""What a party is charged for the rounds that it sends in, and what the shuffler lets through."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

from fate_dp.components.common.federation import Federation
from fate_dp.components.dp_homo_nn.round_terms import ChargedRounds
from fate_dp.components.protocols.noisy_rounds.account import senders
from fate_dp.components.protocols.noisy_rounds.aggregation import SHUFFLED, SecureSum, Shuffle
from fate_dp.components.protocols.noisy_rounds.contribution import Contribution
from fate_dp.components.protocols.noisy_rounds.terms import RoundTerms
from fate_dp.components.protocols.noisy_rounds.training import charge
from fate_dp.privacy import BudgetExceeded
from fate_dp.privacy.accounting.secure_sum import TooFewArrived
from fate_dp.privacy.events import REPLACE_ONE

SETTINGS = SimpleNamespace(stated_relation=REPLACE_ONE, noise_spread="uniform")
SHUFFLE = RoundTerms(
    aggregation="shuffle",
    unit="record",
    clients=3,
    max_dropouts=1,
    rounds=12,
    batch_size=30,
    records=120,
    clips=1.0,
    dimension=2,
    delta=1e-5,
    epsilon0=1.0,
)
SUM = RoundTerms(
    aggregation="secure_sum",
    unit="record",
    clients=3,
    max_dropouts=1,
    rounds=12,
    batch_size=30,
    records=120,
    clips=1.0,
    dimension=2,
    delta=1e-5,
    noise_multiplier=1.0,
)
DATA = (("guest", "1"), ("host", "2"), ("host", "3"))
FEDERATION = Federation(DATA[0], DATA[1:], arbiter=("arbiter", "5"), shuffler=("host", "4"))


def charged(terms, rounds):
    """How much each of the rounds adds."""
    ledger, counts = ChargedRounds(SETTINGS, terms), []
    for number in rounds:
        counts.append(sum(count for _, count in ledger.added_by(number)))
        ledger.add(number)
    return counts


def test_every_round_of_a_sum_is_charged():
    assert charged(SUM, [0, 1, 5]) == [1, 1, 1]


@pytest.mark.parametrize(
    "rounds, counts",
    [
        ([0, 1, 2, 3, 4, 5], [1, 0, 0, 0, 1, 0]),
        # The first rounds of both epochs were aborted, or this party was not among those present.
        ([2, 3, 5, 7], [1, 0, 1, 0]),
    ],
)
def test_an_epoch_of_shuffled_rounds_is_charged_when_this_party_first_sends_in_it(rounds, counts):
    assert charged(SHUFFLE, rounds) == counts


def test_what_was_not_recorded_is_asked_for_again():
    ledger = ChargedRounds(SETTINGS, SHUFFLE)
    assert ledger.added_by(0) == ledger.added_by(1) != []


class Sent:
    """A channel at the shuffler: ``messages`` of the clients, and what the server is sent."""

    def __init__(self, messages):
        self.messages, self.received = messages, {}

    def get(self, party, name):
        return self.messages[party]

    def put(self, party, name, value):
        self.received[party, name] = value


def relayed(change):
    """Number of messages that the shuffler passes on when each party's are changed by ``change(party, number)``."""
    relay = Shuffle(SHUFFLE, FEDERATION)
    scheduled = {party: len(senders(SHUFFLE, at, 0)) for at, party in enumerate(DATA)}
    sent = {party: os.urandom(relay.message_bytes * change(party, number)) for party, number in scheduled.items()}
    channel, size = Sent(sent), relay.message_bytes
    relay.relay(channel, FEDERATION.names, 0)
    arrived, passed = b"".join(sent[party] for party in DATA), channel.received[FEDERATION.server, SHUFFLED]
    cut = [[content[at : at + size] for at in range(0, len(content), size)] for content in (arrived, passed)]
    assert not passed or cut[0] != cut[1] and set(cut[1]) <= set(cut[0]), "It is another order of the same messages."
    return len(passed) // size, sum(scheduled.values())


def test_the_shuffler_passes_on_what_the_schedule_says():
    passed, scheduled = relayed(lambda party, number: number)
    assert passed == scheduled > 20


def test_surplus_messages_of_one_party_do_not_make_up_for_those_of_another():
    changes = {DATA[0]: lambda number: 3 * number, DATA[1]: lambda number: 0}
    passed, _ = relayed(lambda party, number: changes.get(party, lambda same: same)(number))
    assert passed == 0


def test_a_party_masks_nothing_for_a_set_that_is_too_small():
    side = SecureSum(SUM, FEDERATION)
    with pytest.raises(TooFewArrived, match="must be at least 3 of 3"):
        side.encode(Contribution(0, 0, 1.0, np.zeros(2, dtype=np.int64)), ["guest 1", "host 2"])


def test_a_round_that_the_cap_refuses_is_not_sent():
    def record(events, purpose):
        raise BudgetExceeded("another job took it")

    assert charge(SimpleNamespace(record=record), [], "a round") is False
