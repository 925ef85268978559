"""A host's count of joint scores given to the guest; functions on an open ledger.

Joint scores show the guest X_h w_h. They have no differential privacy; after as many different w as the host has
features, X_h is known up to one square matrix. So different releases are counted per dataset over all jobs, and refused
beyond a cap. Datasets that share a column count together: dropping a column must not open a new count. Scores of
records outside training are noted, not counted.
"""
from fate_dp.privacy.ledger.database import transaction
from fate_dp.privacy.ledger.entry import JOINT_SCORES, add_release, find_or_add_entry, score_entry
from fate_dp.privacy.ledger.errors import ScoreCapExceeded
from fate_dp.privacy.ledger.related_datasets import RELATED


def remember_dataset(connection, dataset, columns):
    with transaction(connection):
        rows = [(dataset, column) for column in columns]
        connection.executemany("INSERT OR IGNORE INTO dataset_column VALUES (?, ?)", rows)


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
    with transaction(connection):
        rows = ((dataset, id_tag) for id_tag in id_tags)
        connection.executemany("INSERT OR IGNORE INTO training_record VALUES (?, ?)", rows)


def has_training_record(connection, dataset, id_tags):
    query = f"SELECT 1 FROM training_record WHERE dataset IN ({RELATED}) AND id_tag = :id_tag"
    with transaction(connection, "DEFERRED"):
        return any(
            connection.execute(query, {"dataset": dataset, "id_tag": id_tag}).fetchone() for id_tag in id_tags
        )


def _is_counted(connection, dataset, weights_digest):
    return connection.execute(
        "SELECT 1 FROM entry e JOIN release r USING (entry_id)"
        " WHERE e.subject = ? AND e.mechanism = ? AND e.counted AND r.fingerprint = ?",
        (dataset, JOINT_SCORES, weights_digest),
    ).fetchone()


def _add(connection, entry, weights_digest, rows, job_id, task_id):
    entry_id = find_or_add_entry(connection, entry)
    add_release(connection, entry_id, job_id=job_id, task_id=task_id, records=rows, fingerprint=weights_digest)
