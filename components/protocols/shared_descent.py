"""Descent on shares over FATE's network: whose columns are where, everybody's keys, and the steps, around
`fate_dp.crypto.shared_descent`.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from fate_dp.crypto.descent_steps import (
    PreparedSteps,
    QuadraticShare,
    StepProducts,
    draw_masks,
    encrypt_masks,
    multiply_masks,
    open_answer,
)
from fate_dp.crypto.paillier import PrivateKey, PublicKey, generate_keypair
from fate_dp.crypto.shared_descent import (
    LOSS_DEVIATION,
    UNSHOWN_DEVIATION,
    DescentShare,
    SharedDescent,
    StepLosses,
    loss_part,
    passes,
)

from ..common.federation import Context, Document, data_parties, id_of
from ..common.preflight import Refusal, about_settings
from .optimizers import CONVERGED, EXHAUSTED, GOES_ON, refuse_divergence
from .score_counts import NOT_SHOWN, CountedLosses
from .training_terms import TrainingTerms

Result = TypeVar("Result")
Party = Any  # FATE's object of another party: put, get, role, party
Messages = Sequence[Sequence]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class JointColumns:
    """Which coordinates of the joint weight vector belong to which data party, the guest first.

    ``counts`` are the columns of each, the guest's with the intercept; ``own`` is the position of this process's party.
    """

    names: tuple[tuple[str, str], ...]
    counts: tuple[int, ...]
    own: int

    @classmethod
    def of(cls, ctx: Context, counts: Iterable[int]) -> "JointColumns":
        names = tuple((role, party) for role, party in data_parties(ctx))
        return cls(names, tuple(counts), names.index(tuple(ctx.federation.local_party)))

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def is_guest(self) -> bool:
        return self.own == 0

    def slice_of(self, position: int) -> slice:
        ends = list(accumulate(self.counts))
        return slice(ends[position] - self.counts[position], ends[position])

    @property
    def own_slice(self) -> slice:
        return self.slice_of(self.own)

    def peers(self, ctx: Context) -> dict[int, Party]:
        """The other data parties as FATE's objects of this context, by position."""
        places = {name: position for position, name in enumerate(self.names) if position != self.own}
        return {places[id_of(party)]: party for party in ctx.parties if id_of(party) in places}


@dataclass(frozen=True)
class Keys:
    """This party's secret key, and the other data parties' public keys by position."""

    private: PrivateKey
    peers: dict[int, PublicKey]

    @property
    def public(self) -> PublicKey:
        return self.private.public_key

    @property
    def fingerprint(self) -> str:
        """Of all data parties' keys: whoever replaced one on its way made two parties see different ones."""
        moduli = sorted([self.public.n, *(key.n for key in self.peers.values())])
        return hashlib.sha256(" ".join(map(str, moduli)).encode()).hexdigest()[:32]


def exchange_keys(ctx: Context, columns: JointColumns, key_length: int) -> Keys:
    """Make a key pair of one training, and swap public keys with the other data parties."""
    _, private_key = generate_keypair(key_length)
    peers = columns.peers(ctx)
    for party in peers.values():
        party.put("public_key", private_key.to_wire())
    with about_settings():
        received = {position: PublicKey.from_wire(party.get("public_key")) for position, party in peers.items()}
    for position, key in received.items():
        if key.key_length != key_length:
            raise Refusal(
                f"{peers[position].name} sent a key of {key.key_length} bits; he_param.key_length is {key_length}."
            )
    return Keys(private_key, received)


class LossConsent:
    """Whether the guest of one training sees its losses: where every host consents, each of which counts them then.

    Every data party makes one, then calls `answer`, then `agreed`; messages of other kinds travel meanwhile.
    """

    def __init__(self, ctx: Context, columns: JointColumns, losses: int, own: CountedLosses | None = None) -> None:
        """``losses`` are all that may be shown; ``own`` is None at the guest, and at a host whose noise protects its records."""
        self._peers, self._is_guest, self._losses, self._own = columns.peers(ctx), columns.is_guest, losses, own
        self._agreed = own is None or own.allows(losses)
        if not self._is_guest:
            self._peers[GUEST].put("consent", self._agreed)

    def answer(self) -> None:
        if self._is_guest:
            consents = [host.get("consent") for host in self._peers.values()]
            self._agreed = all(consents)
            for host in self._peers.values():
                host.put("all_consent", self._agreed)

    def agreed(self) -> bool:
        """Where losses are shown, a host has counted them before."""
        if not self._is_guest:
            self._agreed = self._peers[GUEST].get("all_consent") and self._agreed
            if self._agreed and self._own is not None:
                self._own.count(self._losses)
        elif not self._agreed:
            logger.warning("losses are %s", NOT_SHOWN)
        return self._agreed


@dataclass(frozen=True)
class Start:
    """Where a descent begins at one party.

    ``weights`` are float64 (m,) of this party's columns, and ``states`` as of `SharedDescent`, of every model; the step
    size of every epoch is one of the ``learning_rates``.
    """

    weights: Sequence[np.ndarray]
    learning_rates: Sequence[float]
    states: Sequence[Document | None] | None = None


# From a step to the guest's decision on it
#
# The message with the hidden weights of a step also says what is to say of earlier ones: the hidden losses of the steps
# that finished last, a host's share of the losses of those before, the guest's decision on those before them. So a step waits
# for one message, where each on its own would take four; and the guest's decision on some steps comes when up to two more have
# run. Where the bounds allow no such steps (`TrainingTerms.pace`), or where other messages follow, the three are sent one
# after the other (`SharedSteps._settle`).

_MESSAGES_TO_WORD = 3
"""Hidden losses, shares of losses, the guest's decision."""
GUEST = 0
"""Its position among the data parties."""


@dataclass(frozen=True)
class Decision:
    """What the guest says after an epoch: GOES_ON, or why training ends with it."""

    epoch: int
    state: str

    @property
    def ends(self) -> bool:
        return self.state != GOES_ON


@dataclass(repr=False)
class CheckedSteps:
    """Steps of one epoch whose losses the guest looks at together, on their way to its decision, which is its ``state``.

    ``losses`` and ``shares`` are this party's part of their losses, and its share of the weights after them, of every
    model.
    """

    ctx: Context
    epoch: int
    batches: Sequence[int]
    last: bool
    losses: Sequence[StepLosses]
    shares: Sequence[DescentShare]
    peers_masked_losses: Messages = ()
    state: str | None = None


Judge = Callable[[CheckedSteps, list[float]], str]
"""The guest's decision on some steps, from every model's mean loss over their rows without its constant, penalty included."""


class SharedSteps:
    """One data party's shares of one descent, or of one for each of several models that step together.

    Every data party calls the same methods in the same order. Where a message speaks of several models, what it says of
    them stands one behind the other. Every model of every batch has masks and prepared steps of its own.
    """

    def __init__(
        self,
        columns: JointColumns,
        keys: Keys,
        shares: list[QuadraticShare],
        terms: TrainingTerms,
        start: Start,
        shows_losses: bool,
    ) -> None:
        """``shares`` are this party's, of every batch, there of every model; ``shows_losses`` is what `LossConsent` says."""
        self._columns, self._keys, self._shares, self._terms = columns, keys, shares, terms
        self._layout, rule = terms.step_layout(keys.public), terms.update_rule(start.learning_rates)
        self._descents = [
            SharedDescent(weights, columns.own_slice, self._layout, rule, terms.penalties, columns.is_guest, state)
            for weights, state in zip(start.weights, start.states or [None] * len(start.weights), strict=True)
        ]
        self._prepared: list[PreparedSteps] = []
        self._pace = terms.pace(start.learning_rates)
        # Steps whose losses nobody hid yet, whose losses are hidden, and whose losses the guest has looked at.
        self._finished: CheckedSteps | None = None
        self._hidden: CheckedSteps | None = None
        self._opened: CheckedSteps | None = None
        self.shows_losses = shows_losses

    def _prepare(self, ctx: Context, epoch: int) -> None:
        """Make masks and their products for as many epochs as fit into the messages, if none are left."""
        if self._prepared and self._prepared[0].left:
            return
        layout, peers = self._layout.at_most(self._terms.descent.epochs - epoch), self._columns.peers(ctx)
        masks = [draw_masks(layout) for _ in self._shares]
        encryption, expected = self._keys.private.encryption(), 2 * self._columns.total * len(self._shares)
        for party in peers.values():
            party.put("masks", [encrypt_masks(of_batch, layout, encryption, expected) for of_batch in masks])

        def answers() -> dict[int, list[tuple]]:
            return {
                position: [
                    multiply_masks(self._shares[at], masks[at], received, layout, self._keys.peers[position])
                    for at, received in enumerate(party.get("masks"))
                ]
                for position, party in peers.items()
            }

        def shares() -> list[list[StepProducts]]:
            own_key = self._keys.private
            return [[open_answer(each, layout, own_key) for each in party.get("products")] for party in peers.values()]

        multiplied = self._settled(ctx, "masks", answers)
        for position, party in peers.items():
            party.put("products", [answer for answer, _ in multiplied[position]])
        opened = self._settled(ctx, "products", shares)
        exchanged = zip(*([own for _, own in made] for made in multiplied.values()), *opened)
        self._prepared = [
            PreparedSteps(share, of_batch, list(of_all), layout)
            for share, of_batch, of_all in zip(self._shares, masks, exchanged)
        ]

    def run_epoch(self, ctx: Context, epoch: int, judge: Judge | None = None) -> list[Decision]:
        """One step for every batch; the guest's decisions that arrived meanwhile, of this epoch or of earlier ones.

        A decision other than GOES_ON is the last one. Then this party's shares are those after the epoch that it is about.
        ValueError where it is that training diverged.
        """
        decisions: list[Decision] = []
        self._prepare(ctx.sub_ctx("prepare"), epoch)
        groups = self._groups()
        for group_ctx, batches in ctx.on_batches.ctxs_zip(groups):
            for step_ctx, batch in group_ctx.sub_ctx("steps").ctxs_zip(batches):
                decisions += self._step(step_ctx, batch, epoch, judge)
                if _end(decisions):
                    return decisions
            losses = [descent.take_losses() for descent in self._descents]
            shares = [descent.share for descent in self._descents]
            self._finished = CheckedSteps(ctx, epoch, batches, batches is groups[-1], losses, shares)
            if not self._pace.lags or self._is_settled_after(epoch) and self._finished.last:
                decisions += self._settle(group_ctx.sub_ctx("settle"), judge)
                if _end(decisions):
                    return decisions
        return decisions

    def passes(self, loss: float) -> bool:
        """Whether a loss that a `Judge` got, its constant added, is one that a training within its bounds can have."""
        return passes(loss, self._terms.bounds)

    def _groups(self) -> list[list[int]]:
        """The batches of an epoch in groups, of whose losses the guest gets one mean each."""
        numbers, size = list(range(len(self._terms.batches))), self._pace.together
        return [numbers[first : first + size] for first in range(0, len(numbers), size)]

    def _is_settled_after(self, epoch: int) -> bool:
        """Whether no decision is missing after the epoch: where other messages follow than those of the next step."""
        ends = epoch + 1 == self._terms.descent.epochs or epoch + 1 in self._terms.score_epochs
        return ends or not self._prepared[0].left

    def _settle(self, ctx: Context, judge: Judge | None) -> list[Decision]:
        decisions: list[Decision] = []
        for message_ctx, _ in ctx.ctxs_zip(range(_MESSAGES_TO_WORD)):
            _, said = self._exchange(message_ctx, None, judge)
            decisions += said
            if _end(decisions):
                break
        return decisions

    def _exchange(
        self, ctx: Context, weights: list[int] | None, judge: Judge | None
    ) -> tuple[Messages, list[Decision]]:
        """One message each way between every two data parties that have something to say.

        ``weights`` are the hidden ones of a step, None without one; returned are the others', and what the guest decided.
        """
        finished, hidden, opened = self._finished, self._hidden, self._opened
        own_decision = opened.state if opened else None
        # Nobody reads what a message says beside a decision that ends training.
        goes_on = own_decision in (None, GOES_ON)
        losses = [factors for of_model in finished.losses for factors in of_model.hidden()] if finished else []
        to_all = weights is not None or finished is not None
        is_guest, peers = self._columns.is_guest, self._columns.peers(ctx)
        for position, party in peers.items():
            to_guest = hidden is not None and position == GUEST
            if to_all or to_guest or own_decision is not None:
                message = {
                    "hidden_weights": weights if weights and goes_on else [],
                    "hidden_losses": losses if goes_on else [],
                    "loss_shares": self._loss_shares(hidden) if hidden and to_guest else [],
                    "training_state": own_decision,
                }
                party.put("step", message)
        received = {
            position: party.get("step")
            for position, party in peers.items()
            if to_all or hidden and is_guest or opened and position == GUEST
        }
        decisions: list[Decision] = []
        if opened:
            decisions = self._take_decision(opened, own_decision if is_guest else received[GUEST]["training_state"])
            if _end(decisions):
                return [], decisions
        if hidden and judge:
            hidden.state = judge(hidden, self._means(hidden, [message["loss_shares"] for message in received.values()]))
        if finished:
            finished.peers_masked_losses = [message["hidden_losses"] for message in received.values()]
        self._finished, self._hidden, self._opened = None, finished, hidden
        return [message["hidden_weights"] for message in received.values()], decisions

    def _take_decision(self, steps: CheckedSteps, state: str | None) -> list[Decision]:
        """The guest's decision on some steps: go back to them if training ends there."""
        if state == GOES_ON:
            return [Decision(steps.epoch, state)] if steps.last else []
        refuse_divergence(state)
        if state not in (CONVERGED, EXHAUSTED):
            raise Refusal(
                f"The guest's decision on epoch {steps.epoch + 1} must be one that this version knows, got {state!r}."
            )
        for descent, share in zip(self._descents, steps.shares):
            descent.go_back(share)
        return [Decision(steps.epoch, state)]

    def _loss_shares(self, steps: CheckedSteps) -> list[int]:
        """At a host: its share of the losses, for every model added up and hidden, for the guest.

        What hides them is fresh each time: the guest chooses its data, so that no label could hold all that losses depend on.
        """
        rows, hosts = self._rows_of(steps.batches), len(self._columns.counts) - 1
        deviation = LOSS_DEVIATION if self.shows_losses else UNSHOWN_DEVIATION / hosts
        return [
            losses.share(hidden, rows, loss_part(deviation, sum(rows)))
            for losses, hidden in zip(steps.losses, self._of_each_model(steps.peers_masked_losses))
        ]

    def _means(self, steps: CheckedSteps, shares_of_others: Messages) -> list[float]:
        """At the guest: every model's mean loss over the rows of these steps without its constant, penalty included."""
        rows, hidden = self._rows_of(steps.batches), self._of_each_model(steps.peers_masked_losses)
        return [
            losses.open(of_model, [share for (share,) in of_hosts], rows)
            for losses, of_model, of_hosts in zip(steps.losses, hidden, self._of_each_model(shares_of_others))
        ]

    def _rows_of(self, batches: Sequence[int]) -> list[int]:
        return [last - first for first, last in (self._terms.batches[batch] for batch in batches)]

    def _settled(self, ctx: Context, stage: str, work: Callable[[], Result]) -> Result:
        """What ``work()`` does with messages of the others. A sub-class may have all parties wait for its success."""
        return work()

    def _step(self, ctx: Context, batch: int, epoch: int, judge: Judge | None) -> list[Decision]:
        models = len(self._descents)
        of_batch = slice(batch * models, (batch + 1) * models)
        steps = [prepared.take() for prepared in self._prepared[of_batch]]
        own = [number for descent, step in zip(self._descents, steps) for number in descent.hidden_weights(step)]
        peers_masked_losses, decisions = self._exchange(ctx, own, judge)
        if _end(decisions):
            return decisions
        hidden, heads = self._of_each_model(peers_masked_losses), []
        for descent, share, step, of_model in zip(self._descents, self._shares[of_batch], steps, hidden):
            heads.extend(descent.receive(share, step, of_model))
        heads_of_others: list = []
        if heads and self._columns.is_guest:
            heads_of_others = [party.get("leading_bits") for party in self._columns.peers(ctx).values()]
        elif heads:
            self._columns.peers(ctx)[0].put("leading_bits", heads)
        for descent, of_model in zip(self._descents, self._of_each_model(heads_of_others)):
            descent.move(epoch, of_model)
        return decisions

    def _of_each_model(self, messages: Messages) -> list[list[Sequence]]:
        """For every model, the part of every message that speaks of it."""
        models = len(self._descents)
        if any(len(message) % models for message in messages):
            raise Refusal(f"A message does not say the same of each of {models} models, as all parties' must.")
        sizes = [len(message) // models for message in messages]
        return [
            [message[at * size : (at + 1) * size] for message, size in zip(messages, sizes)] for at in range(models)
        ]


def _end(decisions: Sequence[Decision]) -> bool:
    return any(decision.ends for decision in decisions)
