"""The caps of a party's tables by the names that they were uploaded under: what is spent, what may be, and setting it."""
from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fate_dp.components.common.dataset_names import columns_name
from fate_dp.privacy import InvalidPolicy, Ledger
from fate_dp.privacy.ledger.families import WEIGHTS
from fate_dp.privacy.ledger.label_memo import ROUNDING
from fate_dp.privacy.party_files import LEDGER_FILE, POLICY_FILE, party_folder, party_ids
from fate_dp.privacy.policy import NUMBERED_COLUMNS, Policy, declare_caps, declare_source, load_policy

from .party_ledgers import make_home

TABLE = re.compile(r"[^/\s]+/[^/\s]+")
DEFAULT, DECLARED = "default", "declared"


class UnknownTable(ValueError):
    """No party knows the table, or several do; one sentence."""


@dataclass(frozen=True)
class NewCaps:
    """What is to be set; None leaves a cap as it is.

    Attributes:
        epsilon: nats that private steps on the table may spend, at ``delta``.
        scores: models of whose joint scores of the table's rows a host shows the guest.
        rows: rows that a host scores for the guest with its weights of a model of the table's columns.
        labels: nats that the labels of the table may spend, at delta 0.
    """

    epsilon: float | None = None
    delta: float | None = None
    scores: int | None = None
    rows: int | None = None
    labels: float | None = None

    @property
    def are_given(self) -> bool:
        return any(value is not None for value in (self.epsilon, self.delta, self.scores, self.rows, self.labels))


@dataclass(frozen=True)
class CapLine:
    """One cap of one table: ``spent`` and ``cap`` in the unit that ``kind`` says; epsilons at ``delta``."""

    party: str
    table: str
    kind: str
    spent: float
    cap: float
    delta: float | None
    origin: str

    @property
    def left(self) -> float:
        return max(0.0, self.cap - self.spent)


@dataclass(frozen=True)
class PartyTable:
    """A table of one party: the datasets that jobs read from it, or would, and its declared label sources."""

    party: str
    table: str
    home: Path
    datasets: tuple[str, ...]

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.home / LEDGER_FILE)

    @property
    def policy(self) -> Policy:
        return load_policy(self.home / POLICY_FILE)

    @property
    def sources(self) -> list[str]:
        return sorted(source for source in self.policy.label_sources if source.rpartition("/")[0] == self.table)


def known_tables(folder, party: str | None = None) -> list[PartyTable]:
    """All tables of the parties with a home here, or of one of them, that a job has read or a source was declared for."""
    found = []
    for party_id in party_ids(folder) if party is None else [party]:
        home = party_folder(folder, party_id)
        datasets: dict[str, list[str]] = {}
        for source in load_policy(home / POLICY_FILE).label_sources:
            datasets.setdefault(source.rpartition("/")[0], [])
        if (home / LEDGER_FILE).exists():
            for dataset, tables in Ledger(home / LEDGER_FILE).tables().items():
                for table in tables:
                    datasets.setdefault(table, []).append(dataset)
        found += [PartyTable(party_id, table, home, tuple(names)) for table, names in sorted(datasets.items())]
    return found


def table_of(folder, table: str, party: str | None, uploaded_columns) -> PartyTable:
    """The one table of that name.

    :param table: ``namespace/name``, or a dataset's own name as the ledger shows it where no job told a table.
    :param uploaded_columns: function from a table's name to the names of its features, None where FATE-Flow has no such
        table or does not run; asked only for a table that no job has read.
    :raises UnknownTable: there is none, or several parties have one.
    """
    if re.fullmatch(NUMBERED_COLUMNS, table):
        return _dataset(folder, table, party)
    if not TABLE.fullmatch(table):
        raise UnknownTable(f"The table is {table!r}; it must read NAMESPACE/NAME, as it was uploaded.")
    known = [found for found in known_tables(folder, party) if found.table == table]
    if len(known) > 1:
        _refuse_several(table, [found.party for found in known])
    if known and known[0].datasets:
        return known[0]
    columns = uploaded_columns(table)
    if columns is None and not known:
        raise UnknownTable(
            f"The table {table} is unknown: no job of {_whom(party)} has read it, and no FATE-Flow that runs here has it; "
            "check the name, or name the server with --flow."
        )
    owner = known[0].party if known else party
    if owner is None:
        raise UnknownTable(f"No job has read the table {table} yet; say with --party whose it is.")
    datasets = () if columns is None else (columns_name(columns),)
    return PartyTable(owner, table, party_folder(folder, owner), datasets)


def lines_of(table: PartyTable) -> list[CapLine]:
    """Every cap that holds for the table."""
    ledger, policy = table.ledger, table.policy
    found = [
        CapLine(table.party, table.table, f"labels {source.rpartition('/')[2]}, epsilon", ledger.spent_of_labels(source),
                policy.label_cap(source), 0.0, DEFAULT if policy.label_sources[source].cap is None else DECLARED)
        for source in table.sources
    ]  # fmt: skip
    for dataset in table.datasets:
        related = ledger.related(dataset)
        cap = policy.dataset_cap(dataset, related)
        origin = DEFAULT if cap == policy.default_dataset_cap else DECLARED
        spent = ledger.spent_by_steps(dataset, cap.delta)
        found.append(CapLine(table.party, table.table, "private steps, epsilon", spent, cap.epsilon, cap.delta, origin))
        if not table.sources:
            found += _counted(table, ledger, policy, dataset, related)
    return list(dict.fromkeys(found))


def counted_together(table: PartyTable) -> str | None:
    """One sentence where other tables have records in common with this one, as far as match ids say."""
    ledger, names = table.ledger, table.ledger.tables()
    related = {name for dataset in table.datasets for other in ledger.related(dataset) for name in names.get(other, [])}
    others = ", ".join(sorted(related - {table.table}))
    if not others:
        return None
    return (f"{table.table} counts together with {others}: they have match ids in common. Where those are mere row numbers, "
            "upload the tables with id columns of their own, and list these under separate_ids in the policy.")  # fmt: skip


def set_caps(table: PartyTable, caps: NewCaps) -> None:
    """Write caps into the party's policy; all of them or none.

    :raises InvalidPolicy: a cap is malformed or below what is spent, or the table has no such cap.
    """
    ledger, policy = table.ledger, table.policy
    _refuse_below_spent(table, ledger, policy, caps)
    _refuse_above_default_unread(table, ledger, policy, caps)
    _check(table, caps)
    make_home(table.home.parent, table.party)
    path = table.home / POLICY_FILE
    for dataset in table.datasets:
        if any(value is not None for value in (caps.epsilon, caps.delta, caps.scores)):
            declare_caps(path, dataset, epsilon=caps.epsilon, delta=caps.delta, scores=caps.scores)
        if caps.rows is not None:
            declare_caps(path, f"{WEIGHTS}{dataset.partition('#')[0]}", scores=caps.rows)
    if caps.labels is not None:
        declare_source(path, table.sources[0], cap=caps.labels)


def smaller_cap_elsewhere(table: PartyTable, caps: NewCaps) -> str | None:
    """One sentence where the cap of a table with some of the same records is smaller, and holds."""
    ledger, policy = table.ledger, table.policy
    for dataset in table.datasets:
        related, columns = ledger.related(dataset), ledger.feature_count(dataset)
        for asked, holding in ((caps.epsilon, policy.dataset_cap(dataset, related).epsilon),
                               (caps.scores, policy.score_cap(dataset, columns, related))):  # fmt: skip
            if asked is not None and holding < asked:
                names = ", ".join(sorted({ledger.called(other) for other in related if other != dataset}))
                return f"It stays {holding:g} for now, since that is the cap of a table with records in common: {names}."
    return None


def _dataset(folder, dataset: str, party: str | None) -> PartyTable:
    parties = party_ids(folder) if party is None else [party]
    homes = [(party_id, party_folder(folder, party_id)) for party_id in parties]
    known = [(party_id, home) for party_id, home in homes
             if (home / LEDGER_FILE).exists() and Ledger(home / LEDGER_FILE).feature_count(dataset)]  # fmt: skip
    if len(known) != 1:
        if known:
            _refuse_several(dataset, [party_id for party_id, _ in known])
        raise UnknownTable(f"The dataset {dataset} is unknown to the ledger of {_whom(party)}.")
    return PartyTable(known[0][0], dataset, known[0][1], (dataset,))


def _refuse_several(table: str, parties: list) -> None:
    raise UnknownTable(f"Parties {' and '.join(parties)} have a table {table}; name one with --party.")


def _whom(party: str | None) -> str:
    return "any party with a home here" if party is None else f"party {party}"


def _counted(table, ledger, policy, dataset, related) -> list[CapLine]:
    features = ledger.feature_count(dataset)
    weights = f"{WEIGHTS}{dataset.partition('#')[0]}"
    counts = [("models whose scores were shown", dataset, policy.score_cap(dataset, features, related), policy.score_caps)]
    if ledger.scores_released(weights):
        cap = policy.score_cap(weights, features, ledger.related(weights))
        counts.append(("rows scored with the weights", weights, cap, policy.score_caps))
    return [
        CapLine(table.party, table.table, kind, ledger.scores_released(name), cap, None,
                DEFAULT if cap == features // 4 and name not in declared else DECLARED)
        for kind, name, cap, declared in counts
    ]  # fmt: skip


def _refuse_below_spent(table: PartyTable, ledger: Ledger, policy: Policy, caps: NewCaps) -> None:
    if caps.labels is not None:
        if len(table.sources) != 1:
            raise InvalidPolicy(
                f"The table {table.table} has {len(table.sources)} declared label sources at party {table.party}; set the cap "
                f"of one with `fate-dp declare {table.table}/COLUMN --cap EPSILON`."
            )
        _refuse_below(table, "--labels", caps.labels, ledger.spent_of_labels(table.sources[0]), "epsilon {:g} of its labels")
    others = (caps.epsilon, caps.delta, caps.scores, caps.rows)
    if not table.datasets and any(value is not None for value in others):
        raise InvalidPolicy(
            f"No job has read the table {table.table} yet and FATE-Flow does not run here, so that its columns are unknown; "
            "start it with `fate-dp up`, or use `fate-dp declare-table FILE`."
        )
    for dataset in table.datasets:
        held = policy.dataset_cap(dataset, [dataset])
        epsilon, delta = caps.epsilon or held.epsilon, caps.delta or held.delta
        if caps.epsilon is not None or caps.delta is not None:
            spent = ledger.spent_by_steps(dataset, delta)
            _refuse_below(table, "--epsilon", epsilon, spent, f"epsilon {{:g}} (at delta {delta:g}) of its records")
        if caps.scores is not None:
            shown = ledger.scores_released(dataset)
            _refuse_below(table, "--scores", caps.scores, shown, "joint scores of {:g} models")
        if caps.rows is not None:
            scored = ledger.scores_released(f"{WEIGHTS}{dataset.partition('#')[0]}")
            _refuse_below(table, "--rows", caps.rows, scored, "{:g} rows")


def _refuse_above_default_unread(table: PartyTable, ledger: Ledger, policy: Policy, caps: NewCaps) -> None:
    """A table that no job has read is known by its columns alone, which another table may have, or a part of one."""
    default = policy.default_dataset_cap
    for dataset in table.datasets:
        raises = (caps.epsilon or 0) > default.epsilon or (caps.delta or 0) > default.delta or caps.scores or caps.rows
        if raises and table.table not in ledger.tables().get(dataset, []) and dataset != table.table:
            raise InvalidPolicy(
                f"No job has read the table {table.table} yet, and a cap above the default needs to know its records; use "
                "`fate-dp declare-table FILE`, or run a job on it first."
            )


def _check(table: PartyTable, caps: NewCaps) -> None:
    """Refuse a malformed cap before any is written: they are tried on a file that nobody reads."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / POLICY_FILE
        try:
            for dataset in table.datasets:
                declare_caps(path, dataset, epsilon=caps.epsilon, delta=caps.delta, scores=caps.scores)
                declare_caps(path, f"{WEIGHTS}{dataset}", scores=caps.rows)
            for source in table.sources:
                declare_source(path, source, cap=caps.labels)
        except InvalidPolicy as error:
            raise InvalidPolicy(str(error).replace(str(path), str(table.home / POLICY_FILE))) from error


def _refuse_below(table: PartyTable, option: str, cap: float, spent: float, what: str) -> None:
    # A cap below 0 is none at all, as the policy will say.
    if 0 <= cap < spent * (1 - ROUNDING):
        raise InvalidPolicy(
            f"{option} is {cap:g}, below what the table {table.table} of party {table.party} has spent, {what.format(spent)}; "
            "a cap cannot take back what was released, and nothing was changed."
        )
