"""A host's count of joint scores given to the guest; functions on an open ledger.

Joint scores show the guest X_h w_h. They have no differential privacy; after as many different w as the host has
features, X_h is known up to one square matrix. So different releases are counted per dataset over all jobs, and refused
beyond a cap. Datasets that share a record count together (``related_datasets``): dropping a column must not open a new
count. Scores of records outside training are noted, not counted.
"""
from fate_dp.privacy.ledger.database import stage_rows, transaction
from fate_dp.privacy.ledger.entry import JOINT_SCORES, add_release, find_or_add_entry, score_entry
from fate_dp.privacy.ledger.errors import ScoreCapExceeded
from fate_dp.privacy.ledger.families import WEIGHTS
from fate_dp.privacy.ledger.related_datasets import RELATED, datasets_of_other_keys
from fate_dp.privacy.ledger.table_names import called, cap_command

SCORES, ROWS = "--scores N", "--rows N"

TRAINED_ON = f"""
    SELECT 1 FROM ({RELATED}) AS related CROSS JOIN temp.staged s
    CROSS JOIN training_record t ON t.dataset = related.dataset AND t.id_tag = s.id_tag LIMIT 1"""


def cap_option(dataset):
    """Of the command that changes the cap: for models whose scores are shown, or for rows scored with a model's weights."""
    return ROWS if dataset.startswith(WEIGHTS) else SCORES


def scores_released(connection, dataset):
    """Number of different scores on training records that were released of this dataset and related ones."""
    return connection.execute(
        "SELECT count(DISTINCT r.fingerprint) FROM entry e JOIN release r USING (entry_id)"
        f" WHERE e.subject IN ({RELATED}) AND e.mechanism = :mechanism AND e.counted",
        {"dataset": dataset, "mechanism": JOINT_SCORES},
    ).fetchone()[0]


def check_scores(connection, dataset, planned, cap):
    released = scores_released(connection, dataset)
    if planned and released + planned > cap:
        raise ScoreCapExceeded(
            f"The {called(connection, dataset)} has released joint scores of {released} models (tables with the same match "
            f"ids count together), {planned} more are planned, and the cap is {cap}; its operator changes that with "
            f"`{cap_command(connection, dataset, cap_option(dataset))}`."
        )


def are_scores_new(connection, dataset, weights_digest):
    """Whether a release of these weights' scores would count."""
    return not _is_counted(connection, dataset, weights_digest)


def record_scores(connection, dataset, weights_digest, purpose, rows, cap, job_id, task_id):
    """Count one release unless these weights were released before; returns whether it is a new one."""
    with transaction(connection):
        is_new = are_scores_new(connection, dataset, weights_digest)
        check_scores(connection, dataset, int(is_new), cap)
        _add(connection, score_entry(dataset, purpose, True), weights_digest, rows, job_id, task_id)
    return is_new


def record_prediction(connection, dataset, weights_digest, rows, job_id, task_id):
    with transaction(connection):
        _add(connection, score_entry(dataset, "prediction", False), weights_digest, rows, job_id, task_id)


def remember_training_records(connection, dataset, id_tags):
    with transaction(connection):
        rows = ((dataset, id_tag) for id_tag in id_tags)
        connection.executemany("INSERT OR IGNORE INTO training_record VALUES (?, ?)", rows)


def has_training_record(connection, dataset, id_tags, key_id):
    """Whether a record was trained on; where tags of a lost key could hide it, it counts as one."""
    stage_rows(connection, {"id_tag": bytes}, ((id_tag,) for id_tag in id_tags), repeated=True)
    with transaction(connection, "DEFERRED"):
        found = connection.execute(TRAINED_ON, {"dataset": dataset}).fetchone()
        strange = datasets_of_other_keys(connection, dataset, key_id)
        trained = (connection.execute("SELECT 1 FROM training_record WHERE dataset = ?", (name,)) for name in strange)
        return found is not None or any(rows.fetchone() for rows in trained)


def _is_counted(connection, dataset, weights_digest):
    return connection.execute(
        "SELECT 1 FROM entry e JOIN release r USING (entry_id)"
        " WHERE e.subject = ? AND e.mechanism = ? AND e.counted AND r.fingerprint = ?",
        (dataset, JOINT_SCORES, weights_digest),
    ).fetchone()


def _add(connection, entry, weights_digest, rows, job_id, task_id):
    entry_id = find_or_add_entry(connection, entry)
    add_release(connection, entry_id, job_id=job_id, task_id=task_id, records=rows, fingerprint=weights_digest)
