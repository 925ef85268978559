"""A first model of two files: what `fate-dp try` is asked, how it divides epsilon, and the job that it writes and runs.

The job is a Python file, which calls what the how-tos call; `fate-dp try` runs that very file. Nobody is shown anything of the data
beforehand but its owner: bins come from declared rules or, in the job, from private quantiles.
"""

import os
import shlex
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from pprint import pformat
from typing import Any

import yaml

from fate_dp.components.common.charges import PartyHome, columns_name
from fate_dp.components.dp_binning.settings import columns
from fate_dp.components.dp_hetero_lr.rows import MIN_VALUES, are_few
from fate_dp.components.protocols.bin_rules import CATEGORIES, QUANTILES, RANGE, QuantileBins
from fate_dp.deploy.flow.home import open_home
from fate_dp.privacy import BudgetExceeded
from fate_dp.privacy.declared import YamlReader
from fate_dp.privacy.private_files import POLICY_FILE
from fate_dp.privacy.table_facts import BY_COLUMN, TableFacts
from fate_dp.privacy.validation import DEFAULT_DELTA, InvalidArgument, check_epsilon

from .csv_files import MISSING, CsvTable, TableMeta, columns_of
from .party_ledgers import has_ledger, home_at
from .ready import Parties, Tables
from .scorecard_plan import MAX_FOLDS, CardPlan, CardRequest, charges_of, folds_that_fit, plan_scorecard
from .upload import check_table

SCORECARD, LR, TREES = "scorecard", "lr", "trees"
BINS = 6
"""Of a column that nobody gives a rule for."""
HELD_OUT = 0.2
ROLES = ("guest", "host")
WIDTH = 110


@dataclass(frozen=True)
class FirstModel:
    """What a user asks for, and what follows from it; nothing is written or charged.

    Attributes:
        files, ids: of guest and host: CSV files, and the columns that they are joined on.
        epsilon, delta: nats; of each party's part of a record in all with a scorecard, else of a label, delta 0.
        bins: a file of rules, {guest: {column: rule}, host: ...}, as dp_binning takes them; None for private quantiles.
        facts: public ones of columns, of whichever file has them.
        most_folds: of a cross-validation; 0 holds a fifth of the rows out instead.
        out, home: where results go, and the folder of the embedded server.
        names: whether the host agrees that the card names its columns and bins.
    """

    model: str
    files: tuple[Path, Path]
    ids: tuple[str, str]
    label: str
    epsilon: float
    delta: float = DEFAULT_DELTA
    bins: Path | None = None
    facts: TableFacts = TableFacts()
    most_folds: int = MAX_FOLDS
    out: Path = Path("out/try")
    home: Path = Path(".fate-dp")
    names: bool = True

    def check(self) -> list[str]:
        """What was decided, in sentences; raises InvalidArgument, one sentence, for what would fail later."""
        check_epsilon(self.epsilon)
        if self.most_folds < 0 or self.most_folds == 1:
            raise InvalidArgument.of("--folds", self.most_folds, "0, or a whole number from 2")
        if self.files[0].stem == self.files[1].stem:
            raise InvalidArgument(f"Both files are called {self.files[0].stem}, as their tables will be; rename one.")
        refuse_unwritable(self.out)
        classes = sorted(set(self.tables[0].frame[self.label]))
        if classes != ["0", "1"]:
            told = ", ".join(classes[:4]) + (", ..." if len(classes) > 4 else "")
            raise InvalidArgument(f"--label {self.label} must be 0 or 1 in every row, 1 for the event, got {told}.")
        if not self.records:
            raise InvalidArgument(
                f"No {self.ids[0]!r} of {self.files[0]} is a {self.ids[1]!r} of {self.files[1]}; name the columns with --id A=B."
            )
        notes = [f"{table.path}: {note}" for table in self.tables for note in table.notes]
        return [*notes, *(self._check_scorecard() if self.model == SCORECARD else self._check_flips())]

    @cached_property
    def metas(self) -> tuple[TableMeta, TableMeta]:
        """Of guest and host, each with the facts of its columns."""
        metas = [TableMeta(self.ids[0], self.label), TableMeta(self.ids[1])]
        known = [columns_of(path, meta) for path, meta in zip(self.files, metas)]
        named = {name for about in BY_COLUMN for name in getattr(self.facts, about)}
        unknown = named - {name for own in known for name in own}
        if unknown:
            raise InvalidArgument(f"A flag names the column {min(unknown)!r}, which neither file has.")
        guest, host = (replace(meta, facts=self.facts.of_columns(own)) for meta, own in zip(metas, known))
        return guest, host

    @cached_property
    def tables(self) -> tuple[CsvTable, CsvTable]:
        return check_table(self.files[0], self.metas[0]), check_table(self.files[1], self.metas[1])

    @cached_property
    def records(self) -> int:
        """In both files; how many psi joins is public."""
        return len(set(self.tables[0].ids) & set(self.tables[1].ids))

    @property
    def uploaded(self) -> Tables:
        return Tables("try", *("_".join(each.stem.split()) for each in self.files))

    @cached_property
    def rules(self) -> dict[str, dict[str, Any]]:
        """Of every column: what the file of bins says, its categories, or private quantiles at any magnitude."""
        given: Any = {}
        if self.bins is not None:
            try:
                given = yaml.load(self.bins.read_text(encoding="utf-8"), YamlReader)
            except (OSError, ValueError, yaml.YAMLError) as error:
                raise InvalidArgument(f"--bins {self.bins} cannot be read as YAML: {error}") from error
            if not isinstance(given, dict) or not all(isinstance(given.get(role, {}), dict) for role in ROLES):
                raise InvalidArgument(f"--bins {self.bins} must have rules of columns under guest and host.")
        found: dict[str, dict[str, Any]] = {}
        for role, table, meta in zip(ROLES, self.tables, self.metas):
            own = given.get(role, {})
            unknown = [name for name in own if name not in table.features]
            if unknown:
                raise InvalidArgument(f"--bins has a rule for {unknown[0]!r}, which is not a feature of {table.path}.")
            listed: dict[str, Any] = {
                name: {CATEGORIES: list(range(len(each)))} for name, each in meta.facts.categories.items()
            }
            listed |= {name: {RANGE: list(ends), QUANTILES: BINS} for name, ends in meta.facts.ranges.items()}
            found[role] = {name: own.get(name, listed.get(name, {QUANTILES: BINS})) for name in table.features}
        return found

    @cached_property
    def request(self) -> CardRequest:
        """Of the noise, with all records and no folds."""
        guest, host = (list(columns(self.rules[role]).values()) for role in ROLES)
        bins = max(2, round(sum(each.most_bins - 1 for each in guest + host) / len(guest + host)))
        cut = [tuple(each.bins for each in own if isinstance(each, QuantileBins)) for own in (guest, host)]
        sizes = self.records, len(guest), len(host)
        return CardRequest(*sizes, self.epsilon, self.delta, bins, guest_quantiles=cut[0], host_quantiles=cut[1])

    @cached_property
    def scores_left(self) -> int:
        """Of how many more scorecards the host shows the guest points of training rows."""
        home, name, related = self._dataset(1)
        shown = home.ledger.scores_released(name) if related else 0
        return max(0, home.policy.score_cap(name, len(self.tables[1].features), related) - shown)

    @cached_property
    def folds(self) -> int:
        """As many as noise and the host's cap leave; 0 where a fifth of the rows is held out."""
        most = min(folds_that_fit(self.request, self.most_folds), self.scores_left) if self.model == SCORECARD else 0
        return most if most >= 2 else 0

    @cached_property
    def plan(self) -> CardPlan:
        """Of a scorecard's noise."""
        trained = self.records if self.folds else round((1 - HELD_OUT) * self.records)
        return plan_scorecard(replace(self.request, records=trained, folds=self.folds))

    def source(self) -> str:
        """The job, as Python."""
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        loader = FileSystemLoader(Path(__file__).parent)
        made = Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
        made.filters["py"] = lambda value, left=0: pformat(value, width=WIDTH - left, sort_dicts=False).replace(
            "\n", "\n" + " " * left
        )
        rows = self.plan.rows if self.model == SCORECARD else ()
        return made.get_template("first_job.jinja").render(
            asked=self, held_out=HELD_OUT, parties=list(zip(("guest", "hosts[0]"), ROLES, rows))
        )

    def _dataset(self, at: int) -> tuple[PartyHome, str, list[str]]:
        """The home of guest or host, what its ledger calls the table, and all that counts with it; none where it has no ledger."""
        home = home_at(open_home(self.home).parties, getattr(Parties(), ROLES[at]))
        name = columns_name(self.tables[at].features)
        return home, name, home.ledger.related(name) if has_ledger(home) else []

    def _check_scorecard(self) -> list[str]:
        for at, row in enumerate(self.plan.rows):
            home, name, related = self._dataset(at)
            cap = home.policy.dataset_cap(name, related)
            events = charges_of(self.plan.request, at, row.bins_epsilon, row.epsilon)
            try:
                if related:
                    home.ledger.check_steps(dataset=name, events=events, cap=cap)
                fits = self.epsilon <= cap.epsilon
            except BudgetExceeded:
                fits = False
            if not fits:
                self._refuse_epsilon(at, home.ledger.spent_by_steps(name, cap.delta) if related else 0.0, cap.epsilon)
        few = f"the host's cap leaves {self.scores_left} scorecards whose points of training rows it shows"
        why = few if self.scores_left < 2 else "folds would have too much noise, or none were requested"
        on = f"by {self.folds} folds" if self.folds else f"on a fifth of the rows, held out at no epsilon, since {why}"
        return [
            f"Epsilon {self.epsilon:g} at delta {self.delta:g} is each party's total for bins, card{' and folds' * bool(self.folds)}; "
            f"{self.records} records are in both files.",
            f"The card is measured {on}.",
        ]

    def _refuse_epsilon(self, at: int, spent: float, cap: float) -> None:
        file, own_id, label = shlex.quote(str(self.files[at])), shlex.quote(self.ids[at]), shlex.quote(self.label)
        table = f"{self.uploaded.namespace}/{getattr(self.uploaded, ROLES[at])}"
        command = (
            f"{file} {table} --party {getattr(Parties(), ROLES[at])} --id {own_id}{'' if at else f' --label {label}'}"
        )
        raise InvalidArgument(
            f"--epsilon is {self.epsilon:g}, but {file} has spent {spent:.3g} of its cap of {cap:g}; ask for less, or let the "
            f"{ROLES[at]}'s operator run `fate-dp declare-table {command} --epsilon {spent + self.epsilon:.3g}`."
        )

    def _check_flips(self) -> list[str]:
        source = self.uploaded.label_source(self.label)
        cap = self._dataset(0)[0].policy.label_cap(source)
        if self.epsilon > cap:
            command = f"fate-dp declare {shlex.quote(source)} --cap {self.epsilon:g}"
            raise InvalidArgument(f"--epsilon is above the cap of {source}, {cap:g}; `{command}` raises it.")
        if self.model == TREES and "_" in self.label:
            raise InvalidArgument(
                f"--label {self.label} has an underscore, which FATE's SecureBoost does not accept; rename it."
            )
        for table in self.tables:
            for name in table.features:
                if (table.frame[name] == MISSING).any():
                    told = f"{table.path} has missing values as {name}, which trainings on flips do not accept"
                    raise InvalidArgument(f"{told}; try a scorecard, or fill them.")
        if self.model == LR:
            self._check_shown_scores()
        return [f"Labels are flipped at epsilon {self.epsilon:g}; a fifth of {self.records} records is held out."]

    def _check_shown_scores(self) -> None:
        """Refuse what the host would refuse once labels are paid for: held-out scores that show columns of few values."""
        host, (home, name, related) = self.tables[1], self._dataset(1)
        rows = host.frame[host.features]
        different = rows.nunique()
        if not are_few(different, len(rows.drop_duplicates()), len(rows)):
            return
        if not home.policy.consents_to_few_values(name, related):
            few = f"{MIN_VALUES} different values as {different.idxmin()}"
            told = few if different.min() < MIN_VALUES else "a quarter as many different rows as rows"
            raise InvalidArgument(
                f"{host.path} has fewer than {told}, which joint scores would show; try a scorecard, or let the host's operator "
                f"list {name} under few_valued_scores in {home.path / POLICY_FILE}."
            )


def refuse_unwritable(out: Path) -> None:
    """Make the folder; raises InvalidArgument where nothing can be written into it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        writable = os.access(out, os.W_OK | os.X_OK)
    except OSError:
        writable = False
    if not writable:
        raise InvalidArgument(f"--out {out} is not a writable folder; name another.")
