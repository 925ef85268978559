"""The caps of a party's tables by the names that they were uploaded under: what is spent, what may be, and setting it."""

import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fate_dp.components.common.charges import PartyHome, columns_name
from fate_dp.privacy import InvalidPolicy
from fate_dp.privacy.ledger.database import WEIGHTS
from fate_dp.privacy.ledger.datasets import LABELS, base_name, is_source
from fate_dp.privacy.ledger.entries import JOINT_SCORES, LOSSES
from fate_dp.privacy.ledger.history import SpentAt
from fate_dp.privacy.ledger.labels import ROUNDING
from fate_dp.privacy.ledger.policy import DEFAULT_LOSS_CAP, NUMBERED_COLUMNS, declare_caps, declare_source
from fate_dp.privacy.private_files import POLICY_FILE, AnyPath
from fate_dp.privacy.table_facts import TableFacts
from fate_dp.privacy.validation import InvalidArgument, is_name

from .party_ledgers import NewCaps, has_ledger, home_at, homes_of, make_home, spent_on_labels

STEPS = "private steps, epsilon"
TRAININGS = "trainings whose losses were shown"


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
    """A table of one party: the datasets that jobs read from it, or would, and its declared label sources.

    ``undeclared`` are label sources that only the ledger knows, since their declaration was taken back.
    """

    party: str
    table: str
    home: PartyHome
    datasets: tuple[str, ...]
    undeclared: tuple[str, ...] = ()

    @property
    def sources(self) -> list[str]:
        return sorted(source for source in self.home.policy.label_sources if source.rpartition("/")[0] == self.table)


def known_tables(folder: AnyPath, party: str | None = None) -> list[PartyTable]:
    """All tables of the parties with a home here, or of one of them, that a job has read or a source was declared for."""
    found = []
    for party_id, home in homes_of(folder, party).items():
        datasets: dict[str, list[str]] = {source.rpartition("/")[0]: [] for source in home.policy.label_sources}
        if has_ledger(home):
            for dataset, tables in home.ledger.tables().items():
                for table in tables:
                    datasets.setdefault(table, []).append(dataset)
        found += [PartyTable(party_id, table, home, tuple(names)) for table, names in sorted(datasets.items())]
    return found


def charged_tables(folder: AnyPath, party: str, totals: list[dict[str, Any]]) -> list[PartyTable]:
    """``known_tables`` of a party, and what has ``totals`` in its ledger under a name that belongs to none of them."""
    known, home = known_tables(folder, party), home_at(folder, party)
    names = {name for table in known for name in (*table.sources, *table.datasets)}
    tables = home.ledger.tables()

    def table_names(account: str) -> str:
        dataset = account.removeprefix(LABELS)
        return ", ".join(tables.get(dataset, [dataset]))

    charged = {(line["dataset"].removeprefix(WEIGHTS), line["unit"] == "label") for line in totals}
    others = [
        PartyTable(party, name.rpartition("/")[0] if is_source(name) else table_names(name), home, (), (name,))
        if has_labels
        else PartyTable(party, name, home, (name,))
        for name, has_labels in sorted(charged)
        if name not in names
    ]
    return [*known, *others]


def table_of(folder: AnyPath, table: str, party: str | None) -> PartyTable:
    """The one table of that name, ``namespace/name``, or a dataset's own name as the ledger shows it for lack of one.

    Raises InvalidArgument where no job has read such a table and none was uploaded, or several parties have one.
    """
    whom = "any party with a home here" if party is None else f"party {party}"
    if re.fullmatch(NUMBERED_COLUMNS, table):
        homes = homes_of(folder, party)
        readers = [name for name, home in homes.items() if has_ledger(home) and home.ledger.feature_count(table)]
        if not readers:
            raise InvalidArgument(f"The ledger of {whom} knows no dataset {table}.")
        reader = str(_only(table, readers, party))
        return PartyTable(reader, table, homes[reader], (table,))
    if not all(map(is_name, table.split("/", 1))) or "/" not in table:
        raise InvalidArgument.of("table", table, "NAMESPACE/NAME, as it was uploaded")
    known = [found for found in known_tables(folder, party) if found.table == table]
    owner = _only(table, [found.party for found in known], party)
    if known and known[0].datasets:
        return known[0]
    said = [home.policy.tables.get(table, TableFacts()).features for home in homes_of(folder, owner or party).values()]
    columns = next(filter(None, said), None)
    if columns is None and not known:
        raise InvalidArgument(
            f"The table {table} is unknown: no job of {whom} has read it, and `fate-dp upload` did not send it; check the name."
        )
    if owner is None:
        raise InvalidArgument(f"No job has read the table {table} yet; say with --party whose it is.")
    datasets = () if columns is None else (columns_name(columns),)
    return PartyTable(owner, table, home_at(folder, owner), datasets)


def _only(table: str, owners: list[str], party: str | None) -> str | None:
    """The one party that has the table, or else the one that was named."""
    if len(owners) > 1:
        raise InvalidArgument(f"Parties {' and '.join(owners)} have a table {table}; name one with --party.")
    return owners[0] if owners else party


def lines_of(table: PartyTable) -> list[CapLine]:
    """Every cap that holds for the table."""
    return list(counted_names(table))


def counted_names(table: PartyTable) -> dict[CapLine, str]:
    """Every cap that holds for the table, with the name under which the ledger counts against it."""
    ledger, policy = table.home.ledger, table.home.policy
    found: dict[CapLine, str] = {}

    def add(kind: str, name: str, spent: float, cap: float, delta: float | None, is_default: bool) -> None:
        line = CapLine(table.party, table.table, kind, spent, cap, delta, "default" if is_default else "declared")
        found.setdefault(line, name)

    for source in (*table.sources, *table.undeclared):
        declares = is_source(source)
        kind = f"labels {source.rpartition('/')[2]}, epsilon" if declares else "labels, epsilon"
        cap, spent, delta = spent_on_labels(table.home, source)
        default = policy.default_dataset_cap.epsilon
        is_default = policy.source(source).cap is None if declares else cap.epsilon == default
        add(kind, source, spent, cap.epsilon, delta, is_default)
    for dataset in table.datasets:
        budget = policy.dataset_cap(dataset, ledger.related(dataset))
        spent, is_default = ledger.spent_by_steps(dataset, budget.delta), budget == policy.default_dataset_cap
        add(STEPS, dataset, spent, budget.epsilon, budget.delta, is_default)
        counted = [] if table.sources else [("models whose scores were shown", dataset)]
        if counted and ledger.scores_released(_weights(dataset)):
            counted.append(("rows scored with the weights", _weights(dataset)))
        features = ledger.feature_count(dataset)
        for kind, name in counted:
            cap = policy.score_cap(name, features, ledger.related(name))
            is_default = cap == features // 4 and name not in policy.score_caps
            add(kind, name, ledger.scores_released(name), cap, None, is_default)
        if not table.sources:
            cap = policy.loss_cap(dataset, ledger.related(dataset))
            add(TRAININGS, dataset, ledger.counted(dataset, LOSSES), cap, None, cap == DEFAULT_LOSS_CAP)
    return found


def history_of(table: PartyTable, line: CapLine, name: str) -> list[SpentAt]:
    """What counted against one of the ``counted_names`` of a table, oldest first."""
    ledger = table.home.ledger
    if line.delta is None:
        return ledger.counts(name, LOSSES if line.kind == TRAININGS else JOINT_SCORES)
    return ledger.step_spending(name, line.delta) if line.kind == STEPS else ledger.label_spending(name, line.delta)


def _weights(dataset: str) -> str:
    """Under which name the ledger counts rows scored with the weights of the dataset's columns."""
    return f"{WEIGHTS}{base_name(dataset)}"


def counted_together(table: PartyTable) -> str | None:
    """One sentence where other tables have records in common with this one, as far as match ids say."""
    ledger, names = table.home.ledger, table.home.ledger.tables()
    related = {name for dataset in table.datasets for other in ledger.related(dataset) for name in names.get(other, [])}
    others = ", ".join(sorted(related - {table.table}))
    if not others:
        return None
    return (
        f"{table.table} counts together with {others}: they have match ids in common. Where those name other records, "
        "upload the table under another name with `fate-dp upload --population`."
    )


def set_caps(table: PartyTable, caps: NewCaps) -> None:
    """Write caps into the party's policy, all or none; InvalidPolicy for one that is malformed, below what is spent, or none."""
    _refuse_below_spent(table, caps)
    _refuse_above_default_unread(table, caps)
    path = table.home.path / POLICY_FILE
    # A malformed cap is refused before any is written: they are tried on a file that nobody reads.
    with tempfile.TemporaryDirectory() as folder:
        tried = Path(folder) / POLICY_FILE
        try:
            _write(tried, table, caps)
        except InvalidPolicy as error:
            raise InvalidPolicy(str(error).replace(str(tried), str(path))) from error
    make_home(table.home.path.parent, table.party)
    _write(path, table, caps)


def _write(path: Path, table: PartyTable, caps: NewCaps) -> None:
    for dataset in table.datasets:
        declare_caps(path, dataset, epsilon=caps.epsilon, delta=caps.delta, scores=caps.scores, losses=caps.losses)
        if caps.rows is not None:
            declare_caps(path, _weights(dataset), scores=caps.rows)
    if caps.labels is not None:
        declare_source(path, table.sources[0], cap=caps.labels)


def smaller_cap_elsewhere(table: PartyTable, caps: NewCaps) -> str | None:
    """One sentence where the cap of a table with some of the same records is smaller, and holds."""
    ledger, policy = table.home.ledger, table.home.policy
    for dataset in table.datasets:
        related, columns = ledger.related(dataset), ledger.feature_count(dataset)
        for asked, holding in (
            (caps.epsilon, policy.dataset_cap(dataset, related).epsilon),
            (caps.scores, policy.score_cap(dataset, columns, related)),
            (caps.losses, policy.loss_cap(dataset, related)),
        ):
            if asked is not None and holding < asked:
                names = ", ".join(sorted({ledger.called(other) for other in related if other != dataset}))
                return (
                    f"It stays {holding:g} for now, since that is the cap of a table with records in common: {names}."
                )
    return None


def _refuse_below_spent(table: PartyTable, caps: NewCaps) -> None:
    ledger, policy = table.home.ledger, table.home.policy
    if caps.labels is not None:
        if len(table.sources) != 1:
            raise InvalidPolicy(
                f"The table {table.table} has {len(table.sources)} declared label sources at party {table.party}; set the cap "
                f"of one with `fate-dp declare {shlex.quote(table.table)}/COLUMN --cap EPSILON`."
            )
        spent = ledger.spent_of_labels(table.sources[0], policy.label_delta)
        _refuse_below(table, "--labels", caps.labels, spent, "epsilon {:g} of its labels")
    others = (caps.epsilon, caps.delta, caps.scores, caps.losses, caps.rows)
    if not table.datasets and any(value is not None for value in others):
        raise InvalidPolicy(
            f"No job has read the table {table.table} yet and `fate-dp upload` did not send it, so its columns are unknown; "
            "use `fate-dp declare-table FILE`."
        )
    for dataset in table.datasets:
        held = policy.dataset_cap(dataset, [dataset])
        epsilon, delta = caps.epsilon or held.epsilon, caps.delta or held.delta
        if caps.epsilon is not None or caps.delta is not None:
            spent = ledger.spent_by_steps(dataset, delta)
            _refuse_below(table, "--epsilon", epsilon, spent, f"epsilon {{:g}} (at delta {delta:g}) of its records")
        _refuse_below(table, "--scores", caps.scores, ledger.scores_released(dataset), "joint scores of {:g} models")
        _refuse_below(table, "--losses", caps.losses, ledger.counted(dataset, LOSSES), "losses of {:g} trainings")
        _refuse_below(table, "--rows", caps.rows, ledger.scores_released(_weights(dataset)), "{:g} rows")


def _refuse_above_default_unread(table: PartyTable, caps: NewCaps) -> None:
    """A table that no job has read is known by its columns alone, which another table may have, or a part of one."""
    tables, default = table.home.ledger.tables(), table.home.policy.default_dataset_cap
    for dataset in table.datasets:
        raises = (caps.epsilon or 0) > default.epsilon or (caps.delta or 0) > default.delta or caps.scores or caps.rows
        raises = raises or (caps.losses or 0) > DEFAULT_LOSS_CAP
        if raises and table.table not in tables.get(dataset, []) and dataset != table.table:
            raise InvalidPolicy(
                f"No job has read the table {table.table} yet, and a cap above the default needs to know its records; use "
                "`fate-dp declare-table FILE`, or run a job on it first."
            )


def _refuse_below(table: PartyTable, option: str, cap: float | None, spent: float, what: str) -> None:
    # A cap below 0 is none at all, as the policy will say.
    if cap is not None and 0 <= cap < spent * (1 - ROUNDING):
        raise InvalidPolicy(
            f"{option} is {cap:g}, below what the table {table.table} of party {table.party} has spent, {what.format(spent)}; "
            "a cap cannot take back what was released, and nothing was changed."
        )
