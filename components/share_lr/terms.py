"""What both parties agree on before training starts: checks at each, and the terms that the guest sets."""
from fate_dp.components.common.provenance import LabelPrivacy, unknown_labels
from fate_dp.components.dp_hetero_lr.settings import ROWS_PER_FEATURE, batch_bounds
from fate_dp.components.dp_hetero_lr.terms import training_terms
from fate_dp.crypto.cross_product import MEAN_SQUARE_BITS

from .rows import SharedRows
from .settings import ShareSettings


def check_rows(rows: SharedRows, settings: ShareSettings) -> None:
    """At each party: a label, more rows than a model of them could give away, and no hidden size beside open scores."""
    alignment = rows.alignment
    if not alignment.labelled:
        raise ValueError("The joined rows have no label; the guest's table before align needs a label column.")
    needed, sure = ROWS_PER_FEATURE * joint_weights(rows, settings), least_records(alignment)
    if sure < needed:
        raise ValueError(
            f"Of the {alignment.rows} joined rows at least {sure} stand for records; training needs at least {needed}, "
            f"{ROWS_PER_FEATURE} for each weight, or a model could show single rows."
        )
    if settings.train_scores:
        refuse_hidden_size(rows, "train_scores is true")


def least_records(alignment) -> int:
    """How many joined rows stand for records whatever the numbers of dummies are: at most a pool of each party's."""
    hidden = alignment.hide_size
    return alignment.rows if hidden is None else max(0, alignment.rows - 2 * hidden["pool"])


def refuse_hidden_size(rows: SharedRows, why: str) -> None:
    """Opened scores show which rows stand for no record: theirs are 0."""
    if rows.alignment.hide_size is not None:
        raise ValueError(f"{why}, but align hid how many ids matched, and opened scores would show it; align without.")


def label_privacy(rows: SharedRows) -> LabelPrivacy:
    """At the guest: what its ledger knew of the labels when align joined them; refuses labels that it did not know."""
    known = rows.alignment.label_privacy
    if known is None:
        raise unknown_labels()
    return LabelPrivacy.from_json(known)


def joint_weights(rows: SharedRows, settings: ShareSettings) -> int:
    """Features of both parties, and one for the intercept."""
    return len(rows.features) + int(settings.training.init_param["fit_intercept"])


def joint_terms(rows: SharedRows, settings: ShareSettings, epsilon: float) -> dict:
    """Public numbers that direct the training, as in dp_hetero_lr; ``epsilon`` of the labels in nats.

    To dp_hetero_lr's arithmetic all joint columns are the guest's; each has a mean square of at most 2^8.
    """
    count, weights = rows.alignment.rows, joint_weights(rows, settings)
    training = settings.with_optimizer(count, weights, epsilon)
    return training_terms(training, count, [weights, 0], epsilon, None, [], MEAN_SQUARE_BITS)


def check_same_request(asked: dict, settings: ShareSettings) -> None:
    """At the guest: the host's parameters, which it will act on, must be those of the guest."""
    own = settings.to_json()
    asked_training, training = asked.pop("training"), own.pop("training")
    for name, value in {**training, **own}.items():
        found = {**asked_training, **asked}.get(name)
        if found != value:
            raise ValueError(f"{name} is {found!r} at the host and {value!r} at the guest; set the same at both.")


def accept_terms(terms: dict, rows: SharedRows, settings: ShareSettings) -> None:
    """At the host: what the guest sets must be what the job's parameters say."""
    count, asked = rows.alignment.rows, settings.training.optimizer
    expected = {
        "rows": count, "batches": batch_bounds(count, None), "features": [joint_weights(rows, settings), 0],
        "mean_square_bits": MEAN_SQUARE_BITS, "noise": None, "score_epochs": [],
    }  # fmt: skip
    sent = {**terms, "batches": [tuple(bounds) for bounds in terms["batches"]]}
    if any(sent[name] != value for name, value in expected.items()) or asked not in (None, terms["optimizer"]):
        raise ValueError("The guest's terms are not those of the job's parameters; this host does not train on others.")
