"""The privacy ledger of one party: what was released, to whom, at what epsilon, and what may still be released."""
from pathlib import Path

from fate_dp.privacy.accounting.privacy_parameters import check_delta_or_zero
from fate_dp.privacy.events import OBSERVERS, UNITS, InvalidEvent, check_relation
from fate_dp.privacy.ledger import entry as lines
from fate_dp.privacy.ledger import label_memo, private_steps, related_datasets, score_ledger, table_names, totals, view
from fate_dp.privacy.ledger.budget_cap import BudgetCap
from fate_dp.privacy.ledger.database import open_ledger, transaction
from fate_dp.privacy.ledger.fitting_charges import FittingCharges
from fate_dp.privacy.mechanisms.randomized_response import check_classes, check_epsilon
from fate_dp.privacy.number_kinds import is_finite, is_whole

DEFAULT_DELTA = 1e-5


class Ledger:
    """A ledger in the SQLite file ``path`` (mode 0600, made on first use; one of an older version is upgraded).

    Epsilons are in nats, the unit of labels is *label* and the relation *replace-one*. Every operation is one
    transaction: on disk when the call returns, or without any trace when it is refused or the process dies. An object
    may be used by several threads and across forks. Record tags come from ``label_flips``; no method names a record in
    an error.

    All methods raise ``LedgerUnavailable`` when the file cannot be read or written (no space, no permission), is
    damaged, locked for 30 seconds, or of a newer version.
    """

    def __init__(self, path):
        self.path = Path(path)
        self._fitting = FittingCharges()

    def record_flips(
        self, *, source, epsilon, classes, key_id, rows, cap, job_id, task_id, fingerprint, class_labels=(),
        most_records=None, bounds=None,
    ):
        """Record a release of flipped labels before it happens; memoised records cost nothing more.

        The budget of a source is the largest total of distinct (epsilon, classes) of one record under one key, added
        over keys, since records cannot be linked from key to key. Together with the private steps on these labels
        (``record``; at delta 0) it may not exceed ``cap`` (nats) by a release of new records. The release stays
        'pending', and is charged, until ``mark_released``.

        The same labels (all but one in a hundred) of records that were released under another source are refused: one
        name more would be one budget more.

        :param rows: iterable of (id tag, label tag, released label, id tag and label tag of no source), read once.
        :param most_records: how many records the source has, if its operator declared it.
        :param class_labels: the declared classes in order; must stay the same for one (epsilon, classes) of a source.
        :param bounds: (low, high) of numbers that were made noisy in place of flips; ``classes`` are their grid points then.
            They must stay the same as well.
        :returns: a ``FlipRelease``.
        :raises BudgetExceeded, CorrectedLabel, ClassesChanged, DuplicateRecord, OtherSource, TooManyRecords: nothing is
            written.
        """
        _check_cap(cap)
        epsilon, classes = check_epsilon(epsilon), check_classes(classes)
        if bounds is None:
            entry = lines.flip_entry(source, epsilon, classes, class_labels, key_id)
        else:
            entry = lines.number_entry(source, epsilon, classes, bounds, key_id)
        with open_ledger(self.path) as connection:
            return label_memo.record_flips(connection, entry, rows, cap, most_records, job_id, task_id, fingerprint)

    def record(self, *, dataset, event, count=1, cap, release_key, job_id, task_id, fingerprint, purpose=""):
        """Record a private step before its output is released; it is charged from then on.

        For each observer of the event, the total of the dataset's events of the same unit under replace-one, composed
        with this one, may not exceed ``cap.epsilon`` at ``cap.delta``. That holds events of both relations, and is the
        largest total; see ``totals``. The release stays 'pending' until ``mark_released``.

        :param event: a ``fate_dp.privacy.events.Event``; ``count`` rounds of it are released.
        :param cap: a ``BudgetCap``; None for public data, outside any cap. An event without guarantee fits under none.
        :param release_key: names the draw. The same key with the same dataset, event, count, fingerprint and purpose is
            the same release and costs nothing more, so a caller must repeat the draw bit by bit or use another key.
            Noise from the operating system's entropy cannot be repeated: a task that starts again needs a new key,
            and is charged again, unless it kept the noisy output of the first time.
        :param purpose: what the step is for; steps of one event and purpose are one line of the ledger.
        :returns: a ``StepRelease``.
        :raises BudgetExceeded, ReleaseKeyReused, InvalidStep: nothing is written, as with whatever the accountant
            refuses.
        """
        if not isinstance(cap, (BudgetCap, type(None))):
            raise private_steps.InvalidStep(f"cap is {cap!r} but must be a BudgetCap, or None for public data.")
        step = private_steps.PrivateStep(dataset, event, count, release_key, fingerprint, purpose)
        with open_ledger(self.path) as connection:
            return private_steps.record(connection, step, cap, job_id, task_id, self._fitting)

    def check_steps(self, *, dataset, events, cap):
        """Raise ``BudgetExceeded`` if all ``events``, recorded one after the other, would exceed ``cap``.

        Nothing is written, so a task can ask before any work; another job may still come first before ``record``. As
        long as none does, recording some of ``events`` through this object composes nothing again.

        :param events: list of (event, count), each held against the cap for its own unit and observers.
        :param cap: a ``BudgetCap``.
        """
        with open_ledger(self.path) as connection:
            private_steps.check(connection, dataset, events, cap, self._fitting)

    def mark_released(self, release_id):
        """Note that the output of a pending release, of flips or of a private step, was written."""
        with open_ledger(self.path) as connection, transaction(connection):
            lines.mark_released(connection, release_id)

    def find_labels(self, rows, *, source, key_id):
        """Find the released or derived set of labels of which all ``rows`` (id tag, label text) are members.

        Where several sets fit, the one with the largest epsilon is returned, the only safe statement.

        :returns: a ``LabelProvenance``, or None for labels that were never released or for no rows.
        """
        with open_ledger(self.path) as connection:
            return label_memo.find_labels(connection, source, key_id, rows)

    def hold_derived_labels(self, rows, *, source, key_id):
        """Whether ``rows`` (id tag, label text), or some of them, are labels that were computed from all records.

        They are if they have the labels of one derived set wherever they have its records, and do not merely agree with
        the flips that it was computed from. Few records can agree by chance, and pass for derived then.
        """
        with open_ledger(self.path) as connection:
            return label_memo.hold_derived(connection, source, key_id, rows)

    def register_public(self, *, source, key_id, rows):
        """Remember the labels of a source that its operator declared public, record by record.

        A name alone would let any table pass for a public one. :param rows: iterable of (id tag, label text).
        """
        with open_ledger(self.path) as connection:
            label_memo.register_public(connection, source, key_id, rows)

    def are_public(self, rows, *, source, key_id):
        """Whether all ``rows`` (id tag, label text) were registered as public labels of the source."""
        with open_ledger(self.path) as connection:
            return label_memo.are_public(connection, source, key_id, rows)

    def has_released(self, id_tags, *, source, key_id):
        """Whether the flip of any of these records of the source was ever released."""
        with open_ledger(self.path) as connection:
            return label_memo.has_released(connection, source, key_id, id_tags)

    def class_labels(self, entry_id):
        """The declared classes of a line of flips, as texts in order; none where it was written without them."""
        with open_ledger(self.path) as connection:
            return lines.classes_of(connection, entry_id)

    def sources(self, key_id):
        """Label sources with a release under this key."""
        with open_ledger(self.path) as connection:
            return label_memo.sources(connection, key_id)

    def sources_of_other_keys(self, key_id):
        """Label sources with a release under a key that is not this one, such as one that was lost."""
        with open_ledger(self.path) as connection:
            return label_memo.sources_of_other_keys(connection, key_id)

    def spent(self, source):
        """Budget spent by the flips of a label source, in nats (see ``record_flips``); other uses are outside it."""
        with open_ledger(self.path) as connection:
            return label_memo.spent(connection, source)

    def spent_of_labels(self, source):
        """What counts against the cap of a label source, in nats at delta 0: its flips, and private steps on its labels."""
        with open_ledger(self.path) as connection, transaction(connection, "DEFERRED"):
            return label_memo.spent(connection, source) + totals.spent_by_label_steps(connection, source)

    def spent_by_steps(self, dataset, delta):
        """What counts against the cap of a dataset at ``delta``, in nats: the largest total of any observer."""
        delta = check_delta_or_zero(delta)
        with open_ledger(self.path) as connection, transaction(connection, "DEFERRED"):
            return totals.spent_by_steps(connection, dataset, delta)

    def feature_count(self, dataset):
        """How many columns the dataset has, 0 for one that no job has read."""
        with open_ledger(self.path) as connection:
            return related_datasets.feature_count(connection, dataset)

    def remember_model_scores(self, digest, releases):
        """Remember the label releases (``label_releases``) of the model that gave scores of this digest.

        Scores carry what their model learned, so labels that are computed from them rest on those releases as well.
        """
        with open_ledger(self.path) as connection:
            label_memo.remember_scores(connection, digest, releases)

    def releases_of_scores(self, digest):
        """The releases that ``remember_model_scores`` noted for scores of this digest, None for unknown scores."""
        with open_ledger(self.path) as connection:
            return label_memo.releases_of_scores(connection, digest)

    def record_derived(self, *, parent_entry_id, rows, description, job_id, task_id, releases=()):
        """Record labels computed from released ones, such as flipback's; costs no epsilon.

        :param releases: further label releases that went in, such as those of a model whose scores were used.

        :param parent_entry_id: entry of the flipped labels, as ``find_labels`` returns it.
        :param rows: iterable of (id tag, label text) with records of that entry only, read once.
        :returns: the release id.
        :raises UnknownRelease: for another parent, or a record that the parent never released.
        """
        with open_ledger(self.path) as connection:
            return label_memo.record_derived(
                connection, parent_entry_id, rows, description, releases, job_id, task_id
            )

    def record_not_private(self, *, source, reason, job_id, task_id, rows=0):
        """Record a use of true labels: epsilon infinity, outside the cap; one entry per source. Returns its id."""
        with open_ledger(self.path) as connection, transaction(connection):
            entry_id = lines.find_or_add_entry(connection, lines.not_private_entry(source))
            lines.add_release(connection, entry_id, job_id=job_id, task_id=task_id, records=rows, note=reason)
            return entry_id

    def record_over_sampling(self, *, dataset, method, rows, synthetic_rows, job_id, task_id):
        """Note that a table was over-sampled: epsilon infinity for the unit record from here on.

        Nothing is charged, since nothing was released; what is computed from the rows is charged when it is released,
        as ``privacy.over_sampled`` says. One entry per dataset and method.

        :param rows: rows of the table afterwards, of which ``synthetic_rows`` are new.
        """
        _check_count("rows", rows)
        _check_count("synthetic_rows", synthetic_rows)
        with open_ledger(self.path) as connection, transaction(connection):
            entry_id = lines.find_or_add_entry(connection, lines.over_sampling_entry(dataset, method))
            note = f"{synthetic_rows} of {rows} rows are synthetic"
            lines.add_release(connection, entry_id, job_id=job_id, task_id=task_id, records=rows, note=note)

    def check_scores(self, *, dataset, planned, cap):
        """Raise ``ScoreCapExceeded`` if ``planned`` more releases of joint scores would exceed ``cap``."""
        _check_count("planned", planned)
        _check_count("cap", cap)
        with open_ledger(self.path) as connection:
            score_ledger.check_scores(connection, dataset, planned, cap)

    def record_scores(self, *, dataset, weights_digest, purpose, rows, cap, job_id, task_id):
        """Count a release of joint scores on training records before it happens.

        :param weights_digest: digest of the host's weights and rows; the same scores again are no new release.
        :returns: True when the count went up.
        :raises ScoreCapExceeded: beyond ``cap`` different weights over all jobs; nothing is written.
        """
        _check_count("cap", cap)
        with open_ledger(self.path) as connection:
            return score_ledger.record_scores(connection, dataset, weights_digest, purpose, rows, cap, job_id, task_id)

    def record_prediction(self, *, dataset, weights_digest, rows, job_id, task_id):
        """Note, without counting, that scores of records outside training were released."""
        with open_ledger(self.path) as connection:
            score_ledger.record_prediction(connection, dataset, weights_digest, rows, job_id, task_id)

    def are_scores_new(self, *, dataset, weights_digest):
        """Whether ``record_scores`` of these weights would count as a new release."""
        with open_ledger(self.path) as connection:
            return score_ledger.are_scores_new(connection, dataset, weights_digest)

    def remember_dataset(self, dataset, columns, *, records, key_id, tables=()):
        """Remember the columns and records of a dataset; datasets that share a record are counted together.

        :param dataset: name that the columns give. A table of these columns that shares no record with an earlier one of
            them is another dataset, and gets a number behind its name.
        :param records: iterable of 16-byte tags of the match ids under the key ``key_id``, read once.
        :param tables: ``namespace/name`` of the tables that the rows come from, where that is known; for people.
        :returns: the name of this table's dataset.
        """
        with open_ledger(self.path) as connection:
            return related_datasets.remember_dataset(connection, dataset, columns, records, key_id, tables)

    def tables(self):
        """{dataset: names of the tables that jobs read it from} of every dataset whose tables are known."""
        with open_ledger(self.path) as connection:
            return table_names.tables_by_dataset(connection)

    def called(self, dataset):
        """The dataset for a sentence: its tables where they are known, else its own name."""
        with open_ledger(self.path) as connection:
            return table_names.called(connection, dataset)

    def cap_command(self, dataset, option):
        """The command with which an operator changes a cap of the dataset; ``option`` names the cap."""
        with open_ledger(self.path) as connection:
            return table_names.cap_command(connection, dataset, option)

    def remember_weights(self, dataset, columns):
        """Remember which columns a model's weights belong to; models on a column of the same name count together.

        :param dataset: a name that begins with ``related_datasets.WEIGHTS``.
        """
        with open_ledger(self.path) as connection, transaction(connection):
            related_datasets.remember_columns(connection, dataset, columns)

    def related(self, dataset):
        """Names of all datasets that count together with this one, itself among them."""
        with open_ledger(self.path) as connection:
            return related_datasets.related_datasets(connection, dataset)

    def scores_released(self, dataset):
        """Number of different joint scores on training records released of this and related datasets."""
        with open_ledger(self.path) as connection:
            return score_ledger.scores_released(connection, dataset)

    def remember_training_records(self, dataset, id_tags):
        """Remember records as used in training, so that later predictions on them are counted."""
        with open_ledger(self.path) as connection:
            score_ledger.remember_training_records(connection, dataset, id_tags)

    def has_training_record(self, dataset, id_tags, *, key_id):
        """Whether any of the records was, or may have been, used in training with this dataset or a related one.

        It may have been where a related dataset was trained on under another key, whose tags these are not.
        """
        with open_ledger(self.path) as connection:
            return score_ledger.has_training_record(connection, dataset, id_tags, key_id)

    def entries(self, delta=DEFAULT_DELTA):
        """All entries as JSON-able dictionaries, oldest first; an infinite epsilon is the text 'infinity'.

        :param delta: at which the epsilon of a private step is shown, computed from its event.
        """
        delta = check_delta_or_zero(delta)
        with open_ledger(self.path) as connection, transaction(connection, "DEFERRED"):
            rows = view.read_rows(connection)
        return view.entries(rows, delta)

    def totals(self, delta=DEFAULT_DELTA):
        """What each observer learned in all: JSON-able dictionaries by dataset, unit, relation and observer.

        An upper bound at ``delta``, composed from the events of private steps and of the flips of the worst record;
        'infinity' after joint scores. Events of either relation count in both totals, at their price there; see
        ``totals``. ``note`` says what the number leaves open, and why it is infinite. Data declared public is left out.
        """
        delta = check_delta_or_zero(delta)
        with open_ledger(self.path) as connection, transaction(connection, "DEFERRED"):
            charged = totals.all_charges(connection)
        return [line for dataset in charged for line in totals.by_observer(dataset, charged[dataset], delta)]

    def total(self, dataset, unit, relation, observer, delta=DEFAULT_DELTA):
        """One of the ``totals`` as a number, 0.0 where nothing was charged, ``math.inf`` without a guarantee."""
        delta = check_delta_or_zero(delta)
        _check_view(unit, relation, observer)
        with open_ledger(self.path) as connection, transaction(connection, "DEFERRED"):
            charged = totals.charges_with_scores(connection, dataset)
        return totals.known_total_of(charged, unit, relation, observer, delta)


def _check_view(unit, relation, observer):
    check_relation(relation)
    for name, value, allowed in (("unit", unit, UNITS), ("observer", observer, OBSERVERS)):
        if value not in allowed:
            raise InvalidEvent(f"{name} is {value!r} but must be one of {', '.join(allowed)}.")


def _check_cap(cap):
    if not is_finite(cap) or cap <= 0:
        raise ValueError(f"cap is {cap!r} but must be a finite number greater than 0 (in nats).")


def _check_count(name, value):
    if not is_whole(value) or value < 0:
        raise ValueError(f"{name} is {value!r} but must be a whole number of at least 0.")
