"""The operator's policy of one party: caps and public declarations, from ``policy.yaml`` in the party's home.

    default_label_cap: 8.0            # epsilon (nats) that one label source may spend in all
    label_sources:
      namespace/name/column: {cap: 4, public: false, columns: [age, income], records: 30000}
    score_caps:
      columns:0123456789abcdef: 5     # joint-score releases of a host's dataset; default a quarter of its features
    loss_caps:
      columns:0123456789abcdef: 10    # trainings that show losses, of a host's dataset; default 40
    default_dataset_cap: {epsilon: 8, delta: 1e-6}
    dataset_caps:
      columns:0123456789abcdef: {epsilon: 3}   # what private steps may spend in all; the rest is as in the default
    model_modules:
      name: package.module:function   # models that jobs may train here under this name; nothing else is ever imported
    few_valued_scores: [columns:0123456789abcdef]   # a host's tables whose joint scores may show columns of few values
    foreign_jobs: [upload]            # what jobs of other parties may do here beside computing: components, engine_run
    job_check: warn                   # of a job that leaks labels: refuse (the default), warn or off
    tables:                           # what `TableFacts` says of each uploaded table
      namespace/name: {population: shops, special: {income: [-999]}, ranges: {age: [18, 100]}}
    record_views: [coordinated_lr]    # components whose tasks keep what this party receives, or true for all; default none
    record_bytes: 67108864            # largest file of one task, of what it received

A dataset is named by its columns, as ``fate-dp declare-table`` and the ledger say; a number behind the name (#2) means other
records in a table of the same columns, for which a cap without the number holds as well. ``fate-dp cap`` writes caps by the
names of tables. A cap holds for a table and for every table that has records in common with it. ``unused_names`` are names
under which nothing is ever charged.
"""

import fcntl
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import cache, reduce
from pathlib import Path
from typing import Any, TypeVar

import yaml

from ..declared import YamlReader, YamlWriter, plain
from ..private_files import AnyPath, publish_if_absent, replace_file
from ..table_facts import TableFacts
from ..validation import DEFAULT_DELTA, InvalidArgument, is_name, positive, refusal, whole
from .database import WEIGHTS
from .datasets import NUMBERED, base_name, is_source
from .entries import BudgetCap

logger = logging.getLogger(__name__)
BY_COLUMNS = "columns:[0-9a-f]{16}"
NUMBERED_COLUMNS = f"{BY_COLUMNS}({NUMBERED}[0-9]+)?"
USED_NAMES = {
    "score_caps": re.compile(f"({WEIGHTS})?{NUMBERED_COLUMNS}"),
    "loss_caps": re.compile(NUMBERED_COLUMNS),
    "dataset_caps": re.compile(NUMBERED_COLUMNS),
    "few_valued_scores": re.compile(BY_COLUMNS),
}
UNUSED_NAME = (
    "In {path}, {key} names {name!r}, but no component calls a dataset so, and the line holds nothing; name it by its "
    "columns, as `fate-dp declare-table` and `fate-dp ledger` do."
)
RETIRED = {
    "public_datasets": "no component takes a table without a guarantee",
    "record_calls": "no task keeps what it asks of private records",
    "separate_ids": "whom ids name is said by table; `fate-dp upload --population`, with the name that stood here, goes on "
    "with what was counted under it",
}
"""Keys that nothing reads any more, and why; files that have them stay valid."""
RETIRED_KEY = "In {path}, {key} holds nothing any more; remove it: {why}."
RECORDS = "records"
"""The population of tables of which nothing else is said; no declared label source reads like it."""
REFUSE, WARN, OFF = JOB_CHECKS = ("refuse", "warn", "off")
DEFAULT_LABEL_CAP = 8.0
DEFAULT_LOSS_CAP = 40
"""Trainings of 100 losses each. Averaged over 4,000 repeats, parts of 2^-16 leave 2^-22: the unit in which each training
opens the guest's own weights, which no cap withholds."""
EVERY_COMPONENT = "every component"
DEFAULT_RECORD_BYTES = 1 << 26
MAX_RECORD_BYTES = 1 << 32
DEFAULT_DATASET_CAP = BudgetCap(epsilon=8.0, delta=DEFAULT_DELTA)
MODULE_NAME = re.compile(r"[A-Za-z0-9_-]+")
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
Cap = TypeVar("Cap", int, BudgetCap)


class InvalidPolicy(ValueError):
    """The policy file or a declaration is malformed."""


@dataclass(frozen=True)
class SourcePolicy:
    """What the operator declares about one label source; ``cap`` (nats) None means the default cap.

    ``columns`` are all features that its table has, of which jobs may leave some; ``records`` is the largest number of
    records whose labels may ever be released under it. None leaves either open.
    """

    cap: float | None = None
    public: bool = False
    columns: frozenset[str] | None = None
    records: int | None = None


@dataclass(frozen=True)
class Policy:
    """The policy of one party; epsilons in nats. Caps of labels are for the unit *label*, relation *replace-one*."""

    default_label_cap: float = DEFAULT_LABEL_CAP
    label_sources: Mapping[str, SourcePolicy] = field(default_factory=dict)
    score_caps: Mapping[str, int] = field(default_factory=dict)
    loss_caps: Mapping[str, int] = field(default_factory=dict)
    default_dataset_cap: BudgetCap = DEFAULT_DATASET_CAP
    dataset_caps: Mapping[str, BudgetCap] = field(default_factory=dict)
    model_modules: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, TableFacts] = field(default_factory=dict)
    few_valued_scores: frozenset[str] = frozenset()
    foreign_jobs: frozenset[str] = frozenset()
    job_check: str = REFUSE
    record_views: frozenset[str] = frozenset()
    record_bytes: int = DEFAULT_RECORD_BYTES

    def populations_of(self, tables: Collection[str] | None) -> frozenset[str]:
        """Whom the ids of these tables, ``namespace/name``, may name; None, or a table that nobody declared: anybody."""
        named = {table: facts.population for table, facts in self.tables.items() if facts.population is not None}
        if tables and named.keys() >= set(tables):
            return frozenset(named[table] for table in tables)
        return frozenset((RECORDS, *named.values()))

    def special_values_of(self, tables: Collection[str] | None) -> dict[str, tuple[float, ...]]:
        """{column: its special values} of all these tables, ``namespace/name``; none where it is not known which they are."""
        found: dict[str, tuple[float, ...]] = {}
        for table in self.tables.keys() & set(tables or ()):
            for name, codes in self.tables[table].special.items():
                found[name] = tuple(sorted({*found.get(name, ()), *codes}))
        return found

    def records(self, component: str) -> bool:
        """Whether the operator wants kept what this party receives in tasks of a component."""
        return not self.record_views.isdisjoint({component, EVERY_COMPONENT})

    def label_cap(self, source: str, related: Iterable[str] = ()) -> float:
        """Largest total epsilon that labels may spend: the smallest cap of all declared sources that count together.

        Public sources have none; labels whose sources nobody declared have the default.
        """
        return min(self._label_caps({source, *related}), default=self.default_label_cap)

    def has_label_cap(self, accounts: Iterable[str]) -> bool:
        """Whether any of these accounts of labels is a source that was declared, and not public."""
        return any(True for _ in self._label_caps(accounts))

    def _label_caps(self, accounts: Iterable[str]) -> Iterator[float]:
        for terms in (self.label_sources.get(name) for name in accounts):
            if terms is not None and not terms.public:
                yield self.default_label_cap if terms.cap is None else terms.cap

    @property
    def label_delta(self) -> float:
        """The delta at which caps of labels hold once there is noise on sums of them, which no epsilon bounds at delta 0."""
        return self.default_dataset_cap.delta

    def is_declared(self, source: str) -> bool:
        """Whether the operator knows the label source at all; another name for it would start another budget."""
        return check_source(source) in self.label_sources

    def score_cap(self, dataset: str, feature_count: int, related: Iterable[str] = ()) -> int:
        """Largest number of joint-score releases of a host's dataset: declared, else a quarter of its columns.

        The smallest cap of all ``related`` datasets, which count together with it, holds.
        """
        return min(_caps(self.score_caps, dataset, related, feature_count // 4, min))

    def loss_cap(self, dataset: str, related: Iterable[str] = ()) -> int:
        """Largest number of trainings on a host's dataset that show the guest losses; see ``score_cap``."""
        return min(_caps(self.loss_caps, dataset, related, DEFAULT_LOSS_CAP, min))

    def dataset_cap(self, dataset: str, related: Iterable[str] = ()) -> BudgetCap:
        """What private steps on the dataset may spend in all, for each unit, whoever saw it.

        The smallest epsilon and the smallest delta of the caps of all ``related`` datasets, which count together with
        it, hold, the default for one that has none: a job that leaves columns away must not find a larger cap than the
        whole table's among those of other tables.
        """
        caps = _caps(self.dataset_caps, dataset, related, self.default_dataset_cap, BudgetCap.smaller)
        return reduce(BudgetCap.smaller, caps)

    def consents_to_few_values(self, dataset: str, related: Iterable[str] = ()) -> bool:
        """Whether a host's joint scores may be shown though columns take few values, which they show.

        The operator must have consented to those of all ``related`` datasets, which count together with it, as well.
        """
        return {base_name(name) for name in (dataset, *related)} <= self.few_valued_scores

    def source(self, source: str) -> SourcePolicy:
        """What is declared about a label source; that of a default where nothing is."""
        return self.label_sources.get(check_source(source), SourcePolicy())


def unused_names(policy: Policy) -> list[tuple[str, str]]:
    """[(key of the file, name)] of caps and declarations that no component ever asks for, so that they hold nothing."""
    named: dict[str, Collection[str]] = {key: getattr(policy, key) for key in USED_NAMES}
    ordered = {key: sorted(names) if isinstance(names, frozenset) else names for key, names in named.items()}
    return [(key, name) for key, names in ordered.items() for name in names if not USED_NAMES[key].fullmatch(name)]


@cache
def _tell(sentence: str) -> None:
    """Once in a process, which may read the file for every job step."""
    logger.warning(sentence)


def _caps(
    caps: Mapping[str, Cap], dataset: str, related: Iterable[str], default: Cap, smaller: Callable[[Cap, Cap], Cap]
) -> Iterator[Cap]:
    """Of the dataset and all related ones: what is declared for exactly this one, else the default.

    A cap under the name of the columns alone may be another table's: it lowers the default and never raises it. Weights
    are known by nothing but columns, so that the operator's word on some of them says nothing of others without one.
    """
    for name in {dataset, *related}:
        exact, of_columns = caps.get(name), caps.get(base_name(name), default)
        if exact is None and name != dataset and name.startswith(WEIGHTS):
            continue
        yield smaller(of_columns, default) if exact is None else exact


def check_source(source: Any) -> str:
    """Return ``source`` if ``is_source``, else raise."""
    if not is_source(source):
        raise InvalidPolicy(refusal("label source", source, "namespace/name/column"))
    return str(source)


def load_policy(path: AnyPath) -> Policy:
    """Read the policy file; a missing file means the defaults. Names that nothing uses are logged as warnings."""
    file = _File(path)
    content = file.read()
    for key, why in RETIRED.items():
        if content.pop(key, None) is not None:
            _tell(RETIRED_KEY.format(path=path, key=key, why=why))
    file.check_keys("the file", content, Policy)
    mappings = ("label_sources", "dataset_caps", "model_modules")
    sources, budgets, modules = (file.mapping(key, content.get(key)) for key in mappings)
    lists = ("few_valued_scores", "foreign_jobs")
    few_valued, foreign = (file.items(key, content.get(key)) for key in lists)
    default = file.budget("default_dataset_cap", content.get("default_dataset_cap"), DEFAULT_DATASET_CAP)
    policy = Policy(
        default_label_cap=file.epsilon("default_label_cap", content.get("default_label_cap", DEFAULT_LABEL_CAP)),
        label_sources={check_source(source): file.source_policy(source, value) for source, value in sources.items()},
        score_caps=file.counts("score_caps", content.get("score_caps")),
        loss_caps=file.counts("loss_caps", content.get("loss_caps")),
        default_dataset_cap=default,
        dataset_caps={
            file.dataset("dataset_caps", name): file.budget(f"the cap of {name}", value, default)
            for name, value in budgets.items()
        },
        model_modules={file.module_name(name): file.module(name, value) for name, value in modules.items()},
        tables={
            file.dataset("tables", table, "table"): file.facts(table, value)
            for table, value in file.mapping("tables", content.get("tables")).items()
        },
        few_valued_scores=frozenset(file.dataset("few_valued_scores", name) for name in few_valued),
        foreign_jobs=frozenset(file.dataset("foreign_jobs", name, "name") for name in foreign),
        job_check=file.job_check(content.get("job_check", REFUSE)),
        record_views=file.recorded("record_views", content.get("record_views")),
        record_bytes=file.record_bytes(content.get("record_bytes", DEFAULT_RECORD_BYTES)),
    )
    for key, name in unused_names(policy):
        _tell(UNUSED_NAME.format(path=path, key=key, name=name))
    return policy


def declare_source(
    path: AnyPath,
    source: str,
    *,
    cap: float | None = None,
    public: bool | None = None,
    columns: Iterable[str] | None = None,
    records: int | None = None,
) -> None:
    """Set what ``SourcePolicy`` holds of a label source in the file; None leaves a value as it is.

    The file is replaced in one step and comments in it are lost. `InvalidPolicy` leaves it as it was.
    """
    if not all(is_name(part) for part in check_source(source).split("/")):
        raise InvalidPolicy(refusal("label source", source, "namespace/name/column without blanks at their ends"))
    given = {"cap": cap, "public": public, "columns": None if columns is None else sorted(columns), "records": records}
    with _edited(path) as (policy, file, content):
        sources = content["label_sources"] = dict(content.get("label_sources") or {})
        sources[source] = {**(sources.get(source) or {}), **_declared(given)}
        file.source_policy(source, sources[source])


def declare_caps(
    path: AnyPath,
    dataset: str,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    scores: int | None = None,
    losses: int | None = None,
) -> None:
    """Set what private steps may spend of a dataset, and of how many models it shows scores, of how many trainings losses;
    see ``declare_source``.
    """
    with _edited(path) as (policy, file, content):
        if budget := _declared({"epsilon": epsilon, "delta": delta}):
            budgets = content["dataset_caps"] = dict(content.get("dataset_caps") or {})
            budgets[dataset] = {**(budgets.get(dataset) or {}), **budget}
            file.budget(f"the cap of {dataset}", budgets[dataset], policy.default_dataset_cap)
        for key, cap in _declared({"score_caps": scores, "loss_caps": losses}).items():
            content[key] = file.counts(key, {**(content.get(key) or {}), dataset: cap})


def declare_facts(path: AnyPath, table: str, facts: TableFacts) -> None:
    """Set what ``facts`` say of a table, ``namespace/name``, and leave what they do not; see ``declare_source``."""
    with _edited(path) as (_, _, content):
        tables = content["tables"] = dict(content.get("tables") or {})
        tables[table] = {**(tables.get(table) or {}), **facts.to_json()}


def _declared(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@contextmanager
def _edited(path: AnyPath) -> "Iterator[tuple[Policy, _File, dict[str, Any]]]":
    """The content of a sound file under a lock, for a block that changes it; written back unless the block refuses."""
    lock = Path(f"{path}.lock")
    publish_if_absent(lock, b"")
    with open(lock, "rb") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        policy, file = load_policy(path), _File(path)
        content = file.read()
        yield policy, file, content
        replace_file(path, yaml.dump(plain(content), Dumper=YamlWriter, allow_unicode=True).encode())


@dataclass(frozen=True)
class _File:
    """The policy file; methods return what they were given (``where`` in words) as YAML held it, or refuse it."""

    path: AnyPath

    def read(self) -> dict[str, Any]:
        try:
            content = yaml.load(Path(self.path).read_text(encoding="utf-8"), YamlReader)
        except FileNotFoundError:
            return {}
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            problem = getattr(error, "problem", None) or "it is no text"
            raise InvalidPolicy(f"The policy file {self.path} is not valid YAML: {problem}.") from error
        return dict(self.mapping("the file", content))

    def source_policy(self, source: str, value: Any) -> SourcePolicy:
        content = self.mapping(source, value)
        self.check_keys(source, content, SourcePolicy)
        cap, columns, records = (content.get(name) for name in ("cap", "columns", "records"))
        public = content.get("public", False)
        self._refuse_unless(isinstance(public, bool), f"public of {source}", public, "true or false")
        if columns is not None:
            texts = all(isinstance(column, str) for column in self.items(f"columns of {source}", columns))
            self._refuse_unless(texts, f"columns of {source}", columns, "a list of texts")
        if records is not None:
            where = self._named(f"records of {source}")
            records = whole(where, records, 1, allowed="a whole number from 1 on", error=InvalidPolicy)
        cap = None if cap is None else self.epsilon(f"cap of {source}", cap)
        return SourcePolicy(cap, public, None if columns is None else frozenset(columns), records)

    def facts(self, table: str, value: Any) -> TableFacts:
        content = self.mapping(table, value)
        self.check_keys(table, content, TableFacts)
        try:
            return TableFacts(**content)
        except InvalidArgument as error:
            raise InvalidPolicy(f"In {self.path}, of the table {table}: {error}") from error

    def check_keys(self, where: str, content: dict[str, Any], kind: type) -> None:
        allowed = [item.name for item in fields(kind)]
        for key in content:
            self._refuse_unless(key in allowed, f"a key of {where}", key, f"one of {', '.join(allowed)}")

    def mapping(self, where: str, value: Any) -> dict[str, Any]:
        self._refuse_unless(value is None or isinstance(value, dict), where, value, "a mapping")
        return value or {}

    def items(self, where: str, value: Any) -> list[Any]:
        self._refuse_unless(value is None or isinstance(value, list), where, value, "a list")
        return value or []

    def epsilon(self, where: str, value: Any) -> float:
        return positive(self._named(where), value, "a finite number greater than 0 (in nats)", InvalidPolicy)

    def job_check(self, value: Any) -> str:
        # YAML 1.1 reads a bare off as a truth value.
        given = OFF if value is False else value
        self._refuse_unless(given in JOB_CHECKS, "job_check", value, f"one of {', '.join(JOB_CHECKS)}")
        return str(given)

    def recorded(self, key: str, value: Any) -> frozenset[str]:
        if value is None or isinstance(value, bool):
            return frozenset({EVERY_COMPONENT} if value else ())
        named = isinstance(value, list) and all(isinstance(name, str) and name.strip() for name in value)
        self._refuse_unless(named, key, value, "true, false or a list of names of components")
        return frozenset(value)

    def record_bytes(self, value: Any) -> int:
        allowed = f"a whole number from 1 to {MAX_RECORD_BYTES}"
        return whole(self._named("record_bytes"), value, 1, MAX_RECORD_BYTES, allowed=allowed, error=InvalidPolicy)

    def budget(self, where: str, value: Any, default: BudgetCap) -> BudgetCap:
        content = self.mapping(where, value)
        self.check_keys(where, content, BudgetCap)
        try:
            return BudgetCap(**{**asdict(default), **content})
        except ValueError as error:
            raise InvalidPolicy(f"In {self.path}, {where} is not valid: {error}") from error

    def counts(self, key: str, value: Any) -> dict[str, int]:
        def checked(name: Any, cap: Any) -> int:
            where = self._named(f"the cap of {self.dataset(key, name)} in {key}")
            return whole(where, cap, 0, allowed="a whole number from 0 on", error=InvalidPolicy)

        return {name: checked(name, cap) for name, cap in self.mapping(key, value).items()}

    def dataset(self, where: str, name: Any, what: str = "dataset") -> str:
        self._refuse_unless(isinstance(name, str) and name.strip(), f"each {what} of {where}", name, "non-empty text")
        return str(name)

    def module_name(self, name: Any) -> str:
        fine = isinstance(name, str) and MODULE_NAME.fullmatch(name)
        self._refuse_unless(fine, "a name in model_modules", name, "letters, digits, hyphens and underscores only")
        return str(name)

    def module(self, name: str, value: Any) -> str:
        fine = isinstance(value, str) and MODULE.fullmatch(value)
        self._refuse_unless(fine, f"the model {name}", value, "package.module:function")
        return str(value)

    def _refuse_unless(self, fine: object, where: str, value: Any, allowed: str) -> None:
        if not fine:
            raise InvalidPolicy(refusal(self._named(where), value, allowed))

    def _named(self, where: str) -> str:
        return f"In {self.path}, {where}"
