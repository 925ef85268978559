"""Games on mechanisms: many canaries whose coins choose between two neighbouring inputs, each beside a control.

Runs of a mechanism that share nothing are one run on disjoint units: each is a canary, its coin decides which of two
neighbouring inputs the run gets, and no other run depends on it. So what holds for one run with many canaries
(`one_run`) holds for many runs, too, and both have one kind of certificate. Inputs are the ones that are hardest to keep
apart, as far as is known. The claim is the epsilon that the accountant gives for the event that the mechanism emits; the
control is the same without noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..accounting.gaussian import gaussian_sigma
from ..accounting.total import total_epsilon
from ..events import ADD_OR_REMOVE, REPLACE_ONE, Event, RandomizedResponse, Release, Unit
from ..labels import flips as label_flips
from ..mechanisms import aggregates, clipping, gaussian, laplace
from ..noise.stream import Rng, bernoulli, open_stream
from ..validation import DEFAULT_DELTA, one_of, whole
from .certificate import Certificate, Claim
from .one_run import GAUSSIAN, GUESSED_SHARE, PURE_OR_APPROXIMATE, OneRun

Array = NDArray[np.float64]
Coins = NDArray[np.int64]
MIN_CANARIES, MAX_CANARIES = 10, 5000
CLIP = 0.5
FAR = 1000.0
ROUNDS = 9
EPOCHS = 9
"""In how many epochs an observer sees flipped labels; an odd number."""
KEY_BYTES = 32
DELTA_OF_SLACK = 1e-12


@dataclass(frozen=True)
class Played:
    """What a game showed: scores, those without noise, and the event and number of what was released to one canary."""

    scores: Array
    control: Array
    event: Event
    count: int = 1


Play = Callable[[Coins, float, float, Rng], Played]
"""Of the coins (+1 or -1 per canary), epsilon, delta and the stream of all noise."""


@dataclass(frozen=True)
class Game:
    """How a mechanism is audited: ``play`` makes the runs, ``kind`` is that of `certificate.Claim`.

    A ``share`` of all canaries is guessed on either side; None where all are, by the sign of their scores. The claim is
    stated at ``delta``, almost 0 for mechanisms that are pure but for the slack of their sampler; None where the caller
    says.
    """

    play: Play
    kind: str = PURE_OR_APPROXIMATE
    share: float | None = 0.3
    delta: float | None = DELTA_OF_SLACK

    def run_of(self, coins: Coins, scores: Array) -> OneRun:
        if self.share is None:
            return OneRun(coins, np.where(scores > 0, 1, -1))
        return OneRun.of_scores(coins, scores, self.share)


def gaussian_sum(coins: Coins, epsilon: float, delta: float, rng: Rng) -> Played:
    """Several noisy sums: each canary is a record with a direction of its own, far beyond the clip, present by its coin."""
    clipped = clipping.clip_records(FAR * np.eye(len(coins))[coins == 1], CLIP)
    multiplier = gaussian_sigma(epsilon, delta, math.sqrt(ROUNDS))
    releases = [
        gaussian.gaussian_mechanism(clipped, multiplier, relation=ADD_OR_REMOVE, observers="server", rng=rng)
        for _ in range(ROUNDS)
    ]
    seen = np.sum([release.value for release in releases], axis=0)
    return Played(seen, ROUNDS * clipped.value, releases[0].event, ROUNDS)


def memoised_flips(coins: Coins, epsilon: float, delta: float, rng: Rng) -> Played:
    """One run on many labels, which are the coins; whoever sees them in several epochs takes the majority."""
    key = open_stream(rng).words(KEY_BYTES // 8).tobytes()
    match_ids = [f"canary-{place}" for place in range(len(coins))]
    labels = (coins + 1) // 2
    seen = np.zeros(len(coins))
    for _ in range(EPOCHS):
        seen += label_flips.flip_labels(match_ids, labels, epsilon, 2, key, "audit/canaries/y")
    event = Event(RandomizedResponse(epsilon), Unit.LABEL, REPLACE_ONE, ("host",))
    return Played(seen - EPOCHS / 2, labels - 0.5, event)


def in_runs(release: Callable[..., Release], inputs_of: Callable[[Coins], NDArray[Any]]) -> Play:
    """A run for each canary, on one of two neighbouring inputs."""

    def play(coins: Coins, epsilon: float, delta: float, rng: Rng) -> Played:
        inputs = inputs_of(coins)
        released = [release(value, epsilon=epsilon, observers="server", rng=rng) for value in inputs.tolist()]
        scores = np.array([float(each.value) for each in released])
        return Played(scores, inputs.astype(float), released[0].event)

    return play


def mean_with_four(value: float, **asked: Any) -> Release:
    """The mean of five values, of which one may lie far outside the range."""
    return aggregates.private_mean([0.5] * 4 + [value], 0.0, 1.0, **asked)


# Two numbers as far apart as the sensitivity, and two counts that differ by 1.
NUMBERS = partial(laplace.laplace_mechanism, sensitivity=1.0, relation=REPLACE_ONE)
COUNTS = partial(laplace.geometric_mechanism, sensitivity=1, relation=REPLACE_ONE)

GAMES = {
    "gaussian_mechanism": Game(gaussian_sum, GAUSSIAN, GUESSED_SHARE, None),
    "laplace_mechanism": Game(in_runs(NUMBERS, lambda coins: (coins + 1) / 2)),
    "geometric_mechanism": Game(in_runs(COUNTS, lambda coins: 7 + (coins + 1) // 2)),
    "private_mean": Game(in_runs(mean_with_four, lambda coins: FAR * coins)),
    "flip_labels": Game(memoised_flips, share=None, delta=0.0),
}
"""By the name of the mechanism."""


def fair_coins(canaries: int, rng: Rng = None) -> Coins:
    """+1 or -1 per canary, each by a fair coin."""
    count = whole("canaries", canaries, MIN_CANARIES, MAX_CANARIES)
    return np.where(bernoulli(0.5, count, rng), 1, -1).astype(np.int64)


def audit_mechanism(
    name: str,
    epsilon: float = 4.0,
    delta: float = DEFAULT_DELTA,
    canaries: int = 1000,
    confidence: float = 0.95,
    rng: Rng = None,
) -> Certificate:
    """Audit one of ``GAMES`` at an epsilon (nats): one-run bounds, and a control without noise.

    ``delta`` is of the Gaussian mechanism alone. ``rng`` gives coins and noise; with a reproducible stream the claim is
    still that of the same release on real entropy, so that tests and figures repeat.
    """
    game = GAMES[one_of("mechanism", name, GAMES)]
    stream = open_stream(rng)
    coins, at = fair_coins(canaries, stream), delta if game.delta is None else game.delta
    played = game.play(coins, epsilon, delta, stream)
    repeated = np.array_equal(played.scores, game.play(coins, epsilon, delta, stream).scores)
    event = played.event if stream.private else game.play(coins[:2], epsilon, delta, None).event
    claimed = total_epsilon([(event, played.count)], at)
    claim = Claim(
        f"mechanism {name} at epsilon {epsilon:g}",
        claimed,
        at,
        str(event.unit),
        str(event.relation),
        tuple(map(str, event.observers)),
        game.kind,
    )
    audited, control = (game.run_of(coins, seen).evidence for seen in (played.scores, played.control))
    return Certificate(claim, confidence, audited, control, repeated=repeated)
