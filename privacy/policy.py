"""The operator's policy of one party: caps and public declarations, from ``policy.yaml`` in the party's home.

    default_label_cap: 8.0            # epsilon (nats) that one label source may spend in all
    label_sources:
      namespace/name/column: {cap: 4, public: false, columns: [age, income], records: 30000}
    score_caps:
      columns:0123456789abcdef: 5     # joint-score releases of a host's dataset; default a quarter of its features
    default_dataset_cap: {epsilon: 8, delta: 1e-6}
    dataset_caps:
      columns:0123456789abcdef: {epsilon: 3}   # what private steps may spend in all; the rest is as in the default
    model_modules:
      name: package.module:function   # models that jobs may train here under this name; nothing else is ever imported
    few_valued_scores: [columns:0123456789abcdef]   # a host's tables whose joint scores may show columns of few values
    public_datasets: [columns:89abcdef01234567]   # public data: runs that guarantee nothing may use it, outside the caps
    separate_ids: [patient]           # id columns whose ids name other records than equal ids of other tables

A dataset is named by its columns, as ``fate-dp declare-table`` and the ledger say; a number behind the name (#2) means other
records in a table of the same columns, for which a cap without the number holds as well. ``fate-dp cap`` writes caps by the
names of tables. A cap holds for a table and for every table that has records in common with it. ``unused_names`` are names
under which nothing is ever charged.
"""
import fcntl
import logging
import re
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache, reduce
from pathlib import Path
from typing import FrozenSet, Mapping, Optional

import yaml

from fate_dp.privacy.ledger.budget_cap import BudgetCap
from fate_dp.privacy.ledger.families import NUMBERED, WEIGHTS, base_name
from fate_dp.privacy.number_kinds import is_finite, is_whole
from fate_dp.privacy.private_file import publish_if_absent, replace_file

logger = logging.getLogger(__name__)
BY_COLUMNS = "columns:[0-9a-f]{16}"
NUMBERED_COLUMNS = f"{BY_COLUMNS}({NUMBERED}[0-9]+)?"
USED_NAMES = {
    "score_caps": re.compile(f"({WEIGHTS})?{NUMBERED_COLUMNS}"),
    "dataset_caps": re.compile(NUMBERED_COLUMNS),
    "few_valued_scores": re.compile(BY_COLUMNS),
    "public_datasets": re.compile(BY_COLUMNS),
}
UNUSED_NAME = (
    "In {path}, {key} names {name!r}, but no component calls a dataset so, and the line holds nothing; name it by its "
    "columns, as `fate-dp declare-table` and `fate-dp ledger` do."
)
DEFAULT_DATASET_CAP = BudgetCap(epsilon=8.0, delta=1e-6)


class InvalidPolicy(ValueError):
    """The policy file or a declaration is malformed."""


@dataclass(frozen=True)
class SourcePolicy:
    """What the operator declares about one label source; ``cap`` (nats) None means the default cap.

    ``columns`` are all features that its table has, of which jobs may leave some; ``records`` is the largest number of
    records whose labels may ever be released under it. None leaves either open.
    """

    cap: Optional[float] = None
    public: bool = False
    columns: Optional[FrozenSet[str]] = None
    records: Optional[int] = None


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
    separate_ids: FrozenSet[str] = frozenset()
    few_valued_scores: FrozenSet[str] = frozenset()

    def label_cap(self, source):
        """Largest total epsilon that the label source may spend."""
        cap = self._source(source).cap
        return self.default_label_cap if cap is None else cap

    def is_declared(self, source):
        """Whether the operator knows the label source at all; another name for it would start another budget."""
        return check_source(source) in self.label_sources

    def columns_of(self, source):
        """Features of the table that the source was declared for; None where it was declared for any."""
        return self._source(source).columns

    def records_of(self, source):
        """How many records the source was declared with; None where that was left open."""
        return self._source(source).records

    def is_public(self, source):
        """Whether the labels of the source are declared public, so that runs without privacy may use them."""
        return self._source(source).public

    def score_cap(self, dataset, feature_count, related=()):
        """Largest number of joint-score releases of a host's dataset: declared, else a quarter of its features.

        :param related: datasets that count together with it; the smallest of all their caps holds, see ``dataset_cap``.
        """
        return min(_caps(self.score_caps, dataset, related, feature_count // 4, min))

    def dataset_cap(self, dataset, related=()):
        """What private steps on the dataset may spend in all, for each observer, unit and relation: a ``BudgetCap``.

        :param related: datasets that count together with it; the smallest epsilon and the smallest delta of all their caps
            hold, the default for one that has none: a job that leaves columns away must not find a larger cap than the
            whole table's among those of other tables.
        """
        caps = _caps(self.dataset_caps, dataset, related, self.default_dataset_cap, BudgetCap.smaller)
        return reduce(BudgetCap.smaller, caps)

    def consents_to_few_values(self, dataset, related=()):
        """Whether joint scores of a host's dataset may be shown though columns take few values: they show these columns.

        :param related: datasets that count together with it, to whose scores the operator must have consented as well.
        """
        return {base_name(name) for name in (dataset, *related)} <= self.few_valued_scores

    def is_public_dataset(self, dataset):
        """Whether the operator declared all that stands in the dataset public; named as in ``dataset_caps``."""
        return dataset in self.public_datasets

    def _source(self, source):
        return self.label_sources.get(check_source(source), SourcePolicy())


def unused_names(policy):
    """[(key of the file, name)] of caps and declarations that no component ever asks for, so that they hold nothing."""
    named = (("score_caps", policy.score_caps), ("dataset_caps", policy.dataset_caps),
             ("few_valued_scores", sorted(policy.few_valued_scores)),
             ("public_datasets", sorted(policy.public_datasets)))  # fmt: skip
    return [(key, name) for key, names in named for name in names if not USED_NAMES[key].fullmatch(name)]


@lru_cache(maxsize=None)
def _tell_unused(path, key, name):
    """Once in a process, which may read the file for every job step."""
    logger.warning(UNUSED_NAME.format(path=path, key=key, name=name))


def _caps(caps, dataset, related, default, smaller):
    """Of the dataset and all related ones: what is declared for exactly this one, else the default.

    A cap under the name of the columns alone may be another table's: it lowers the default and never raises it. Weights are
    known by nothing but columns, so that the operator's word on some of them says nothing of others without one.
    """
    for name in {dataset, *related}:
        exact, of_columns = caps.get(name), caps.get(base_name(name), default)
        if exact is None and name != dataset and name.startswith(WEIGHTS):
            continue
        yield smaller(of_columns, default) if exact is None else exact


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
    """Read the policy file; a missing file means the defaults. Names that nothing uses are logged as warnings.

    :raises InvalidPolicy: one sentence on the first key or value that is not allowed.
    """
    content = _read(path)
    _check_keys(path, "the file", content, Policy)
    sources = _mapping(path, "label_sources", content.get("label_sources"))
    caps = _mapping(path, "score_caps", content.get("score_caps"))
    budgets = _mapping(path, "dataset_caps", content.get("dataset_caps"))
    modules = _mapping(path, "model_modules", content.get("model_modules"))
    public = _list(path, "public_datasets", content.get("public_datasets"))
    separate = _list(path, "separate_ids", content.get("separate_ids"))
    few_valued = _list(path, "few_valued_scores", content.get("few_valued_scores"))
    default = _budget(path, "default_dataset_cap", content.get("default_dataset_cap"), DEFAULT_DATASET_CAP)
    policy = Policy(
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
        separate_ids=frozenset(_id_column(path, name) for name in separate),
        few_valued_scores=frozenset(_dataset(path, "few_valued_scores", name) for name in few_valued),
    )
    for key, name in unused_names(policy):
        _tell_unused(str(path), key, name)
    return policy


def declare_source(path, source, *, cap=None, public=None, columns=None, records=None):
    """Set what ``SourcePolicy`` holds of a label source in the file; None leaves a value as it is.

    The file is replaced in one step and comments in it are lost.

    :raises InvalidPolicy: for a malformed source, cap or file; the file is left as it was.
    """
    check_source(source)
    columns = None if columns is None else sorted(columns)
    declared = {"cap": cap, "public": public, "columns": columns, "records": records}
    with _exclusive(path):
        load_policy(path)
        content = _read(path)
        sources = content["label_sources"] = dict(content.get("label_sources") or {})
        kept = sources.get(source) or {}
        sources[source] = {**kept, **{name: value for name, value in declared.items() if value is not None}}
        _source_policy(path, source, sources[source])
        replace_file(path, yaml.safe_dump(content, sort_keys=True).encode())


def declare_caps(path, dataset, *, epsilon=None, delta=None, scores=None):
    """Set what private steps may spend of a dataset, and how many models' scores it may show; None leaves a value as it is.

    :raises InvalidPolicy: for a malformed cap or file; the file is left as it was.
    """
    budget = {name: value for name, value in (("epsilon", epsilon), ("delta", delta)) if value is not None}
    with _exclusive(path):
        policy, content = load_policy(path), _read(path)
        if budget:
            budgets = content["dataset_caps"] = dict(content.get("dataset_caps") or {})
            budgets[dataset] = {**(budgets.get(dataset) or {}), **budget}
            _budget(path, f"the cap of {dataset}", budgets[dataset], policy.default_dataset_cap)
        if scores is not None:
            counts = content["score_caps"] = dict(content.get("score_caps") or {})
            counts[dataset] = _count(path, dataset, scores)
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
    return SourcePolicy(
        cap=None if cap is None else _epsilon(path, f"cap of {source}", cap), public=public,
        columns=_columns(path, source, content.get("columns")), records=_records(path, source, content.get("records")),
    )  # fmt: skip


def _columns(path, source, value):
    columns = None if value is None else _list(path, f"columns of {source}", value)
    if columns is not None and not all(isinstance(column, str) for column in columns):
        raise InvalidPolicy(f"In {path}, columns of {source} is {value!r} but must be a list of texts.")
    return None if columns is None else frozenset(columns)


def _records(path, source, value):
    if value is not None and (not is_whole(value) or value < 1):
        raise InvalidPolicy(f"In {path}, records of {source} is {value!r} but must be a whole number from 1 on.")
    return None if value is None else int(value)


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


def _id_column(path, name):
    if not isinstance(name, str) or not name.strip():
        raise InvalidPolicy(f"In {path}, separate_ids has the id column {name!r} but must have non-empty text.")
    return name


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
