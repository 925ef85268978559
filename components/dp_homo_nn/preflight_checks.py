"""What a training must have before any message about data: settings, roles, tables and models that fit together.

Each party checks its own; what other parties learn is that one of them refuses, not what its rows are like.
"""
from dataclasses import dataclass
from functools import partial
from typing import Optional

import numpy as np

from fate_dp.components.common.dataset_names import Dataset
from fate_dp.components.common.frame_checks import check_features, distinct_labels, require_distinct_ids, require_rows
from fate_dp.components.common.frames import label_blocks
from fate_dp.components.common.preflight import PrivateReason
from fate_dp.privacy.policy import Policy

from .settings import MODULE_PREFIX, SOURCE_RULE, TrainSettings, module_name

LABELS_UNFIT = "The labels there do not allow this training; that party's operator can see why."


@dataclass(frozen=True)
class Federation:
    """Who takes part: (role, party id) of the data parties, the guest first, of the server and of the shuffler."""

    data: tuple
    server: tuple
    shuffler: Optional[tuple]

    @property
    def names(self) -> tuple:
        """Names of the data parties, in order; the same at every party."""
        return tuple(name_of(party) for party in self.data)

    @property
    def ids(self) -> tuple:
        """Party ids of the data parties, in order."""
        return tuple(party_id for _, party_id in self.data)

    def named(self, names) -> list:
        """The data parties of these names, in order."""
        return [party for party in self.data if name_of(party) in names]


def name_of(party) -> str:
    role, party_id = party
    return f"{role} {party_id}"


def federation_of(parties, settings: TrainSettings) -> Federation:
    """Roles of a task's parties (role, party id).

    :raises ValueError: unless there are one guest, a host with data, one arbiter and, for shuffle, the named shuffler.
    """
    guests, arbiters, hosts = ([party for party in parties if party[0] == role] for role in ("guest", "arbiter", "host"))
    if len(guests) != 1:
        raise ValueError(f"The job names {len(guests)} guests; dp_homo_nn needs exactly one.")
    if len(arbiters) != 1:
        raise ValueError(f"The job names {len(arbiters)} arbiters; dp_homo_nn needs exactly one, which is the server.")
    shuffler = next((party for party in hosts if party[1] == settings.shuffler), None)
    if settings.shuffler is not None and shuffler is None:
        raise ValueError(f"shuffler is {settings.shuffler!r}; no host of this task has that party id.")
    data = tuple(tuple(party) for party in (*guests, *sorted(hosts)) if party != shuffler)
    if len(data) < 2:
        raise ValueError("The job names no host with data; dp_homo_nn trains over at least two parties.")
    return Federation(data, tuple(arbiters[0]), None if shuffler is None else tuple(shuffler))


def check_table(frame, settings: TrainSettings) -> None:
    """A training table: rows, labels 0 .. classes - 1 of at least two kinds, sound features."""
    if frame is None:
        raise ValueError("The task has no train_data at this party; only the shuffler trains without rows.")
    require_rows(frame)
    schema = frame.schema
    if schema.label_name is None:
        raise ValueError("The training table has no label column; every data party needs its own labels.")
    if schema.weight_name is not None:
        raise ValueError(f"The table has the weight column {schema.weight_name!r}; sample weights are not supported.")
    require_distinct_ids(frame)
    if settings.unit == "record" and frame.shape[0] > settings.records:
        raise PrivateReason(
            f"records is {settings.records}, but this party alone has {frame.shape[0]} rows; it must be the number of the "
            "records of all parties together.",
            public=f"records is {settings.records}, fewer than that party alone has; it must be that of all together.",
        )
    check_features(frame)
    _check_labels(frame, settings.classes)


def check_module(policy: Policy, name: str) -> None:
    """A model beyond the fixed list must be allowed, by name, by the operator of this very party."""
    module = module_name(name)
    if module is not None and module not in policy.model_modules:
        raise PrivateReason(
            f"model.name is {name!r}, but policy.yaml of this party allows no model {module!r} under model_modules; it "
            f"allows {', '.join(sorted(policy.model_modules)) or 'none'}.",
            public=f"model.name is {name!r}, which that party's operator does not allow; {MODULE_PREFIX}NAME must stand in "
            "its policy.",
        )


def check_public(policy: Policy, dataset: Dataset) -> None:
    """What guarantees nothing runs on tables only that the operator of this very party declared public.

    So must be all that has records in common with them: a job can leave columns of a private table away until it has those
    of a public one.
    """
    private = next((name for name in (dataset.name, *dataset.related) if not policy.is_public_dataset(name)), None)
    if private is not None:
        sentence = (
            f"noise is {SOURCE_RULE}, which guarantees nothing, but policy.yaml of this party does not name {{}} under "
            "public_datasets."
        )
        raise PrivateReason(sentence.format(private), public=sentence.format(dataset.name))


def refuse_data() -> None:
    """The shuffler's own messages would be among those that it shuffles, and hide nobody from it."""
    raise ValueError("This party was given a table, but it holds no data in this training; keep its reader out.")


def check_parameters(own: dict, guests: dict) -> None:
    """At every party: its parameters against the guest's."""
    differing = next((name for name in own if own[name] != guests.get(name)), None)
    if differing is not None:
        raise ValueError(
            f"{differing} is {own[differing]!r} here and {guests.get(differing)!r} at the guest; every party needs the same."
        )


def check_alike(facts: dict) -> None:
    """At the guest: {data party: facts}, its own first; columns and model must be the same.

    :raises ValueError: names the first party that differs.
    """
    own, *_ = facts.values()
    for name, theirs in facts.items():
        if theirs["columns"] != own["columns"]:
            raise ValueError(_other_columns(name, theirs["columns"], own["columns"]))
        if theirs["dimension"] != own["dimension"]:
            raise ValueError(
                f"The model has {theirs['dimension']} parameters at {name} and {own['dimension']} at the guest; every "
                "operator must allow the same one."
            )


def _other_columns(name, theirs, own) -> str:
    if len(theirs) != len(own):
        return f"The table of {name} has {len(theirs)} features and the guest's has {len(own)}; all need the same columns."
    place = next(number for number, pair in enumerate(zip(theirs, own)) if pair[0] != pair[1])
    return (
        f"The table of {name} has {theirs[place]!r} as feature {place + 1} and the guest's has {own[place]!r}; all need the "
        "same columns in the same order."
    )


def _check_labels(frame, classes) -> None:
    unfit = label_blocks(frame).mapValues(partial(_first_unfit, classes=classes)).reduce(_first)
    if unfit is not None:
        raise PrivateReason(
            f"A label is {unfit}; with classes {classes} labels must be whole numbers from 0 to {classes - 1}.", LABELS_UNFIT
        )
    found = distinct_labels(frame, limit=classes)
    if len(found) < 2:
        raise PrivateReason(
            f"All labels are {found.pop():g}; a party with one class teaches the model that class only. Take its rows to "
            "another party, or leave the party out.", LABELS_UNFIT,
        )  # fmt: skip


def _first_unfit(labels, classes):
    """A label as text that is no class, or None."""
    with np.errstate(invalid="ignore"):
        wrong = labels[~(np.isin(labels, np.arange(classes)))]
    return f"{wrong[0]:g}" if len(wrong) else None


def _first(one, other):
    return one if one is not None else other
