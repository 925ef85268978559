"""The privacy ledger of one party: what was released, to whom, at what epsilon, and what may still be released."""
import math
from numbers import Integral, Real
from pathlib import Path

from fate_dp.privacy.ledger import label_memo, score_ledger, view
from fate_dp.privacy.ledger.database import open_ledger, transaction
from fate_dp.privacy.ledger.entry import add_release, find_or_add_entry, flip_entry, not_private_entry
from fate_dp.privacy.mechanisms.randomized_response import check_classes, check_epsilon


class Ledger:
    """A ledger in the SQLite file ``path`` (mode 0600, made on first use).

    Epsilons are in nats, the unit of labels is *label* and the relation *replace-one*. Every operation is one
    transaction: on disk when the call returns, or without any trace when it is refused or the process dies. An object
    may be used by several threads and across forks. Record tags come from ``label_flips``; no method names a record in
    an error.

    All methods raise ``LedgerUnavailable`` when the file is damaged, locked for 30 seconds, or of a newer version.
    """

    def __init__(self, path):
        self.path = Path(path)

    def record_flips(
        self, *, source, epsilon, classes, key_id, rows, cap, job_id, task_id, fingerprint, class_labels=()
    ):
        """Record a release of flipped labels before it happens; memoised records cost nothing more.

        The budget of a source is the largest total of distinct (epsilon, classes) of one record under one key, added
        over keys, since records cannot be linked from key to key. It may not exceed ``cap`` (nats) by a release of new
        records. The release stays 'pending', and is charged, until ``mark_released``.

        :param rows: iterable of (id tag, label tag, released label), read once.
        :param class_labels: the declared classes in order; must stay the same for one (epsilon, classes) of a source.
        :returns: a ``FlipRelease``.
        :raises BudgetExceeded, CorrectedLabel, ClassesChanged, DuplicateRecord: nothing is written.
        """
        _check_cap(cap)
        entry = flip_entry(source, check_epsilon(epsilon), check_classes(classes), class_labels, key_id)
        with open_ledger(self.path) as connection:
            return label_memo.record_flips(connection, entry, rows, cap, job_id, task_id, fingerprint)

    def mark_released(self, release_id):
        """Note that the table of a pending release was written."""
        with open_ledger(self.path) as connection:
            label_memo.mark_released(connection, release_id)

    def find_labels(self, rows, *, source, key_id):
        """Find the released or derived set of labels of which all ``rows`` (id tag, label text) are members.

        Where several sets fit, the one with the largest epsilon is returned, the only safe statement.

        :returns: a ``LabelProvenance``, or None for labels that were never released or for no rows.
        """
        with open_ledger(self.path) as connection:
            return label_memo.find_labels(connection, source, key_id, rows)

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

    def sources(self, key_id):
        """Label sources with a release under this key."""
        with open_ledger(self.path) as connection:
            return label_memo.sources(connection, key_id)

    def spent(self, source):
        """Budget spent by a label source, in nats (see ``record_flips``); non-private uses are outside it."""
        with open_ledger(self.path) as connection:
            return label_memo.spent(connection, source)

    def record_derived(self, *, parent_entry_id, rows, description, job_id, task_id):
        """Record labels computed from released ones, such as flipback's; costs no epsilon.

        :param parent_entry_id: entry of the flipped labels, as ``find_labels`` returns it.
        :param rows: iterable of (id tag, label text) with records of that entry only, read once.
        :returns: the release id.
        :raises UnknownRelease: for another parent, or a record that the parent never released.
        """
        with open_ledger(self.path) as connection:
            return label_memo.record_derived(connection, parent_entry_id, rows, description, job_id, task_id)

    def record_not_private(self, *, source, reason, job_id, task_id, rows=0):
        """Record a use of true labels: epsilon infinity, outside the cap; one entry per source. Returns its id."""
        with open_ledger(self.path) as connection, transaction(connection):
            entry_id = find_or_add_entry(connection, not_private_entry(source))
            add_release(connection, entry_id, job_id=job_id, task_id=task_id, records=rows, note=reason)
            return entry_id

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

    def remember_dataset(self, dataset, columns):
        """Remember the columns of a dataset; datasets that share one are counted together."""
        with open_ledger(self.path) as connection:
            score_ledger.remember_dataset(connection, dataset, columns)

    def scores_released(self, dataset):
        """Number of different joint scores on training records released of this and related datasets."""
        with open_ledger(self.path) as connection:
            return score_ledger.scores_released(connection, dataset)

    def remember_training_records(self, dataset, id_tags):
        """Remember records as used in training, so that later predictions on them are counted."""
        with open_ledger(self.path) as connection:
            score_ledger.remember_training_records(connection, dataset, id_tags)

    def has_training_record(self, dataset, id_tags):
        """Whether any of the records was used in training with this dataset or a related one."""
        with open_ledger(self.path) as connection:
            return score_ledger.has_training_record(connection, dataset, id_tags)

    def entries(self):
        """All entries as JSON-able dictionaries, oldest first; an infinite epsilon is the text 'infinity'."""
        with open_ledger(self.path) as connection, transaction(connection, "DEFERRED"):
            return view.entries(connection)


def _check_cap(cap):
    if not isinstance(cap, Real) or isinstance(cap, bool) or not (math.isfinite(cap) and cap > 0):
        raise ValueError(f"cap is {cap!r} but must be a finite number greater than 0 (in nats).")


def _check_count(name, value):
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} is {value!r} but must be a whole number of at least 0.")
