"""What all parties agree on before training starts: checks at each party, and the terms that the guest sets."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isclose
from typing import NamedTuple

import numpy as np

from fate_dp.crypto.cross_product import MEAN_SQUARE_BITS
from fate_dp.crypto.slots import MAX_HOSTS

from ..common import frames
from ..common.federation import Context, Document, data_parties, own_party
from ..common.frames import DataFrame, Table
from ..common.preflight import Refusal
from ..common.vocabulary import NONE
from ..protocols.optimizers import batch_bounds, check_batches, check_few_valued_batches, default_optimizer
from ..protocols.training_terms import (
    BINARY,
    FIRST_FIT,
    OTHER_BOUND,
    OTHER_SIZES,
    Descent,
    NoiseTerms,
    TrainingTerms,
    class_names,
    models_of,
)
from .cross_product.statistics import mean_square_bits
from .model import check_header, columns_of, estimators_of, has_intercept, header_of
from .noise import OwnNoise, check_own_part
from .rows import refusal, shows_few_values
from .scores import ScoreRelease
from .settings import MAX_START, TrainSettings

Facts = Mapping[str, dict]  # {name of a host: what it told of itself}
_NO_FLIPS = 100.0
"""From this epsilon on no label is flipped, as far as a float can tell."""


def check_guest(frame: DataFrame, fit_intercept: bool, warm_start: Document | None) -> None:
    """The guest's table, and whether a model to go on from fits it. Labels are checked once their privacy is known."""
    frames.check_guest_table(frame)
    if warm_start is not None:
        check_header(header_of(warm_start), frame.schema.columns)
        had = has_intercept(warm_start)
        if had != fit_intercept:
            raise Refusal(f"init_param.fit_intercept is {fit_intercept}, but warm_start_model was trained with {had}.")


def check_labels(frame: DataFrame, family: str, classes: Sequence[float] = BINARY) -> None:
    """Labels must differ; for family binomial they are 0 and 1, flipped or public, or soft ones in [0, 1] from flipback.

    Of more than two declared classes every one must occur, and nothing else.
    """
    if len(classes) > 2:
        _check_occurring(frames.distinct_labels(frame, limit=len(classes)), classes)
        return
    blocks = frames.label_blocks(frame)
    low = blocks.mapValues(partial(np.min, initial=np.inf)).reduce(min)
    high = blocks.mapValues(partial(np.max, initial=-np.inf)).reduce(max)
    if not np.isfinite(high - low):
        raise ValueError("A label is not finite; dp_hetero_lr trains on finite numbers.")
    if family == "binomial" and (low < 0 or high > 1):
        raise ValueError(
            "A label lies outside 0 to 1; dp_hetero_lr with family binomial trains on labels 0 and 1, and on others where "
            "classes lists all of them, such as classes=[0, 1, 2, 3]."
        )
    if len(frames.distinct_labels(frame, limit=2)) == 1:
        raise ValueError("All labels are of one class. Bring both 0 and 1.")


def _check_occurring(found: set, classes: Sequence[float]) -> None:
    strange, missing = sorted(found - set(classes)), [value for value in classes if value not in found]
    if strange:
        (label,) = class_names(strange[:1])
        raise ValueError(f"classes is {class_names(classes)}, but a training label is {label}; list all label values.")
    if missing:
        (label,) = class_names(missing[:1])
        raise ValueError(f"No training label is {label}. Bring labels of each of the classes {class_names(classes)}.")


def check_warm_start(ctx: Context, descent: Descent, warm_start: Document | None) -> None:
    """Refuse, at this party alone, a model of another family, or one whose shares belong to other parties or an order
    of them: a host would get another host's share of the velocity.
    """
    if warm_start is None:
        return
    family = warm_start["meta"].get("family", "binomial")
    if family != descent.family:
        raise Refusal(f"family is {descent.family}, but warm_start_model was trained with {family}.")
    if not descent.shared:
        return
    if not np.all(np.abs(columns_of(warm_start)) <= MAX_START):
        raise ValueError(f"warm_start_model has a weight above {MAX_START} in magnitude; start nearer to 0.")
    state, parties = _state_of(warm_start), [list(party) for party in data_parties(ctx)]
    if state is not None and state["parties"] != parties:
        raise Refusal(
            f"parties of the job must be those of warm_start_model in their order, {_names(state['parties'])}, "
            f"got {_names(parties)}."
        )


def check_same_classes(warm_start: Document | None, classes: Sequence[float]) -> None:
    """A model of other classes has other columns of weights, or the same ones for other classes."""
    if warm_start is not None and warm_start["meta"]["labels"] != class_names(classes):
        had, wanted = warm_start["meta"]["labels"], class_names(classes)
        raise Refusal.of("classes", wanted, f"those of warm_start_model, {had}")


def run_of(warm_start: Document | None) -> str | None:
    """Which training on shares a model comes from, None for another one or none."""
    state = None if warm_start is None else _state_of(warm_start)
    return None if state is None else state["run"]


def check_same_run(own: Document | None, hosts: Facts) -> None:
    """At the guest: all parties' shares must be of one training, or they add up to noise."""
    for name, facts in hosts.items():
        if facts["warm_start_run"] != run_of(own):
            raise Refusal(f"warm_start_model of the guest and of {name} do not come from the same training.")


def _state_of(document: Document) -> Document | None:
    return estimators_of(document)[0].get("shared_state")


def _names(parties: list) -> str:
    return ", ".join(f"{role} {number}" for role, number in parties)


def check_host(frame: DataFrame, batch_size: int | None, warm_start: Document | None) -> None:
    """A host's table, whether a model to go on from fits it, and batches that do not give its gradient away."""
    frames.check_host_table(frame)
    if warm_start is not None:
        check_header(header_of(warm_start), frame.schema.columns)
    check_batches(frame.shape[0], batch_size, len(frame.schema.columns))


def size_bits(descent: Descent, rows: Table, frame: DataFrame) -> int:
    """`mean_square_bits` of a party's table, where training needs it: solver per_epoch does not."""
    if not descent.shared:
        return 0
    batches = batch_bounds(frame.shape[0], descent.batch_size)
    return mean_square_bits(rows, frame.schema.columns.to_list(), batches)


def host_facts(frame: DataFrame, release: ScoreRelease, rows: Table, asks_values: bool = True) -> Document:
    """What the guest needs to know of a host; ``rows`` are the blocks of ``frame``.

    Whether columns take few values is an exact bit of the table: where noise protects records, and no score is shown that
    it does not protect anyway, nobody asks.
    """
    return {
        "rows": frame.shape[0],
        "features": len(frame.schema.columns),
        "digest": frames.alignment_digest(frame),
        "score_releases_left": release.left(),
        "few_valued": asks_values and shows_few_values(release.home, release.dataset, rows, frame.shape[0]),
    }


def check_hosts(frame: DataFrame, hosts: Facts, planned_scores: int, shows_afterwards: bool = False) -> None:
    """At the guest: rows must be aligned, and every host must still consent to the planned score releases.

    Those that a training rests on, that is: ``shows_afterwards`` are scores of the trained model, which are left out
    where none is left.
    """
    if len(hosts) > MAX_HOSTS:
        raise Refusal(f"The job names {len(hosts)} hosts; at most {MAX_HOSTS} can take part.")
    frames.check_aligned(frame, hosts)
    for name, facts in hosts.items():
        if (planned_scores or shows_afterwards) and facts["few_valued"]:
            raise Refusal(refusal(name))
        if facts["score_releases_left"] < planned_scores:
            raise Refusal(
                f"This job would show the guest joint scores of {planned_scores} models, but {name} allows only "
                f"{facts['score_releases_left']} more; use fewer flipback or sigmoid rounds, or ask its operator, who changes "
                "that with `fate-dp cap`."
            )


def check_few_valued(
    few_valued: bool, rows: int, batch_size: int | None, features: Sequence[int], classes: Sequence[float]
) -> None:
    """`check_few_valued_batches` of all data parties' features, where a host has columns of few values."""
    if few_valued:
        check_few_valued_batches(rows, batch_size, sum(features) + models_of(classes) - 1)


def feature_counts(frame: DataFrame, fit_intercept: bool, hosts: Facts) -> tuple[int, ...]:
    """Features of all data parties, the guest's first, its intercept among them."""
    return len(frame.schema.columns) + int(fit_intercept), *(facts["features"] for facts in hosts.values())


def score_epochs(descent: Descent, flipback_epochs: Sequence[int], warm_start: Document | None) -> list[int]:
    """Epochs (from 0) that begin with joint scores at the guest: rounds of flipback and corrections of the sigmoid."""
    return sorted({*flipback_epochs, *descent.corrections(warm_start)})


@dataclass(frozen=True)
class JointTable:
    """Public sizes of what is trained on; features and largest `size_bits` are of all data parties, the guest's first."""

    rows: int
    features: Sequence[int]
    mean_square_bits: int = 0
    classes: Sequence[float] = BINARY


def training_terms(
    descent: Descent,
    table: JointTable,
    epsilon: float,
    warm_start: Document | None = None,
    flipback_epochs: Sequence[int] = (),
    noise: NoiseTerms | None = None,
) -> TrainingTerms:
    """At the guest: the terms of a training, on labels of this epsilon (nats; infinity for public ones).

    ValueError for too few rows, or an optimiser under which the loss could leave its bounds.
    """
    check_batches(table.rows, descent.batch_size, max(table.features))
    terms = TrainingTerms(
        rows=table.rows,
        batches=tuple(batch_bounds(table.rows, descent.batch_size)),
        optimizer={},
        flipback_epochs=tuple(flipback_epochs),
        correction_epochs=tuple(descent.corrections(warm_start)),
        score_epochs=tuple(score_epochs(descent, flipback_epochs, warm_start)),
        features=tuple(table.features),
        mean_square_bits=table.mean_square_bits,
        run=secrets.token_hex(8),
        noise=noise,
        classes=tuple(table.classes),
        descent=descent,
    )
    terms = replace(terms, optimizer=_optimizer(terms, epsilon, warm_start))
    rates = terms.learning_rates()
    if descent.shared:
        terms.pace(rates)
    if noise and FIRST_FIT in noise.fits:
        first = terms.first_fit()
        first.pace(first.learning_rates())
    return terms


def _optimizer(terms: TrainingTerms, epsilon: float, warm_start: Document | None) -> Document:
    if warm_start is not None:
        return warm_start["meta"]["optimizer_param"]
    default, given = _default_optimizer(terms, epsilon), terms.descent.optimizer
    if terms.noise:
        return terms.noise.optimizer(given, default["alpha"], terms.rows)
    return given or default


def _default_optimizer(terms: TrainingTerms, epsilon: float) -> Document:
    # With noise on labels alone, clips say how long rows are at most, also those of one-hot columns.
    size = terms.noise.size if terms.noise and terms.noise.on_labels else sum(terms.features)
    return default_optimizer(
        terms.rows,
        size,
        epsilon,
        family=terms.descent.family,
        epochs=terms.descent.epochs,
        batches=len(terms.batches),
        classes=len(terms.classes),
    )


class OwnPart(NamedTuple):
    """What a host told the guest of its table; ``position`` is its place among the data parties, the guest first."""

    position: int
    rows: int
    features: int
    mean_square_bits: int

    @classmethod
    def of(cls, ctx: Context, frame: DataFrame, bits: int) -> "OwnPart":
        return cls(data_parties(ctx).index(own_party(ctx)), frame.shape[0], len(frame.schema.columns), bits)


def accept_terms(
    wire: Document, settings: TrainSettings, warm_start: Document | None, own: OwnPart, noise: OwnNoise | None = None
) -> TrainingTerms:
    """At a host: what the guest sets must be what the job's parameters say; a host does not rely on the guest."""
    descent = settings.descent()
    terms = TrainingTerms.from_wire(wire, descent)
    _check_sizes(terms, own)
    settings.accept_classes(terms.classes)
    if list(terms.batches) != batch_bounds(own.rows, descent.batch_size):
        raise Refusal("The guest's batches are not those of batch_size; this host does not train on others.")
    if not _is_agreed_optimizer(terms, warm_start):
        raise Refusal(
            "The guest's optimizer is not that of the job's parameters; this host does not train with others."
        )
    check_same_classes(warm_start, terms.classes)
    rounds = list(terms.flipback_epochs)
    planned = settings.flipback.planned_epochs(descent.epochs) if settings.privacy == NONE else []
    if rounds != planned[: len(rounds)]:
        raise Refusal("The guest's flipback epochs do not follow from max_rounds and epochs.")
    if rounds and terms.models > 1:
        raise Refusal(
            "The guest plans rounds of flipback with more than two classes; this host does not train with them."
        )
    if list(terms.correction_epochs) != descent.corrections(warm_start):
        raise Refusal("The guest plans other corrections of the sigmoid than sigmoid_rounds gives.")
    if list(terms.score_epochs) != score_epochs(descent, rounds, warm_start):
        raise Refusal("The guest plans other epochs with joint scores than flipback and sigmoid_rounds give.")
    check_own_part(terms.noise, noise.part if noise else None, own.position, terms.features)
    terms.check_ridge()
    terms.learning_rates()
    return terms


def _check_sizes(terms: TrainingTerms, own: OwnPart) -> None:
    """Rows, features and bounds, on which widths of slots and masks rest."""
    features = terms.features
    sound = all(count > 0 for count in features) and len(features) > own.position
    if terms.rows != own.rows or not sound or features[own.position] != own.features:
        raise Refusal(OTHER_SIZES)
    # Noise bounds rows by itself, and no party tells how large its columns are.
    most = 0 if terms.noise else MEAN_SQUARE_BITS
    if not own.mean_square_bits <= terms.mean_square_bits <= most:
        raise Refusal(OTHER_BOUND)


def _is_agreed_optimizer(terms: TrainingTerms, warm_start: Document | None) -> bool:
    """The warm start's, the job's, or the default one; what epsilon that follows from, the guest alone knows."""
    if warm_start is not None:
        return terms.optimizer == warm_start["meta"]["optimizer_param"]
    if terms.noise:
        # Its ridge penalty is checked against the noise; the rest is as in `NoiseTerms.optimizer`.
        return True
    given = terms.descent.optimizer
    return terms.optimizer == given if given is not None else _is_default_optimizer(terms)


def _is_default_optimizer(terms: TrainingTerms) -> bool:
    """Whether some epsilon gives it: the penalty falls with epsilon, so that the one with its alpha is found by halving."""
    default, sent, low, high = partial(_default_optimizer, terms), terms.optimizer, 0.0, _NO_FLIPS
    for _ in range(200):
        middle = (low + high) / 2
        above = default(middle)["alpha"] > sent.get("alpha", 0.0)
        low, high = (middle, high) if above else (low, middle)
    found = [default(epsilon) for epsilon in (low, high, inf)]
    return any(_alike(sent, one) for one in found)


def _alike(sent: object, expected: object) -> bool:
    """Equal, numbers but for the rounding of two machines."""
    if isinstance(expected, dict):
        same_keys = isinstance(sent, dict) and sent.keys() == expected.keys()
        return same_keys and all(_alike(sent[key], expected[key]) for key in expected)  # type: ignore[index]
    if isinstance(expected, float):
        return isinstance(sent, float) and isclose(sent, expected, rel_tol=1e-6)
    return type(sent) is type(expected) and sent == expected
