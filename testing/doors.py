"""Recorders at the doors of a party: samplers, keyed streams, the ledger, messages, files, the log.

No component knows of them. They are set up around a play and taken away after it; within, a call that a party makes is
recorded, and one that nobody's party makes passes.
"""

import hashlib
import hmac
import inspect
import logging
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, cast
from unittest import mock

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from fate.arch.computing.api import KVTable
from nacl import bindings

from fate_dp.components.common.federation import PartyId
from fate_dp.components.common.wire.channel import Channel
from fate_dp.privacy.ledger.ledger import Ledger
from fate_dp.privacy.noise.discrete import SymmetricLaw
from fate_dp.privacy.noise.stream import KeyedStream, Stream

from .timeline import Charge, Draw, Event, FileWritten, LogLine, Message, Output, Sentence, StreamOpened, Timeline

SAMPLERS = {
    "privacy.mechanisms.exponential.exponential_mechanism": ("scores",),
    "privacy.mechanisms.randomized_response.flip_indices": ("indices",),
    "privacy.mechanisms.randomized_response.coins": ("probabilities",),
    "privacy.mechanisms.local_numbers.piecewise_mechanism": ("values",),
    "privacy.mechanisms.local_numbers.duchi_l2": ("vectors",),
    "privacy.mechanisms.sampling.poisson_sample": (),
    "privacy.mechanisms.sampling.random_permutation": (),
    "privacy.mechanisms.dummy_count.draw_dummy_count": (),
    "privacy.labels.flips.flip_labels": ("label_indices", "match_ids", "key"),
    "privacy.labels.flips.noisy_numbers": ("labels", "match_ids", "key"),
    "privacy.noise.stream.bernoulli": (),
    "privacy.noise.stream.bernoulli_of_fraction": (),
    "privacy.noise.stream.uniform_below": (),
    "privacy.noise.stream.uniform_integer_below": (),
    "crypto.shared_descent.loss_part": (),
}
"""Functions that draw, with their private arguments; below them, `SymmetricLaw.sample`."""
CHARGES = tuple(name for name in dir(Ledger) if name.startswith("record"))
"""Methods of `Ledger` that write what was spent."""


class Killed(BaseException):
    """The party's process ended here."""


@dataclass(eq=False)
class Doors:
    """One play's recorders.

    Args:
        secret: what all randomness of the play follows from, so that it can be repeated; None for true entropy.
        meddle: the value that is sent in place of a message's; None for its own.
        redraw: the result in place of a draw's; None for its own.
        kill: whether the party ends right after an event.
    """

    timeline: Timeline
    secret: bytes | None = b"play"
    meddle: Callable[[Message], Any] | None = None
    redraw: Callable[[Draw], Any] | None = None
    kill: Callable[[Event], bool] | None = None
    _here: threading.local = field(default_factory=threading.local)
    _asked: dict[tuple, int] = field(default_factory=dict)

    @contextmanager
    def of(self, party: PartyId) -> Iterator[None]:
        """What this thread does is the party's."""
        self._here.party, self._here.depth = party, 0
        try:
            yield
        finally:
            self._here.party = None

    @contextmanager
    def set_up(self) -> Iterator[None]:
        """Record what parties do within."""
        with ExitStack() as stack:
            patch = lambda owner, name, made: stack.enter_context(mock.patch.object(owner, name, made))  # noqa: E731
            stack.enter_context(replaced_everywhere(dict(self._samplers())))
            patch(SymmetricLaw, "sample", self._law(SymmetricLaw.sample))
            for name in CHARGES:
                patch(Ledger, name, self._charge(name, getattr(Ledger, name)))
            patch(Channel, "send", self._send(Channel.send))
            patch(Channel, "stop", self._stop(Channel.stop))
            patch(KeyedStream, "__init__", self._keyed(KeyedStream.__init__))
            patch(hmac, "digest", self._stream(hmac.digest, lambda key, message, *_: (key, message)))
            patch(hashlib, "shake_256", self._stream(hashlib.shake_256, lambda data=b"": (b"", data)))
            if self.secret is not None:
                patch(os, "urandom", self._entropy(os.urandom))
                patch(random, "_urandom", os.urandom)
                # These libraries ask the operating system by themselves.
                seeded = {
                    bindings.crypto_box_keypair: lambda: bindings.crypto_box_seed_keypair(os.urandom(32)),
                    X25519PrivateKey: _keys_of_entropy(),
                }
                stack.enter_context(replaced_everywhere(seeded))
            stack.enter_context(self._log())
            stack.enter_context(self._files())
            _open_doors.append(self)
            stack.callback(_open_doors.remove, self)
            yield

    @property
    def party(self) -> PartyId | None:
        return getattr(self._here, "party", None)

    def _add(self, kind: type, *of_event: Any, **more: Any) -> Any:
        event = kind(len(self.timeline.events), self.party, *of_event, **more)
        self.timeline.events.append(event)
        if self.kill is not None and self.kill(event):
            raise Killed(f"after {event}")
        return event

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        party, self._here.party = self.party, None
        try:
            yield
        finally:
            self._here.party = party

    def _samplers(self) -> Iterator[tuple[Any, Any]]:
        for path, private in SAMPLERS.items():
            module, name = f"fate_dp.{path}".rsplit(".", 1)
            original = getattr(import_module(module), name)
            yield original, self._sampler(original, name, private)

    def _sampler(self, original: Callable, name: str, private: tuple[str, ...]) -> Callable:
        signature = inspect.signature(original)

        def sampled(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            rng = given.pop("rng", given.pop("stream", None))
            secret = tuple(given.pop(each) for each in private if each in given)
            return self._drawn(name, given, secret, rng, lambda: original(*args, **kwargs))

        return sampled

    def _law(self, original: Callable) -> Callable:
        def sample(law: Any, size: Any, rng: Any) -> Any:
            name = {"_DiscreteGaussian": "discrete_gaussian", "_DiscreteLaplace": "discrete_laplace"}[
                type(law).__name__
            ]
            return self._drawn(name, {"scale": law._scale}, (), rng, lambda: original(law, size, rng))

        return sample

    def _drawn(self, name: str, terms: Mapping, private: tuple, rng: Any, draw: Callable[[], Any]) -> Any:
        if self.party is None or self._here.depth:
            return draw()
        self._here.depth += 1
        try:
            result = draw()
        finally:
            self._here.depth -= 1
        label = getattr(rng, "label_for_tests", None) if isinstance(rng, Stream) else None
        size = int(np.size(getattr(result, "value", result)))
        event = self._add(Draw, name, dict(terms), private, size, label, result)
        changed = None if self.redraw is None else self.redraw(event)
        return result if changed is None else changed

    def _charge(self, name: str, original: Callable) -> Callable:
        def charged(ledger: Any, *given: Any, **terms: Any) -> Any:
            if self.party is None:
                return original(ledger, *given, **terms)
            terms = {
                key: list(each) if key == "rows" and not isinstance(each, int) else each for key, each in terms.items()
            }
            with self._quietly():
                result = original(ledger, *given, **terms)
            steps = [("record", {**vars(step), "cap": cap}) for step, cap in given[0]] if given else [(name, terms)]
            for line in steps:
                self._add(Charge, *line)
            return result

        return charged

    def _send(self, original: Callable) -> Callable:
        def send(channel: Any, parties: Any, namespace: str, name: str, value: Any) -> None:
            for receiver in [tuple(party)[:2] for party in parties]:
                sent, before = value, channel._federation.pushed
                kept = sorted(value.collect(), key=repr) if isinstance(value, KVTable) else value
                if self.meddle is not None:
                    message = Message(
                        len(self.timeline.events), cast(PartyId, self.party), receiver, namespace, name, kept, 0
                    )
                    changed = self.meddle(message)
                    sent = value if changed is None else changed
                with self._quietly():
                    original(channel, [receiver], namespace, name, sent)
                self._add(Message, receiver, namespace, name, kept, channel._federation.pushed - before)

        return send

    def _stop(self, original: Callable) -> Callable:
        def stop(channel: Any, error: Exception) -> str:
            sentence = original(channel, error)
            self._add(Sentence, sentence)
            return sentence

        return stop

    def _keyed(self, original: Callable) -> Callable:
        def keyed(stream: Any, key: bytes, label: str) -> None:
            original(stream, key, label)
            stream.label_for_tests = label

        return keyed

    def _stream(self, original: Callable, parts: Callable) -> Callable:
        def opened(*args: Any, **kwargs: Any) -> Any:
            if self.party is not None:
                key, label = parts(*args)
                self._add(StreamOpened, hashlib.sha256(bytes(key)).hexdigest()[:16], bytes(label))
            return original(*args, **kwargs)

        return opened

    def _entropy(self, original: Callable[[int], bytes]) -> Callable[[int], bytes]:
        def entropy(count: int) -> bytes:
            party = self.party
            if party is None:
                return original(count)
            # By place, since some things are drawn once in a process: later plays must not differ from the first.
            place = (party, _caller())
            number = self._asked[place] = self._asked.get(place, 0) + 1
            seed = repr((self.secret, place, number)).encode()
            if count > 64:
                return hashlib.new("shake_256", seed).digest(count)  # type: ignore[call-arg]
            return hashlib.sha3_512(seed).digest()[:count]

        return entropy

    @contextmanager
    def _log(self) -> Iterator[None]:
        doors = self

        class Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                if doors.party is not None and record.name.startswith("fate_dp"):
                    doors._add(LogLine, record.levelname, record.getMessage())

        handler, ours = Handler(), logging.getLogger("fate_dp")
        level = ours.level
        ours.addHandler(handler)
        ours.setLevel(logging.INFO)
        try:
            yield
        finally:
            ours.setLevel(level)
            ours.removeHandler(handler)

    @contextmanager
    def _files(self) -> Iterator[None]:
        _hear_of_files()
        _file_listeners.append(self._hear)
        try:
            yield
        finally:
            _file_listeners.remove(self._hear)

    def _hear(self, path: Any) -> None:
        if self.party is not None and isinstance(path, (str, bytes, os.PathLike)):
            self._add(FileWritten, os.fsdecode(path))


def _caller() -> str:
    """The function of ours that asks."""
    frame = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("fate_dp.") and not module.startswith("fate_dp.testing"):
            return f"{module}.{frame.f_code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]
    return "others"


def _keys_of_entropy() -> Any:
    """Makes private keys of what the play's parties draw; a new object each time, so that it stands in no module itself."""
    original = X25519PrivateKey
    generate = staticmethod(lambda: original.from_private_bytes(os.urandom(32)))
    return type("Keys", (), {"from_private_bytes": original.from_private_bytes, "generate": generate})


@contextmanager
def replaced_everywhere(made: Mapping[Any, Any]) -> Iterator[None]:
    """Functions replaced in every module of ours that has imported them."""
    _replace(made)
    try:
        yield
    finally:
        _replace({new: old for old, new in made.items()})


# Of the libraries, where modules that are loaded in the middle of a play find a name.
WHERE_NAMES_ARE = ("fate_dp", "tests", "nacl.bindings", X25519PrivateKey.__module__)


def _replace(made: Mapping[Any, Any]) -> None:
    # Not by `id`, of which Python tells every audit hook: that took a quarter of a play's time.
    kinds = tuple({type(old) for old in made})
    for name, module in list(sys.modules.items()):
        if name.startswith(WHERE_NAMES_ARE) and module is not None:
            for attribute, value in list(vars(module).items()):
                if type(value) in kinds and value in made:
                    setattr(module, attribute, made[value])


_open_doors: list[Doors] = []


def open_doors() -> list[Doors]:
    """The recorders of the plays that go on."""
    return list(_open_doors)


def note_output(name: str, value: Any) -> None:
    """A party wrote this; recorded where somebody records."""
    for doors in _open_doors:
        if doors.party is not None:
            doors._add(Output, name, value)


_file_listeners: list[Callable[[Any], None]] = []
WRITES = {"open": 0, "os.rename": 1, "sqlite3.connect": 0}  # where the path stands in what Python tells


def _hear_of_files() -> None:
    """Python never takes an audit hook away, so there is one for all plays."""
    if getattr(_hear_of_files, "done", False):
        return
    _hear_of_files.done = True  # type: ignore[attr-defined]

    def hook(event: str, args: tuple) -> None:
        if event in WRITES and (event != "open" or args[2] & (os.O_WRONLY | os.O_RDWR)):
            for listener in list(_file_listeners):
                listener(args[WRITES[event]])

    sys.addaudithook(hook)
