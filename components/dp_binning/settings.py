"""Parameters of dp_binning. No FATE in here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..common.federation import Document
from ..common.parameters import OneOf, label_source, parameter
from ..common.preflight import Refusal
from ..common.vocabulary import LABEL, NONE, RECORD, delta_parameter, he_parameter
from ..protocols.bin_rules import FORMS, QuantileBins, Rule, rule

LEVELS = (LABEL, RECORD, NONE)
"""What noise protects: the guest's labels from hosts, every party's records from everybody; or nothing, which needs labels
that are flips of label_flip, or public."""
NOISY = (LABEL, RECORD)
GAUSSIAN, LAPLACE = NOISES = ("gaussian", "laplace")


def columns(value: object) -> dict[str, Rule]:
    """A rule for each column by its name; names that a party's table does not have are those of other parties."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) and name for name in value):
        raise Refusal.of("columns", value, f"a mapping of names of columns to rules such as {FORMS}")
    return {name: rule(name, each) for name, each in value.items()}


def other_columns(value: object) -> Rule:
    """The rule of every column that ``columns`` does not name."""
    return rule("other_columns", value)


@dataclass(frozen=True)
class Settings:
    """The number of a bin in the place of every value, with WOE and IV of each party's columns from private counts.

    A rule is ``{"cuts": [30, 60]}``, ``{"categories": [1, 2]}``, ``{"range": [0, 10], "bins": 5}``, or with
    ``bins_epsilon`` ``{"range": [0, 10], "quantiles": 5}``. Ranges, cut points and categories must come from public facts.
    Rules may be each party's own: ``task.hosts[0].task_parameters(columns=...)``.
    """

    columns: dict[str, Rule] | None = parameter(
        "bins of columns by name: cuts, categories, or a public range with bins (equally wide) or quantiles (private), perhaps "
        "with special codes; None means other_columns for all",
        None,
        check=columns,
    )
    other_columns: Rule | None = parameter(
        "bins of all columns that columns does not name; None means that it names all of them",
        None,
        check=other_columns,
    )
    privacy: str = parameter(
        "what noise on the counts protects: label, record, or none, where labels are flips of label_flip or public",
        NONE,
        check=OneOf(LEVELS),
    )
    epsilon: float | None = parameter(
        "privacy loss of one record of a party in nats, replace-one, for its part of all counts; None means no noise",
        None,
        above=0,
    )
    delta: float = delta_parameter("the noise on the counts, with noise gaussian; with laplace it is 0")
    noise: str = parameter(
        "law of this party's noise on the counts: gaussian, or laplace for delta 0, which is less for few columns",
        GAUSSIAN,
        check=OneOf(NOISES),
    )
    woe: bool = parameter(
        "whether WOE and IV are computed; false counts nothing: no sums of labels are exchanged, nothing but quantiles is "
        "charged, and privacy and epsilon are left out",
        True,
    )
    bins_epsilon: float | None = parameter(
        "privacy loss of one record in nats, replace-one, for all quantiles of a party; None means no quantiles",
        None,
        above=0,
    )
    smoothing: float = parameter("records that WOE and IV add to each bin, split as the whole column", 1.0, above=0)
    label_source: str | None = parameter(
        "namespace/name/column of the guest's labels: with privacy label what they are charged to, with none labels that are "
        "declared public, and None means then that the ledger is searched",
        None,
        check=label_source,
    )
    he_param: Document = he_parameter()

    def __post_init__(self) -> None:
        """Raise ValueError unless what protects has an epsilon, and nothing else has one."""
        if not self.woe and (self.privacy != NONE or self.epsilon is not None):
            given = f"privacy is {self.privacy}" if self.privacy != NONE else f"epsilon is {self.epsilon!r}"
            raise Refusal(f"woe is false, which counts nothing that could be protected, but {given}; leave it out.")
        if (self.privacy in NOISY) != (self.epsilon is not None):
            wanted = "a finite number above 0" if self.privacy in NOISY else "left out"
            raise Refusal.of("epsilon", self.epsilon, f"{wanted} with privacy {self.privacy}")
        rules = [*(self.columns or {}).values(), self.other_columns]
        if self.bins_epsilon is None and any(isinstance(each, QuantileBins) for each in rules):
            raise Refusal.of("bins_epsilon", None, "a finite number above 0 with quantiles, which cost it")

    @property
    def released_delta(self) -> float:
        """Delta of the noise: none with the law of Laplace."""
        return 0.0 if self.noise == LAPLACE else self.delta

    def rules_of(self, names: Iterable[str]) -> dict[str, Rule]:
        """The rule of each column of a party's table; raises KeyError, with its name, for one without."""
        rules = {name: (self.columns or {}).get(name, self.other_columns) for name in names}
        for name, found in rules.items():
            if found is None:
                raise KeyError(name)
        return {name: found for name, found in rules.items() if found is not None}
