"""The shared rows of a task: what align wrote, checked at this party, and with the other party's."""

import secrets
from dataclasses import dataclass, replace

from fate_dp.crypto.cross_product import MEAN_SQUARE_BITS
from fate_dp.privacy.events import REPLACE_ONE, Event, NotPrivate

from ..common.charges import PartyHome, columns_name, home_of, job_of
from ..common.federation import Context, Document, roles
from ..common.frames import DataFrame, Table, ids_digest, ids_fingerprint
from ..common.preflight import Refusal
from ..common.provenance import LabelPrivacy
from ..protocols.joined_tables import LABEL, MEMBERSHIP, Alignment, belongs_to, share_blocks
from ..protocols.optimizers import ROWS_PER_FEATURE, batch_bounds, check_batches
from ..protocols.training_terms import BINARY, Descent, TrainingTerms
from .settings import SEES, ShareSettings

PURPOSE = "share_lr: number of matches"
REASON = "exact losses or weights tell the number of matches that align hid"
OTHER_TERMS = "The guest's terms are not those of the job's parameters; this host does not train on others."


@dataclass(frozen=True)
class SharedRows:
    """This party's shares of the rows and what align says of them."""

    frame: DataFrame
    alignment: Alignment

    @classmethod
    def of(cls, frame: DataFrame, document: Document) -> "SharedRows":
        """Raises ValueError where table and alignment do not belong together."""
        alignment = Alignment.from_json(document)
        if frame.shape[0] != alignment.rows or not belongs_to(frame, alignment.session):
            raise ValueError(
                f"The table's {frame.shape[0]} rows are not the {alignment.rows} of its alignment; connect output_data "
                "and alignment of one align."
            )
        return cls(frame, alignment)

    @property
    def features(self) -> list[str]:
        return [*self.alignment.guest, *self.alignment.host]

    def training_blocks(self) -> Table:
        """Table of this party's shares of [features, membership, label]."""
        return share_blocks(self.frame, [*self.features, MEMBERSHIP, LABEL])

    def refuse_hidden_size(self, why: str) -> None:
        """Opened scores show which rows stand for no record: theirs are 0."""
        if self.alignment.hide_size is not None:
            raise Refusal(f"{why}, but align hid how many ids matched, and opened scores would show it; align without.")

    def label_privacy(self) -> LabelPrivacy | None:
        """At the guest: what its ledger knew of the labels when align joined them."""
        known = self.alignment.label_privacy
        return None if known is None else LabelPrivacy.from_json(known)

    def facts(self) -> Document:
        """What the guest needs to know to see that both parties hold shares of the same rows."""
        return {"session": self.alignment.session, "digest": ids_digest(self.frame)}

    def check_same(self, hosts: dict[str, Document]) -> None:
        """At the guest: the host's shares must be of the same rows, in the same blocks and order."""
        for name, facts in hosts.items():
            if facts["rows"] != self.facts():
                raise Refusal(
                    f"The tables of guest and {name} are not of one alignment; use what one align wrote at both."
                )


def dataset_of(home: PartyHome, alignment: Alignment) -> str:
    """What the party's ledger calls the table that its part of the rows comes from."""
    if alignment.dataset:
        return alignment.dataset
    # An earlier version kept no name, and no id is left: the rows may be of any table of these columns.
    columns = list(alignment.own)
    return home.ledger.remember_dataset(columns_name(columns), columns, records=(), key_id=home.key_id)


def check_two_parties(ctx: Context) -> None:
    """Refuse a task of others than one guest and one host; all see the same list and raise the same sentence."""
    present = roles(ctx)
    if sorted(present) != ["guest", "host"]:
        raise Refusal(f"The task names the roles {', '.join(present)}; shares are of one guest and one host.")


@dataclass
class OpenedSize:
    """Where align hid the number of matches, what share_lr opens tells it: a line of the party's ledger says so.

    There is none where no size was hidden, or the other party is shown nothing. The guest sees every loss, and whoever
    `reveal` names the weights. All of them are exact, so that a few tell how many of the rows stand for records. Unit:
    record; relation: replace-one; epsilon infinity. The line stands under a name of its own, outside the cap: share_lr
    promises no record anything, and align's own messages keep their epsilon.
    """

    ctx: Context
    rows: SharedRows
    reveal: str
    release: int | None = None

    def record(self) -> None:
        other = "host" if self.ctx.is_on_guest else "guest"
        if self.rows.alignment.hide_size is None or (other == "host" and other not in SEES[self.reveal]):
            return
        home, job = home_of(self.ctx), job_of(self.ctx)
        self.release = home.ledger.record(
            dataset=f"opened {columns_name(list(self.rows.alignment.own))}",
            cap=None,
            purpose=PURPOSE,
            event=Event(NotPrivate(REASON), "record", REPLACE_ONE, (other,)),
            count=1,
            release_key=f"{job.task_id} {secrets.token_hex(16)}",
            fingerprint=ids_fingerprint(self.rows.frame),
            **job._asdict(),
        ).release_id

    def mark_released(self) -> None:
        if self.release is not None:
            home_of(self.ctx).ledger.mark_released(self.release)


def check_rows(rows: SharedRows, settings: ShareSettings) -> None:
    """At each party: a label, more rows than a model of them could give away, and no hidden size beside open scores."""
    alignment, hidden = rows.alignment, rows.alignment.hide_size
    if not alignment.labelled:
        raise Refusal("The joined rows have no label; the guest's table before align needs a label column.")
    # Whatever the numbers of dummies are, at most a pool of each party's rows stand for no records.
    sure = alignment.rows if hidden is None else max(0, alignment.rows - 2 * hidden["pool"])
    needed = ROWS_PER_FEATURE * joint_weights(rows, settings)
    if sure < needed:
        raise Refusal(
            f"Of the {alignment.rows} joined rows at least {sure} stand for records; training needs at least {needed}, "
            f"{ROWS_PER_FEATURE} for each weight, or a model could show single rows."
        )
    if settings.train_scores:
        rows.refuse_hidden_size("train_scores is true")


def joint_weights(rows: SharedRows, settings: ShareSettings) -> int:
    return len(rows.features) + int(settings.training.init_param["fit_intercept"])


def joint_terms(rows: SharedRows, settings: ShareSettings, epsilon: float) -> TrainingTerms:
    """Public numbers that direct the training; ``epsilon`` of the labels in nats."""
    count, weights = rows.alignment.rows, joint_weights(rows, settings)
    check_batches(count, None, weights)
    training = settings.with_optimizer(count, weights, epsilon)
    terms = one_batch_terms(count, weights, training.optimizer or {}, Descent.of(training))
    terms.pace(terms.learning_rates())
    return terms


def one_batch_terms(rows: int, weights: int, optimizer: Document, descent: Descent) -> TrainingTerms:
    """To a shared descent all joint columns are the guest's; each has a mean square of at most 2^8."""
    return TrainingTerms(
        rows=rows,
        batches=tuple(batch_bounds(rows, None)),
        optimizer=optimizer,
        flipback_epochs=(),
        correction_epochs=(),
        score_epochs=(),
        features=(weights, 0),
        mean_square_bits=MEAN_SQUARE_BITS,
        run=secrets.token_hex(8),
        noise=None,
        classes=BINARY,
        descent=descent,
    )


def check_same_request(asked: Document, settings: ShareSettings) -> None:
    """At the guest: the host's parameters, which it will act on, must be those of the guest."""
    own = settings.to_json()
    asked_training, training = asked.pop("training"), own.pop("training")
    for name, value in {**training, **own}.items():
        found = {**asked_training, **asked}.get(name)
        if found != value:
            raise Refusal.of(f"{name} at the host", found, f"{value!r}, as at the guest")


def accept_terms(wire: Document, rows: SharedRows, settings: ShareSettings) -> TrainingTerms:
    """At the host: what the guest sets must be what the job's parameters say."""
    descent, asked = Descent.of(settings.training), settings.training.optimizer
    sent = TrainingTerms.from_wire(wire, descent)
    expected = one_batch_terms(rows.alignment.rows, joint_weights(rows, settings), asked or sent.optimizer, descent)
    if replace(sent, run=expected.run) != expected:
        raise Refusal(OTHER_TERMS)
    return sent
