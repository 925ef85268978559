"""What a component shows to whom, as declared in YAML: the catalogue of FATE's own components, and ours.

FATE's stand in ``catalogue/NAME.yaml``; ours under ``disclosure`` in the ``guarantee.yaml`` of their folder. A statement
(`Shown`) is about one asset of one party, seen by one semi-honest observer in one task, and rests on a place in the source.
What no statement mentions, nobody but its owner receives.

How much an observer learns is told in four words. ``every``: the value of every row, exactly but for rounding; of two classes
perhaps not which is called 1. ``some``: at least one number or relation that is a function of a single record. ``sums``:
functions of many rows at once. ``nothing``: only what cannot be computed from, such as blinded ciphertexts and shares.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from fate_dp.privacy import declared
from fate_dp.privacy.validation import InvalidArgument, is_real

NAME = re.compile(r"[a-z][a-z0-9_]*")
PROOF = re.compile(r"transcript:[a-z0-9_]+|tests/[a-z0-9_/]+\.py::test_[a-z0-9_]+")
"""A recorded run or a test, one of which every statement names."""
COMPONENTS = Path(__file__).parent.parent
CATALOGUE = Path(__file__).parent / "catalogue"
LABELS, FEATURES, IDS, SCORES = ASSETS = ("labels", "features", "ids", "scores")
EVERY, SOME, SUMS, NOTHING = LEARNS = ("every", "some", "sums", "nothing")
PRIVATE = "differentially_private"
FORMS = ("clear", "masked", "encrypted_blinded", "encrypted_unblinded", "aggregated", PRIVATE)
ROLES = ("guest", "host", "arbiter")
SHUFFLER = "shuffler"
"""Of a task with the setting ``shuffler`` the host that it names, which holds no rows: it is not one of role host there."""
MODEL = "model"
STAGES = ("train", "predict", "cross_validation", "default")
RECORDS = "records"
REFUSED, BINNED, PASSED = MISSING = ("refused", "binned", "passed")
INPUT, TRUE, FLIPPED, NO_LABELS = CARRIED = ("input", "true", "flipped", "none")
ANYTHING = object()
"""The value of a setting that nobody can tell: every condition on it holds."""


@dataclass(frozen=True)
class Shown:
    """One asset of one party that an observer receives in some form.

    Attributes:
        what: one of `ASSETS`; labels are the true ones unless a label_flip stands before the task.
        of: roles of the owners. A party never observes itself.
        to: roles of the observers; ``model`` is whoever gets the model, `SHUFFLER` the host that shuffles.
        message: what is sent, in words.
        computes: what the observer can compute from it.
        evidence: FILE:LINE in the package ``fate`` 2.2.0, PATH::NAME of a class or function of this project, and at least one
            of what can prove it wrong: ``transcript:KEY`` of tests/check/transcripts.yaml, or a test's PATH::NAME.
        stages: in which it happens; all of them if empty.
        when: settings by name ("he_param.kind" for a nested one), each with the values for which it happens: a list of them,
            ``{not: [...]}`` for all others, ``{is: mapping}``, or ``{below: SETTING}`` for numbers below another setting.
        inputs: data inputs whose rows it concerns; if empty, those that are trained on or passed through.
        also: roles that the observer must play as well: what it computes from all that the same party sees in them.
        attack: a script that shows it, if one does.
        instead: what to do about it.
    """

    what: str
    of: tuple[str, ...]
    to: tuple[str, ...]
    form: str
    learns: str
    message: str
    computes: str
    evidence: tuple[str, ...]
    stages: tuple[str, ...] = ()
    when: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    attack: str = ""
    instead: str = ""


@dataclass(frozen=True)
class Output:
    """What the label column of some data outputs holds; an output that none names holds that of its input."""

    outputs: tuple[str, ...]
    labels: str


@dataclass(frozen=True)
class Mixing:
    """That rows or columns which a component writes depend on more than one row and public settings.

    It ``reads`` `RECORDS`, or `LABELS` where it reads labels as well, be it of the one row. ``instead`` is an order
    what to do about it, ``when`` as of `Shown`.
    """

    reads: str
    instead: str
    when: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Apart:
    """That the guarantee of a component rests on a party which plays one role and none of some others.

    ``why`` is what it would have otherwise, a clause; ``stages`` and ``when`` as of `Shown`.
    """

    role: str
    others: tuple[str, ...]
    why: str
    stages: tuple[str, ...] = ()
    when: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ComponentDisclosure:
    """All that a component shows, and what the tables that it writes depend on.

    Attributes:
        settings: those that change the answer, with FATE's defaults, nested names with a dot.
        rows: how it mixes rows; nothing for a component that works row by row, or writes no table. A row's presence may depend
            on its own id and the ids of other parties, as behind psi: a person who leaves one party's table leaves all of them,
            which is the one record less that add-or-remove means.
        known: settings, as in ``when``, for which all this holds; with others the component runs what nobody here has read.
        missing: what becomes of missing values and of constant columns, in the tables that it trains on: a task that finds one
            fails, or they get bins of their own, or are passed on as they are.
        from_start: settings that count from the first step of a model, and may be used up where a training goes on.
    """

    component: str
    stages: tuple[str, ...]
    settings: Mapping[str, Any]
    outputs: tuple[Output, ...]
    rows: tuple[Mixing, ...]
    shows: tuple[Shown, ...]
    known: Mapping[str, Any] = field(default_factory=dict)
    apart: tuple[Apart, ...] = ()
    from_start: tuple[str, ...] = ()
    missing: str = REFUSED


RULES = declared.Rules(
    {
        "what": ASSETS,
        "of": ROLES,
        "to": (*ROLES, SHUFFLER, MODEL),
        "role": (*ROLES, SHUFFLER),
        "others": (*ROLES, SHUFFLER),
        "also": ROLES,
        "form": FORMS,
        "learns": LEARNS,
        "stages": STAGES,
        "labels": CARRIED,
        "reads": (RECORDS, LABELS),
        "missing": MISSING,
    },
    may_be_empty=("settings", "outputs", "rows", "shows"),
)


@cache
def disclosure_of(component: str) -> ComponentDisclosure | None:
    """What is declared of a component, None of one that nobody knows; raises InvalidArgument for a broken declaration."""
    if not NAME.fullmatch(component):
        return None
    own, fates = COMPONENTS / component / "guarantee.yaml", CATALOGUE / f"{component}.yaml"
    if own.is_file():
        content, where = declared.read(own)
        content = content.get("disclosure") if isinstance(content, dict) else None
    elif fates.is_file():
        content, where = declared.read(fates)
    else:
        return None
    found = RULES.checked(ComponentDisclosure, content, where)
    check(found, component, where)
    return found


def check(found: ComponentDisclosure, component: str, where: str) -> None:
    """What no single field can say; raises InvalidArgument. ``where`` is what a sentence calls the file."""
    if found.component != component:
        raise InvalidArgument.of(f"component in {where}", found.component, repr(component))
    for each in found.shows:
        if not any(map(PROOF.fullmatch, each.evidence)):
            allowed = "a list with a transcript:KEY or a tests/FILE.py::test_NAME in it"
            raise InvalidArgument.of(f"evidence in {where}", list(each.evidence), allowed)
    stated: list[Mixing | Shown | Apart] = [*found.rows, *found.shows, *found.apart]
    for field_name, conditions in (("known", found.known), *(("when", each.when) for each in stated)):
        for name, condition in conditions.items():
            if name not in found.settings or not _is_condition(condition, found.settings):
                allowed = f"settings of {sorted(found.settings)}, each with a list of values, or not, is or below"
                raise InvalidArgument.of(f"{field_name} in {where}", dict(conditions), allowed)


def _is_condition(condition: object, settings: Mapping[str, object]) -> bool:
    match condition:
        case list() | {"not": list()} | {"is": "mapping"}:
            return True
        case {"below": other}:
            return other in settings
    return False


def fits(when: Mapping[str, object], settings: Mapping[str, object]) -> bool:
    return all(_holds(condition, settings.get(name), settings) for name, condition in when.items())


def _holds(condition: Any, value: Any, settings: Mapping[str, Any]) -> bool:
    if value is ANYTHING:
        return True
    match condition:
        case {"not": values}:
            return value not in values
        case {"is": _}:
            return isinstance(value, Mapping)
        case {"below": other}:
            limit = settings.get(other)
            # What is no number decides nothing: the statement is taken to hold.
            return not (is_real(value) and is_real(limit)) or value < limit
    return value in condition


def roles_played(parties: Iterable[tuple[str, str]], shufflers: Collection[str]) -> dict[str, tuple[str, ...]]:
    """By party the roles that it plays in a task, a host of ``shufflers`` that of the shuffler."""
    found: dict[str, tuple[str, ...]] = {}
    for role, party_id in parties:
        plays = SHUFFLER if role == "host" and party_id in shufflers else role
        found[party_id] = (*found.get(party_id, ()), plays)
    order = {role: at for at, role in enumerate((*ROLES, SHUFFLER))}
    return {each: tuple(sorted(plays, key=lambda role: order.get(role, -1))) for each, plays in found.items()}


def joined_roles(
    declared: ComponentDisclosure, parties: Iterable[tuple[str, str]], stage: str, settings: Mapping[str, object]
) -> str | None:
    """Why a component of ours refuses a party that plays several roles in its task, one sentence; None where it does not."""
    played = roles_played(parties, {str(settings.get(SHUFFLER))})
    for rule in declared.apart:
        if (not rule.stages or stage in rule.stages) and fits(rule.when, settings):
            for party_id, plays in played.items():
                others = [role for role in plays if role in rule.others]
                if rule.role in plays and others:
                    return (
                        f"The {rule.role} of {declared.component} must be another party than {' and '.join(rule.others)}, got party "
                        f"{party_id} as {rule.role} and {' and '.join(others)}: {rule.why}."
                    )
    return None


@cache
def catalogue() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in CATALOGUE.glob("*.yaml")))
