"""The operator's policy of one party: caps and public declarations, from ``policy.yaml`` in the party's home.

    default_label_cap: 8.0            # epsilon (nats) that one label source may spend in all
    label_sources:
      namespace/name/column: {cap: 4, public: false}
    score_caps:
      namespace/name: 5               # joint-score releases of a host's dataset; default a quarter of its features
    default_dataset_cap: {epsilon: 8, delta: 1e-6}
    dataset_caps:
      namespace/name: {epsilon: 3}    # what private steps may spend in all; what is not said is as in the default
    model_modules:
      name: package.module:function   # models that jobs may train here under this name; nothing else is ever imported
    public_datasets: [namespace/name] # data that is public: runs that guarantee nothing may use it, outside the caps
"""
import fcntl
import re
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import FrozenSet, Mapping, Optional

import yaml

from fate_dp.privacy.ledger.budget_cap import BudgetCap
from fate_dp.privacy.number_kinds import is_finite, is_whole
from fate_dp.privacy.private_file import publish_if_absent, replace_file

DEFAULT_DATASET_CAP = BudgetCap(epsilon=8.0, delta=1e-6)


class InvalidPolicy(ValueError):
    """The policy file or a declaration is malformed."""


@dataclass(frozen=True)
class SourcePolicy:
    """What the operator declares about one label source; ``cap`` (nats) None means the default cap."""

    cap: Optional[float] = None
    public: bool = False


@dataclass(frozen=True)
class Policy:
    """The policy of one party; epsilons in nats. Caps of labels are for the unit *label*, relation *replace-one*."""

    default_label_cap: float = 8.0
    label_sources: Mapping[str, SourcePolicy] = field(default_factory=dict)
    score_caps: Mapping[str, int] = field(default_factory=dict)
    default_dataset_cap: BudgetCap = DEFAULT_DATASET_CAP
    dataset_caps: Mapping[str, BudgetCap] = field(default_factory=dict)
    model_modules: Mapping[str, str] = field(default_factory=dict)
    public_datasets: FrozenSet[str] = frozenset()

    def label_cap(self, source):
        """Largest total epsilon that the label source may spend."""
        cap = self._source(source).cap
        return self.default_label_cap if cap is None else cap

    def is_declared(self, source):
        """Whether the operator knows the label source at all; another name for it would start another budget."""
        return check_source(source) in self.label_sources

    def is_public(self, source):
        """Whether the labels of the source are declared public, so that runs without privacy may use them."""
        return self._source(source).public

    def score_cap(self, dataset, feature_count):
        """Largest number of joint-score releases of a host's dataset: declared, else a quarter of its features."""
        return self.score_caps.get(dataset, feature_count // 4)

    def dataset_cap(self, dataset):
        """What private steps on the dataset may spend in all, for each observer, unit and relation: a ``BudgetCap``."""
        return self.dataset_caps.get(dataset, self.default_dataset_cap)

    def is_public_dataset(self, dataset):
        """Whether the operator declared all that stands in the dataset public; named as in ``dataset_caps``."""
        return dataset in self.public_datasets

    def _source(self, source):
        return self.label_sources.get(check_source(source), SourcePolicy())


def is_source(value):
    """Whether ``value`` is text that reads ``namespace/name/column`` with three non-empty parts."""
    parts = value.split("/") if isinstance(value, str) else []
    return len(parts) == 3 and all(part.strip() for part in parts)


def check_source(source):
    """Return ``source`` if ``is_source``, else raise."""
    if not is_source(source):
        raise InvalidPolicy(f"The label source is {source!r} but must read namespace/name/column.")
    return source


MODULE_NAME = re.compile(r"[A-Za-z0-9_-]+")
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


class _Loader(yaml.SafeLoader):
    """YAML 1.1 takes 1e-6, for want of a point, for text."""


NUMBER_WITHOUT_POINT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", NUMBER_WITHOUT_POINT, list("-+0123456789"))


def load_policy(path):
    """Read the policy file; a missing file means the defaults.

    :raises InvalidPolicy: one sentence on the first key or value that is not allowed.
    """
    content = _read(path)
    _check_keys(path, "the file", content, Policy)
    sources = _mapping(path, "label_sources", content.get("label_sources"))
    caps = _mapping(path, "score_caps", content.get("score_caps"))
    budgets = _mapping(path, "dataset_caps", content.get("dataset_caps"))
    modules = _mapping(path, "model_modules", content.get("model_modules"))
    public = _list(path, "public_datasets", content.get("public_datasets"))
    default = _budget(path, "default_dataset_cap", content.get("default_dataset_cap"), DEFAULT_DATASET_CAP)
    return Policy(
        default_label_cap=_epsilon(path, "default_label_cap", content.get("default_label_cap", 8.0)),
        label_sources={check_source(source): _source_policy(path, source, value) for source, value in sources.items()},
        score_caps={_dataset(path, "score_caps", name): _count(path, name, cap) for name, cap in caps.items()},
        default_dataset_cap=default,
        dataset_caps={
            _dataset(path, "dataset_caps", name): _budget(path, f"the cap of {name}", value, default)
            for name, value in budgets.items()
        },
        model_modules={_module_name(path, name): _module(path, name, value) for name, value in modules.items()},
        public_datasets=frozenset(_dataset(path, "public_datasets", name) for name in public),
    )


def declare_source(path, source, *, cap=None, public=None):
    """Set the cap (nats) and the public declaration of a label source in the file; None leaves a value as it is.

    The file is replaced in one step and comments in it are lost.

    :raises InvalidPolicy: for a malformed source, cap or file; the file is left as it was.
    """
    check_source(source)
    declared = {"cap": cap, "public": public}
    with _exclusive(path):
        load_policy(path)
        content = _read(path)
        sources = content["label_sources"] = dict(content.get("label_sources") or {})
        kept = sources.get(source) or {}
        sources[source] = {**kept, **{name: value for name, value in declared.items() if value is not None}}
        _source_policy(path, source, sources[source])
        replace_file(path, yaml.safe_dump(content, sort_keys=True).encode())


def _read(path):
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_Loader)
    except FileNotFoundError:
        return {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidPolicy(f"The policy file {path} is not valid YAML.") from error
    return dict(_mapping(path, "the file", content))


@contextmanager
def _exclusive(path):
    lock = Path(f"{path}.lock")
    publish_if_absent(lock, b"")
    with open(lock, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _source_policy(path, source, value):
    content = _mapping(path, source, value)
    _check_keys(path, source, content, SourcePolicy)
    cap = content.get("cap")
    public = content.get("public", False)
    if not isinstance(public, bool):
        raise InvalidPolicy(f"In {path}, public of {source} is {public!r} but must be true or false.")
    return SourcePolicy(cap=None if cap is None else _epsilon(path, f"cap of {source}", cap), public=public)


def _check_keys(path, where, content, kind):
    allowed = [item.name for item in fields(kind)]
    unknown = [key for key in content if key not in allowed]
    if unknown:
        raise InvalidPolicy(f"In {path}, {where} has the unknown key {unknown[0]!r} but may have {', '.join(allowed)}.")


def _mapping(path, where, value):
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidPolicy(f"In {path}, {where} is {value!r} but must be a mapping.")
    return value


def _list(path, where, value):
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidPolicy(f"In {path}, {where} is {value!r} but must be a list.")
    return value


def _epsilon(path, where, value):
    if not is_finite(value) or value <= 0:
        raise InvalidPolicy(f"In {path}, {where} is {value!r} but must be a finite number greater than 0 (in nats).")
    return float(value)


def _budget(path, where, value, default):
    content = _mapping(path, where, value)
    _check_keys(path, where, content, BudgetCap)
    try:
        return BudgetCap(**{**asdict(default), **content})
    except ValueError as error:
        raise InvalidPolicy(f"In {path}, {where} is not valid: {error}") from error


def _dataset(path, where, dataset):
    if not isinstance(dataset, str) or not dataset.strip():
        raise InvalidPolicy(f"In {path}, {where} has the dataset {dataset!r} but must have non-empty text.")
    return dataset


def _count(path, dataset, cap):
    if not is_whole(cap) or cap < 0:
        raise InvalidPolicy(f"In {path}, the score cap of {dataset} is {cap!r} but must be a whole number from 0 on.")
    return int(cap)


def _module_name(path, name):
    if not isinstance(name, str) or not MODULE_NAME.fullmatch(name):
        raise InvalidPolicy(
            f"In {path}, model_modules has the name {name!r} but must have letters, digits, hyphens and underscores only."
        )
    return name


def _module(path, name, value):
    if not isinstance(value, str) or not MODULE.fullmatch(value):
        raise InvalidPolicy(f"In {path}, the model {name} is {value!r} but must read package.module:function.")
    return value
