"""Parameters of dp_scorecard. No FATE in here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fate_dp.privacy.bins import TableBins
from fate_dp.privacy.mechanisms.contingency_tables import MAX_TOTAL, MIN_BINS
from fate_dp.privacy.mechanisms.second_moments import noise_multiplier_for

from ..common.federation import Document
from ..common.parameters import OneOf, choice, label_source, number, parameter, same_as
from ..common.preflight import Refusal
from ..common.vocabulary import LABEL, NONE, RECORD, delta_parameter, he_parameter
from ..dp_hetero_lr.settings import FoldSettings as FoldSettings
from ..dp_hetero_lr.settings import PredictSettings as HeteroPredictSettings
from ..dp_hetero_lr.settings import TrainSettings as HeteroTrainSettings
from .additive import DECREASING, INCREASING, Scale

JOINT, PLAIN = "joint", "plain"
MAX_PATH = 32


def bins(value: object) -> int | dict[str, int]:
    """A whole number of bins for every column, or a mapping {column: number of bins} that names all of them."""
    if value == {}:
        raise Refusal.of("bins", {}, "a mapping that names every column")
    if not isinstance(value, dict):
        return int(number("bins", value, at_least=MIN_BINS, at_most=MAX_TOTAL, whole=True))
    return {
        str(name): int(number(f"bins of {name!r}", each, at_least=MIN_BINS, at_most=MAX_TOTAL, whole=True))
        for name, each in value.items()
    }


def monotone(value: object) -> dict[str, str]:
    """A mapping {column: increasing or decreasing}: how the odds of the label 1 may change from bin to bin."""
    if not isinstance(value, dict):
        raise Refusal.of("monotone", value, f"a mapping of columns to {INCREASING} or {DECREASING}")
    return {str(name): choice(f"monotone of {name!r}", each, (INCREASING, DECREASING)) for name, each in value.items()}


def ridge_path(value: object) -> tuple[float, ...]:
    """A list of up to 32 multiples of the ridge, each greater than 0."""
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= MAX_PATH:
        raise Refusal.of("ridge_path", value, f"a list of 1 to {MAX_PATH} multiples of the ridge")
    return tuple(float(number("ridge_path", each, above=0)) for each in value)


@dataclass(frozen=True)
class TrainSettings:
    """A scorecard: an additive model on the bins of guest and hosts, private for each party's part of a record.

    ``epsilon``, ``delta``, ``bins`` and ``monotone`` are each party's own, so give them by party:
    ``component.hosts[0].task_parameters(epsilon=1.0)``.
    """

    bins: int | dict[str, int] | None = parameter(
        "public number of bins of each of a party's columns, which hold whole numbers from 0: one number for all columns, or "
        "one for each; None means those of binning_model",
        None,
        check=bins,
    )
    privacy: str = parameter(
        "what noise protects at the guest: record (its part of a record with the label), label (its labels alone, by noise on "
        "their totals), or none, where labels are flips of label_flip or public; hosts' records are protected with each",
        RECORD,
        check=OneOf((RECORD, LABEL, NONE)),
    )
    epsilon: float | None = parameter(
        "privacy loss in nats, replace-one, each party's own: at hosts of one record, at the guest of one record or label; "
        "None at the guest with privacy none",
        None,
        above=0,
        note="A finite number greater than 0.",
    )
    delta: float = delta_parameter("this party's epsilon")
    label_source: str | None = parameter(
        "source of the labels that the guest's operator declared: with privacy label the one that is charged; with none, None "
        "means the one that fits",
        None,
        check=label_source,
    )
    monotone: dict[str, str] | None = parameter(
        "columns of this party along whose bins the odds of the label 1 only rise (increasing) or only fall (decreasing); "
        "None means no column",
        None,
        check=monotone,
    )
    ridge: float | None = parameter(
        "penalty on every weight, in records; None means a rule in public numbers", None, above=0
    )
    ridge_path: tuple[float, ...] | None = parameter(
        "multiples of the ridge, for each of which the guest's model lists a further scorecard, at no cost; None means none",
        None,
        check=ridge_path,
    )
    merge_points: int = parameter(
        "neighbouring bins of a column whose points differ by so many or fewer get the same ones, at no cost; 0 merges none",
        0,
        at_least=0,
    )
    base_points: int = parameter("points at which the odds of the label 0 are base_odds", 600)
    base_odds: float = parameter("odds of the label 0 against 1 at base_points", 50.0, above=0)
    points_to_double: float = parameter("points more at which these odds are twice as large", 20.0, above=0)
    he_param: dict[str, Any] = he_parameter()
    threshold: float = same_as(HeteroTrainSettings, "threshold")

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            noise_multiplier_for(self.epsilon, self.delta)

    @property
    def scale(self) -> Scale:
        return Scale(self.base_points, self.base_odds, self.points_to_double)

    def counts(self, columns: Sequence[str], binning_model: Document | None = None) -> tuple[int, ...]:
        """The number of bins of each of a table's columns, by ``bins`` or by the model of the step that made the bins."""
        if (self.bins is None) == (binning_model is None):
            raise Refusal(
                "The numbers of bins come from binning_model or from bins. Connect the model of the step that made the bins, "
                "or set bins."
            )
        if binning_model is not None:
            made = _bins_of(binning_model)
            if list(made.names) != list(columns):
                raise Refusal("The columns of binning_model must be those of the table in their order.")
            return made.counts
        if isinstance(self.bins, dict):
            if set(self.bins) != set(columns):
                raise Refusal("bins names other columns than the table has. Name all of them and no others.")
            return tuple(self.bins[name] for name in columns)
        assert self.bins is not None, "One of both was given."
        return (self.bins,) * len(columns)

    def ordered(self, columns: Sequence[str], binning_model: Document | None = None) -> tuple[int, ...]:
        """How many bins of each column have neighbours: all, but for those of rare categories and of special and missing values."""
        if binning_model is None:
            return self.counts(columns)
        return tuple(each.ordered for each in _bins_of(binning_model).columns)

    def directions(self, columns: Sequence[str]) -> dict[int, str]:
        """``monotone`` by the number of the column."""
        asked = self.monotone or {}
        if not set(asked) <= set(columns):
            raise Refusal("monotone names a column that the table does not have. Name the party's own columns.")
        return {list(columns).index(name): direction for name, direction in asked.items()}


def _bins_of(binning_model: Document) -> TableBins:
    if not isinstance(binning_model, dict) or "bins" not in binning_model:
        raise Refusal("binning_model holds no bins; connect the output_model of dp_binning.")
    return TableBins.from_wire(binning_model["bins"])


@dataclass(frozen=True)
class PredictSettings:
    """How rows are scored."""

    scoring: str = parameter(
        "whose rows are predicted: joint (every party has its columns of them) or plain (the guest alone has all columns, "
        "binned, and no host is asked)",
        JOINT,
        check=OneOf((JOINT, PLAIN)),
    )
    true_labels: bool = same_as(HeteroPredictSettings, "true_labels")
