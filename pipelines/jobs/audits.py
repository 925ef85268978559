"""Audits of what a party's job released: a certificate from its ledger, its canaries, and what the job put out.

- ``label_flip``: canaries are labels. The flips that the job released are in the party's own ledger, and the auditor
  guesses every coin as the flip reads. The control reads the labels as they were planted.
- ``dp_homo_nn``: canaries are records. Those of the largest losses under the released model are guessed as absent: a model
  that memorised its records fits each of them, and by chance half of all others. The control attacks a model of the same
  architecture that was fitted without any privacy to the canaries that were present.
- ``dp_homo_gbdt``: the same. The control has the released splits, and leaves that were fitted without any privacy.

What cannot be audited gives a certificate that is void and says why, in one sentence; it is never missing.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fate_dp.components.common.charges import PartyHome
from fate_dp.privacy import LedgerUnavailable
from fate_dp.privacy.auditing.bounds import guess_coins
from fate_dp.privacy.auditing.certificate import Certificate, Claim, hash_of
from fate_dp.privacy.auditing.one_run import OneRun
from fate_dp.privacy.events import REPLACE_ONE
from fate_dp.privacy.labels.flips import canonical_label, record_tags
from fate_dp.privacy.ledger.entries import NOT_PRIVATE, PIECEWISE, RANDOMIZED_RESPONSE, RECORDERS
from fate_dp.privacy.validation import DEFAULT_DELTA, InvalidArgument

from .canaries import Canaries, Kind, canaries_of, file_of
from .job_plans import JOB_ID
from .party_ledgers import has_ledger, home_at
from .text_tables import named

GUESSED_ABSENT = 0.2
"""Of all canaries, those of the largest losses; fixed before any run."""
FITTING_STEPS, FITTING_RATE = 400, 0.05
CONFIDENCE = 0.95
NETWORKS, TREES = "dp_homo_nn", "dp_homo_gbdt"
"""So begins the purpose of the lines that a horizontal training writes."""
RIDGE = 1e-3
"""Of the control of trees, in records: so little that leaves fit every canary."""


@dataclass(frozen=True)
class AuditRequest:
    """Which job of which party is audited, by which ``model`` that it put out (JSON), at which ``delta`` and ``confidence``."""

    parties: Path
    party_id: str
    job_id: str
    model: Path | None = None
    delta: float = DEFAULT_DELTA
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        if not JOB_ID.fullmatch(self.job_id):
            raise InvalidArgument.of("JOB_ID", self.job_id, "the id of a job, of twelve digits or more")

    def void(self, blocker: str, entry: dict[str, Any] | None = None) -> Certificate:
        """The certificate that says why nothing could be audited."""
        if entry is None:
            claim = Claim(
                f"job {self.job_id} of party {self.party_id}", math.inf, self.delta, "record", REPLACE_ONE, ()
            )
        else:
            claim = self.claim(entry)
        return Certificate(claim, self.confidence, blocker=blocker)

    def claim(self, entry: dict[str, Any]) -> Claim:
        """What a line of the ledger claims of this job."""
        epsilon = math.inf if entry["epsilon"] in ("infinity", None) else float(entry["epsilon"])
        (called,) = named([entry], "source", home_at(self.parties, self.party_id).ledger.tables())
        return Claim(
            f"{entry['mechanism']} on {called['source']} in job {self.job_id} of party {self.party_id}",
            epsilon,
            float(entry["delta"] or 0.0),
            entry["unit"],
            entry["relation"],
            tuple(entry["observer"].split(", ")),
        )


def audit_job(asked: AuditRequest) -> list[Certificate]:
    """A certificate of every line of the party's ledger that the job used; one that is void where it used none."""
    home = home_at(asked.parties, asked.party_id)
    if not has_ledger(home):
        return [asked.void(f"Party {asked.party_id} has no ledger here, so nothing is known about the job.")]
    try:
        entries = home.ledger.entries(asked.delta, asked.job_id)
    except LedgerUnavailable as error:
        return [asked.void(str(error))]
    if not entries:
        return [asked.void(f"The ledger of party {asked.party_id} has no release of job {asked.job_id}.")]
    released = [entry for entry in entries if entry["mechanism"] not in RECORDERS]
    return [_audit_entry(asked, home, entry) for entry in released] or [
        asked.void(f"The ledger of party {asked.party_id} has nothing of job {asked.job_id} but a recorded view.")
    ]


def _audit_entry(asked: AuditRequest, home: PartyHome, entry: dict[str, Any]) -> Certificate:
    if entry["mechanism"] == NOT_PRIVATE or entry["epsilon"] == "infinity":
        return asked.void(
            "The run was public or without a guarantee: it claims nothing that an audit could refute.", entry
        )
    is_flip = entry["mechanism"] in (RANDOMIZED_RESPONSE, PIECEWISE)
    purpose = str(entry["parameters"].get("purpose", ""))
    if not is_flip and not purpose.startswith((NETWORKS, TREES)):
        return asked.void(
            "Canaries audit flips and trainings of dp_homo_nn and dp_homo_gbdt; this line is neither.", entry
        )
    source = entry["source"]
    tables = [source.rpartition("/")[0]] if is_flip else home.ledger.tables().get(source, [])
    try:
        found = [each for each in (canaries_of(home.path, table) for table in tables) if each is not None]
    except InvalidArgument as error:
        return asked.void(str(error), entry)
    if not found:
        named = " and ".join(tables) or source
        return asked.void(
            f"No canaries are declared for {named}; `fate-dp canaries` plants some, before a job reads the table.",
            entry,
        )
    wanted = Kind.LABELS if is_flip else Kind.RECORDS
    if found[0].kind != wanted:
        return asked.void(f"The canaries of {found[0].table_name} must be {wanted} here, got {found[0].kind}.", entry)
    if entry["mechanism"] == PIECEWISE:
        return asked.void("Canaries of labels are classes, but the job made numbers noisy.", entry)
    return _audit_flips(asked, home, entry, found[0]) if is_flip else _audit_training(asked, home, entry, found[0])


def _audit_flips(asked: AuditRequest, home: PartyHome, entry: dict[str, Any], canaries: Canaries) -> Certificate:
    tags = record_tags(canaries.ids, home.key, entry["source"])
    labels = home.ledger.released_labels(entry["entry_id"], tags)
    missing = sum(label is None for label in labels)
    if missing:
        return asked.void(
            f"The job released no flip of {missing} of {len(labels)} canaries. Put all of them into its table.", entry
        )
    coins = np.array(canaries.coins, dtype=np.int64)
    seen = _guesses(labels, canaries)
    planted = _guesses(canaries.labels, canaries)
    if not np.array_equal(planted, coins):
        return asked.void("The canaries' labels do not match their coins; the file was changed.", entry)
    audited, control = OneRun(coins, seen).evidence, OneRun(coins, planted).evidence
    return Certificate(asked.claim(entry), asked.confidence, audited, control, inputs=_inputs(home, canaries))


def _guesses(labels: Iterable[str | None], canaries: Canaries) -> np.ndarray:
    """-1 for the first class, else +1: bounds hold for a number of guesses that no flip decides, so nobody abstains."""
    values = dict(zip(map(canonical_label, canaries.classes), (-1, 1)))
    return np.array([values.get(canonical_label(label), 1) for label in labels], dtype=np.int64)


def _audit_training(asked: AuditRequest, home: PartyHome, entry: dict[str, Any], canaries: Canaries) -> Certificate:
    if asked.model is None:
        return asked.void("An audit of a training needs the model it released; name its file with --model.", entry)
    digest, trees = hash_of(asked.model), str(entry["parameters"]["purpose"]).startswith(TREES)
    losses_of = losses_of_trees if trees else losses_of_network
    try:
        document = json.loads(asked.model.read_text(encoding="utf-8"))
        header = document["data"]["estimator"]["header"]
        losses = losses_of(document, canaries, home) if list(header) == list(canaries.columns) else None
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidArgument(f"The file {asked.model} is not a model of {TREES if trees else NETWORKS}.") from error
    if losses is None:
        return asked.void("The model was trained on other columns than the canaries have.", entry)
    coins = np.array(canaries.coins, dtype=np.int64)
    guessed = int(len(coins) * GUESSED_ABSENT)
    audited, control = (OneRun(coins, guess_coins(-each, 0, guessed)).evidence for each in losses)
    inputs = {**_inputs(home, canaries), "model": digest}
    return Certificate(asked.claim(entry), asked.confidence, audited, control, inputs=inputs)


def losses_of_network(document: dict[str, Any], canaries: Canaries, home: PartyHome) -> tuple[np.ndarray, np.ndarray]:
    """Losses of all canaries under a model of dp_homo_nn, and under one that was fitted to those that were present."""
    from fate_dp.components.dp_homo_nn.model import spec_of, weights_of
    from fate_dp.components.dp_homo_nn.models.registry import ModelSource, model_inputs

    spec, loss, weights = spec_of(document), document["data"]["estimator"]["loss"], weights_of(document)
    source = ModelSource.of(spec, loss, home.policy.model_modules)
    features = model_inputs(spec, np.array(canaries.rows, dtype=np.float32))
    labels = _labels_of(canaries)
    present, gradients = np.array(canaries.coins) > 0, source.gradients()
    fitted = fitted_without_privacy(source, features[present], labels[present])
    audited, control = (gradients.losses(at, features, labels) for at in (weights, fitted))
    return audited, control


def losses_of_trees(document: dict[str, Any], canaries: Canaries, home: PartyHome) -> tuple[np.ndarray, np.ndarray]:
    """The same of dp_homo_gbdt: the control has the released splits, and in the leaves values of ridge regression on
    the canaries that were present, which nothing protects."""
    from fate_dp.components.dp_homo_gbdt.boosting import scores_of
    from fate_dp.components.dp_homo_gbdt.model import model_of

    bins, batches = model_of(document)
    codes, signs = bins.codes(np.array(canaries.rows, dtype=np.float64)), 2.0 * _labels_of(canaries) - 1
    leaves = np.stack(
        [batch.splits.leaf_of(codes, tree) for batch in batches for tree in range(batch.splits.trees)], axis=1
    )
    present = np.array(canaries.coins) > 0
    # In how many trees two canaries share a leaf: what a leaf's value learns of one, it says of the other.
    shared = np.zeros((len(leaves), int(present.sum())))
    for column in leaves.T:
        shared += column[:, None] == column[present][None, :]
    weights = np.linalg.solve(shared[present] + RIDGE * np.eye(shared.shape[1]), signs[present])
    audited, control = (np.logaddexp(0, -signs * scores) for scores in (scores_of(batches, codes), shared @ weights))
    return audited, control


def _labels_of(canaries: Canaries) -> np.ndarray:
    return np.array([canaries.classes.index(label) for label in canaries.labels], dtype=np.int64)


def fitted_without_privacy(source: Any, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Weights, float64 (d,), of the architecture fitted to these records as far as Adam gets; nothing protects them."""
    import torch

    from fate_dp.components.dp_homo_nn.gradients import cross_entropy
    from fate_dp.components.dp_homo_nn.models.spec import flat_weights

    module = source.module()
    inputs, targets = torch.from_numpy(features), torch.from_numpy(labels)
    optimizer = torch.optim.Adam(module.parameters(), lr=FITTING_RATE)
    for _ in range(FITTING_STEPS):
        optimizer.zero_grad()
        cross_entropy(module(inputs), targets).mean().backward()
        optimizer.step()
    return flat_weights(module)


def _inputs(home: PartyHome, canaries: Canaries) -> dict[str, str]:
    """Hashes of the table as it was, as it was uploaded, and of the file of the coins."""
    return {
        "table": canaries.table,
        "table with canaries": canaries.planted,
        "canaries": hash_of(file_of(home.path, canaries.table_name)),
    }
