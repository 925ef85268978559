"""What a party is charged for the rounds that it sends in, and what the shuffler lets through."""
import os
from types import SimpleNamespace

import pytest

from fate_dp.components.dp_homo_nn.charged_rounds import ChargedRounds
from fate_dp.components.dp_homo_nn.delivery import SHUFFLED, MaskingSide, Relay
from fate_dp.components.dp_homo_nn.preflight_checks import Federation
from fate_dp.components.dp_homo_nn.rounds.schedule import senders
from fate_dp.components.dp_homo_nn.rounds.terms import RoundTerms
from fate_dp.privacy.accounting.secure_sum import TooFewArrived
from fate_dp.privacy.events import REPLACE_ONE

SETTINGS = SimpleNamespace(stated_relation=REPLACE_ONE, noise="uniform")
SHUFFLE = RoundTerms(
    trust="shuffle", unit="record", clients=3, tolerated=1, rounds=12, batch_size=30, records=120, clips=1.0, dimension=2,
    delta=1e-5, epsilon0=1.0,
)  # fmt: skip
SUM = RoundTerms(
    trust="secure_sum", unit="record", clients=3, tolerated=1, rounds=12, batch_size=30, records=120, clips=1.0,
    dimension=2, delta=1e-5, noise_multiplier=1.0,
)  # fmt: skip
DATA = (("guest", "1"), ("host", "2"), ("host", "3"))
FEDERATION = Federation(data=DATA, server=("arbiter", "5"), shuffler=("host", "4"))


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


class Party:
    def __init__(self, message=None):
        self.message, self.received = message, {}

    def get(self, name):
        return self.message

    def put(self, name, value):
        self.received[name] = value


def relayed(monkeypatch, change):
    """Number of messages that the shuffler passes on when each party's are changed by ``change(party, number)``."""
    relay = Relay(FEDERATION, SHUFFLE, "none")
    scheduled = {party: len(senders(SHUFFLE, at, 0)) for at, party in enumerate(DATA)}
    parties = {party: Party(os.urandom(relay._size * change(party, number))) for party, number in scheduled.items()}
    parties[FEDERATION.server] = Party()
    monkeypatch.setattr("fate_dp.components.dp_homo_nn.delivery.party_of", lambda ctx, party: parties[party])
    relay.relay(None, FEDERATION.names, 0)
    return len(parties[FEDERATION.server].received[SHUFFLED]) // relay._size, sum(scheduled.values())


def test_the_shuffler_passes_on_what_the_schedule_says(monkeypatch):
    passed, scheduled = relayed(monkeypatch, lambda party, number: number)
    assert passed == scheduled


def test_surplus_messages_of_one_party_do_not_make_up_for_those_of_another(monkeypatch):
    changes = {DATA[0]: lambda number: 3 * number, DATA[1]: lambda number: 0}
    passed, _ = relayed(monkeypatch, lambda party, number: changes.get(party, lambda same: same)(number))
    assert passed == 0


def test_a_party_masks_nothing_for_a_set_that_is_too_small():
    side = MaskingSide.__new__(MaskingSide)
    side.terms = SUM
    with pytest.raises(TooFewArrived, match="must be at least 3 of 3"):
        side._encoded(None, ["guest 1", "host 2"])
