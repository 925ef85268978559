"""A certificate: what was claimed, what an audit found, and the counts from which anybody computes the verdict again.

A certificate stores counts and hashes, and derives bounds, verdict and reason from them; ``read`` derives them anew and
refuses a file in which they read otherwise. The verdict is one of

- ``void``: nothing could be measured, or the control without privacy was not broken, so the attack was too weak to mean
  anything; the reason says which;
- ``refuted``: the lower bound exceeds the claim, at ``verdict_confidence``, or noise repeats itself;
- ``consistent``: neither. It does not say that the claim holds: a stronger attack may find more.

Epsilons in nats.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..events import OBSERVERS, RELATIONS, UNITS
from ..validation import InvalidArgument, check_delta_or_zero, check_epsilon_or_zero, one_of, strictly_within
from .one_run import CLAIMS, GAUSSIAN, PURE_OR_APPROXIMATE, BestBound, GuessEvidence, SumStatistic, best_bound

SCHEMA = 2
CONSISTENT, REFUTED, VOID = "consistent", "refuted", "void"
PACKAGES = ("fate-dp", "numpy", "scipy")
INFINITY = "infinity"
REPEATED = "A second run on the same input showed the very same numbers: whoever repeats it can subtract the noise."
VERDICT_CONFIDENCE = 1 - 1e-5
"""At which a claim is refuted: a sound mechanism is accused once in a hundred thousand audits."""
DELTAS_OF_CANARIES = 40


@dataclass(frozen=True)
class Claim:
    """The upper bound that is audited: ``subject`` says of what, in words; ``epsilon`` is in nats, infinite where
    nothing is claimed, ``delta`` 0 for pure privacy. ``kind`` is ``gaussian`` for unsampled sums with Gaussian
    noise, else ``epsilon_delta``."""

    subject: str
    epsilon: float
    delta: float
    unit: str
    relation: str
    observers: tuple[str, ...]
    kind: str = PURE_OR_APPROXIMATE

    def __post_init__(self) -> None:
        if not isinstance(self.subject, str) or not self.subject.strip():
            raise InvalidArgument.of("subject", self.subject, "a text that says what was audited")
        if self.epsilon != math.inf:
            check_epsilon_or_zero(self.epsilon)
        check_delta_or_zero(self.delta)
        one_of("unit", self.unit, UNITS)
        one_of("relation", self.relation, RELATIONS)
        one_of("kind", self.kind, CLAIMS)
        for name in self.observers:
            one_of("observers", name, OBSERVERS)


@dataclass(frozen=True)
class Certificate:
    """One audit, whole: nothing else is needed to compute its verdict.

    ``found`` is stated at ``confidence``. ``evidence`` is of the audited run, ``control`` of one without privacy; None
    where nothing could be measured, and ``blocker`` says why. A run is ``repeated`` if a second one on the same input
    showed the very same, noise included. ``versions`` are of the programs that measured, ``inputs`` SHA-256
    (hexadecimal) of the files that went in, by name.
    """

    claim: Claim
    confidence: float
    evidence: GuessEvidence | None = None
    control: GuessEvidence | None = None
    blocker: str = ""
    repeated: bool = False
    versions: Mapping[str, str] = field(default_factory=lambda: versions_here())
    inputs: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        strictly_within("confidence", self.confidence, 0, 1)
        measured = self.evidence is not None and self.control is not None
        if bool(self.blocker) == measured:
            raise InvalidArgument("A certificate must hold either evidence and a control, or a blocker.")

    @cached_property
    def found(self) -> BestBound | None:
        """The best lower bound on the audited run, at ``confidence``."""
        return self._bound(self.evidence, self.confidence)

    @property
    def verdict_confidence(self) -> float:
        """At which bounds hold that refute the claim or break the control; fixed by what is public before the run.

        A mechanism may fail altogether with probability delta for each canary, so guesses cannot refute it with a smaller
        error than some of canaries times delta, except where the noise is known to be Gaussian.
        """
        if self.evidence is None or self.claim.kind == GAUSSIAN:
            return VERDICT_CONFIDENCE
        error = DELTAS_OF_CANARIES * self.evidence.canaries * self.claim.delta
        return min(VERDICT_CONFIDENCE, max(self.confidence, 1 - error))

    @cached_property
    def refuting(self) -> BestBound | None:
        """The same at ``verdict_confidence``."""
        return self._bound(self.evidence, self.verdict_confidence)

    @cached_property
    def broken(self) -> BestBound | None:
        """The best lower bound on the control, at ``verdict_confidence``."""
        return self._bound(self.control, self.verdict_confidence)

    def _bound(self, evidence: GuessEvidence | None, confidence: float) -> BestBound | None:
        if evidence is None:
            return None
        return best_bound(evidence, self.claim.delta, confidence, self.claim.kind)

    @property
    def verdict(self) -> str:
        return self._judged[0]

    @property
    def reason(self) -> str:
        return self._judged[1]

    @cached_property
    def _judged(self) -> tuple[str, str]:
        if self.repeated:
            return REFUTED, REPEATED
        if self.evidence is None or self.found is None or self.refuting is None or self.broken is None:
            return VOID, self.blocker
        claimed, broken = self.claim.epsilon, self.broken.epsilon
        if math.isinf(claimed):
            return VOID, "Nothing is claimed: the epsilon of what was released is infinite, so no audit can refute it."
        if not broken > claimed:
            return VOID, (
                f"On the control without privacy the audit proves no more than {broken:.4g}, which does not exceed the claim "
                f"of {claimed:.4g}; it takes more canaries than {self.evidence.canaries}."
            )
        if self.refuting.epsilon > claimed:
            return REFUTED, (
                f"The audit proves an epsilon of at least {self.refuting.epsilon:.4g}, above the claim of {claimed:.4g}, and "
                f"errs with probability {1 - self.verdict_confidence:.2g} at most."
            )
        return CONSISTENT, (
            f"The audit does not refute the claim of {claimed:.4g}: it proves at least {self.found.epsilon:.4g} at confidence "
            f"{self.confidence:g}, and {broken:.4g} on the control without privacy; a stronger attack may find more."
        )

    def document(self) -> dict[str, Any]:
        """All of it as JSON's types, with what is derived."""
        stored, found, refuting, broken = asdict(self), self.found, self.refuting, self.broken
        stored["claim"]["observers"] = list(self.claim.observers)
        if math.isinf(self.claim.epsilon):
            stored["claim"]["epsilon"] = INFINITY
        return {
            "schema": SCHEMA,
            **stored,
            "lower_bound": found and found.epsilon,
            "method": found and found.method,
            "bounds": found.bounds if found else {},
            "verdict_confidence": self.verdict_confidence,
            "refuting_lower_bound": refuting and refuting.epsilon,
            "control_lower_bound": broken and broken.epsilon,
            "verdict": self.verdict,
            "reason": self.reason,
        }

    def to_json(self) -> str:
        return json.dumps(self.document(), indent=2, sort_keys=True) + "\n"


def read(text: str) -> Certificate:
    """The certificate that a file holds, its bounds and verdict computed again.

    Raises `InvalidArgument` where it is no certificate, is of another version of the schema, or says otherwise than its
    counts do; what depends on the last digits of another processor's arithmetic may differ by one in a million.
    """
    try:
        stored = json.loads(text)
        given, schema = dict(stored), stored["schema"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidArgument("The file is no certificate of an audit, or it is damaged.") from error
    if schema != SCHEMA:
        raise InvalidArgument.of("schema of the certificate", schema, f"{SCHEMA}, that of this version")
    try:
        certificate = _restored(given)
        computed = certificate.document()
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidArgument("The file is no certificate of an audit, or it is damaged.") from error
    if set(computed) != set(stored):
        raise InvalidArgument("The certificate has other fields than its schema; it is damaged.")
    for name in sorted(computed):
        if not _alike(computed[name], stored[name]):
            raise InvalidArgument(
                f"The certificate says {name} is {stored[name]!r}, but its counts give {computed[name]!r}."
            )
    return certificate


def _restored(given: dict[str, Any]) -> Certificate:
    claim = dict(given["claim"])
    epsilon = math.inf if claim["epsilon"] == INFINITY else claim["epsilon"]
    read_back = {
        "claim": Claim(**{**claim, "epsilon": epsilon, "observers": tuple(claim["observers"])}),
        "evidence": _evidence(given["evidence"]),
        "control": _evidence(given["control"]),
        "versions": dict(given["versions"]),
        "inputs": dict(given["inputs"]),
    }
    return Certificate(**{item.name: given[item.name] for item in fields(Certificate)} | read_back)


def _evidence(given: dict[str, Any] | None) -> GuessEvidence | None:
    if given is None:
        return None
    seen = given["scores"]
    return GuessEvidence(**{**given, "scores": None if seen is None else SumStatistic(**seen)})


def _alike(computed: Any, stored: Any) -> bool:
    if isinstance(computed, dict) and isinstance(stored, dict):
        return set(computed) == set(stored) and all(_alike(computed[name], stored[name]) for name in computed)
    if isinstance(computed, float) and isinstance(stored, (int, float)) and not isinstance(stored, bool):
        return math.isclose(computed, float(str(stored)), rel_tol=1e-6, abs_tol=1e-9)
    return bool(computed == stored)


def versions_here() -> dict[str, str]:
    """Of what measures here; 'unknown' for a package that is not installed as one."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def hash_of(path: Path) -> str:
    """SHA-256 of a file, as hexadecimal digits; `InvalidArgument` where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InvalidArgument(f"The file {path} cannot be read: {error.strerror}.") from error
