"""Parameters of dp_homo_gbdt, and the public rules by which columns are cut into bins. No FATE in here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from fate_dp.privacy.bins import TableBins
from fate_dp.privacy.events import RELATIONS

from ..common.parameters import OneOf, parameter, parameters_of, settings_of
from ..common.preflight import Refusal
from ..common.vocabulary import delta_parameter
from ..protocols.bin_rules import CUTS, PUBLIC_FORMS, public_rule

AGGREGATIONS = ("secure_sum", "local")
SHUFFLE = "shuffle"
NORMAL_BINS = 32
MAX_DEPTH, MAX_TREES, MAX_COUNT = 10, 4096, 10**8


def aggregation(value: Any) -> str:
    """secure_sum or local, as in dp_homo_nn."""
    if value == SHUFFLE:
        why = "A shuffled answer is private by itself and would tell too little of a record's place in many leaves."
        raise Refusal.of("aggregation", value, "secure_sum or local", why)
    if value not in AGGREGATIONS:
        raise Refusal.of("aggregation", value, f"one of {', '.join(AGGREGATIONS)}")
    return value


def columns(value: object) -> dict[str, object]:
    """A rule for each column by its name, of numbers that are public."""
    if not isinstance(value, Mapping) or not value or not all(isinstance(name, str) and name for name in value):
        raise Refusal.of("columns", value, f"a mapping of names of columns to rules such as {PUBLIC_FORMS}")
    for name, each in value.items():
        public_rule(name, each)
    return {name: dict(each) for name, each in value.items()}


def other_columns(value: Any) -> dict[str, object]:
    """The rule of every column that ``columns`` does not name."""
    public_rule("other_columns", value)
    return dict(value)


def normal_cuts() -> list[float]:
    """Quantiles of a standard normal, which read no record: cut points of columns in units of standard deviations."""
    return [NormalDist().inv_cdf(part / NORMAL_BINS) for part in range(1, NORMAL_BINS)]


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Parameters of one training, under dp_homo_nn's names where it has them; every party of a job holds the same.

    Exactly one of ``epsilon`` (a target in nats, at ``delta`` under ``relation``) and ``noise_multiplier`` (sigma over what one
    record moves the sums of a round by). ``trees`` are divided evenly among ``rounds``.

    The defaults of trees, rounds, depth and learning rate, and what `growth` has as constants, were chosen on Lending Club's
    loans, and on other divisions of Adult and default_credit than those that are reported.
    """

    columns: Mapping[str, Any] | None = parameter(
        "bins of columns by name, from public facts: cuts, categories, or a range with bins of equal width; None means "
        "other_columns for all",
        None,
        check=columns,
    )
    other_columns: Mapping[str, Any] | None = parameter(
        f"bins of all columns that columns does not name; None means {NORMAL_BINS} bins of a standard normal, for columns in "
        "units of standard deviations",
        None,
        check=other_columns,
    )
    trees: int = parameter("trees of all rounds together", 160, at_least=1, at_most=MAX_TREES)
    rounds: int = parameter("noisy releases, of as many trees each", 8, at_least=1, at_most=MAX_TREES)
    depth: int = parameter("levels of splits of a tree", 6, at_least=1, at_most=MAX_DEPTH)
    learning_rate: float = parameter(
        "how far the trees of a round go beyond their mean; above 1 since a random tree finds a part of what is there",
        2.0,
        above=0,
        at_most=10,
    )
    records: int = parameter(
        "public number of the records of all parties together, an upper bound",
        at_least=1,
        at_most=MAX_COUNT,
        note="Public number of the records of all parties together.",
    )
    epsilon: float | None = parameter("target in nats; this or noise_multiplier", None, above=0)
    noise_multiplier: float | None = parameter(
        "standard deviation of the noise over what one record moves, in place of epsilon", None, above=0
    )
    delta: float = delta_parameter("the guarantee")
    relation: str = parameter(
        "how neighbours differ: add_or_remove or replace_one", "add_or_remove", check=OneOf(RELATIONS)
    )
    aggregation: str = parameter("who must be trusted: secure_sum or local", "secure_sum", check=aggregation)
    max_dropouts: int = parameter("parties that may drop out or collude, at least 1", 1, at_least=1)
    random_state: int = parameter("public seed of the splits, which read no record", 0, at_least=0, at_most=2**63 - 1)
    threshold: float = parameter("scores above it predict the class 1", 0.5, at_least=0, at_most=1)

    def __post_init__(self) -> None:
        for name, declared in parameters_of(TrainSettings).items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, declared.check(value))
        if (self.epsilon is None) == (self.noise_multiplier is None):
            given = self.epsilon, self.noise_multiplier
            raise Refusal.of("epsilon and noise_multiplier", given, "given one without the other")
        if self.trees % self.rounds:
            raise Refusal.of("trees", self.trees, f"a multiple of rounds, {self.rounds}")

    @property
    def trees_of_round(self) -> int:
        return self.trees // self.rounds

    def bins_of(self, names: Sequence[str]) -> TableBins:
        """The bins of a table's columns; refuses rules for columns that it does not have."""
        rules = self.columns or {}
        unknown = next((name for name in rules if name not in names), None)
        if unknown is not None:
            raise Refusal(f"columns names {unknown!r}; the tables have no such column.")
        other = self.other_columns or {CUTS: normal_cuts()}
        return TableBins(tuple(public_rule(name, rules.get(name, other)).column for name in names))

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in parameters_of(TrainSettings)}


def given_settings(given: Mapping[str, object]) -> TrainSettings:
    """Settings from parameters; FATE gives None for one that was not set, which means the default of the dataclass."""
    if given.get("records") is None:
        raise Refusal("records is not set; dp_homo_gbdt needs it: the public number of the records of all parties.")
    return settings_of(TrainSettings, given)
