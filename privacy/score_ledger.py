"""A host's count of joint scores given to the guest; functions on an open ledger.

Joint scores show the guest X_h w_h. They have no differential privacy; after as many different w as the host has
features, X_h is known up to one square matrix. So different weights are counted per dataset over all jobs, and refused
beyond a cap. Scores of records outside training are noted, not counted.
"""
from fate_dp.privacy.ledger_database import transaction
from fate_dp.privacy.ledger_entry import JOINT_SCORES, add_release, find_or_add_entry, score_entry
from fate_dp.privacy.ledger_errors import ScoreCapExceeded


def scores_released(connection, dataset):
    """Number of different weights whose scores on training records were released."""
    return connection.execute(
        "SELECT count(DISTINCT r.fingerprint) FROM entry e JOIN release r USING (entry_id)"
        " WHERE e.subject = ? AND e.mechanism = ? AND e.counted",
        (dataset, JOINT_SCORES),
    ).fetchone()[0]


def check_scores(connection, dataset, planned, cap):
    released = scores_released(connection, dataset)
    if planned and released + planned > cap:
        raise ScoreCapExceeded(
            f"The dataset {dataset} has released joint scores of {released} models, {planned} more are planned, and "
            f"the cap is {cap}."
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
    rows = [(dataset, id_tag) for id_tag in id_tags]
    with transaction(connection):
        connection.executemany("INSERT OR IGNORE INTO training_record VALUES (?, ?)", rows)


def has_training_record(connection, dataset, id_tags):
    query = "SELECT 1 FROM training_record WHERE dataset = ? AND id_tag = ?"
    with transaction(connection, "DEFERRED"):
        return any(connection.execute(query, (dataset, id_tag)).fetchone() for id_tag in id_tags)


def _is_counted(connection, dataset, weights_digest):
    return connection.execute(
        "SELECT 1 FROM entry e JOIN release r USING (entry_id)"
        " WHERE e.subject = ? AND e.mechanism = ? AND e.counted AND r.fingerprint = ?",
        (dataset, JOINT_SCORES, weights_digest),
    ).fetchone()


def _add(connection, entry, weights_digest, rows, job_id, task_id):
    entry_id = find_or_add_entry(connection, entry)
    add_release(connection, entry_id, job_id=job_id, task_id=task_id, records=rows, fingerprint=weights_digest)
