"""``fate-dp canaries`` plants what ``fate-dp audit`` looks for; an audit gives certificates that anybody can recompute."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from fate_dp.privacy.auditing.certificate import REFUTED, Certificate, read
from fate_dp.privacy.private_files import atomic_write
from fate_dp.privacy.validation import InvalidArgument

from ..jobs.text_tables import TextTable, print_table
from .console import parties_folder, table_meta, wide_console

REFUTED_STATUS = 2
"""Exit status where a claim was refuted; 1 is a refusal to run."""


def canaries(options: argparse.Namespace) -> None:
    from ..jobs.canaries import Planting, plant

    meta = table_meta(options)
    planting = Planting(options.csv, options.out, options.source, options.kind, options.count, meta)
    planted = plant(parties_folder(options), options.party, planting)
    print(
        f"Planted {len(planted.ids)} canaries ({planted.kind}); upload {options.out} as {planted.table_name}. Their coins "
        f"stay with party {options.party}."
    )


def audit(options: argparse.Namespace) -> int:
    ways = {"JOB_ID": options.job, "--mechanism": options.mechanism, "--verify": options.verify}
    if sum(way is not None for way in ways.values()) != 1:
        raise InvalidArgument(f"Name one of {', '.join(ways)}.")
    found = verified(options.verify) if options.verify is not None else made(options)
    show(found)
    return REFUTED_STATUS if any(each.verdict == REFUTED for each in found.values()) else 0


def verified(path: Path) -> dict[Path, Certificate]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"The file {path} cannot be read as a certificate.") from error
    return {path: read(text)}


def made(options: argparse.Namespace) -> dict[Path, Certificate]:
    if options.mechanism is not None:
        from fate_dp.privacy.auditing.games import audit_mechanism

        name = options.mechanism
        given = (options.epsilon, options.delta, options.canaries, options.confidence)
        found = [audit_mechanism(name, *given)]
    else:
        from ..jobs.audits import AuditRequest, audit_job

        name = f"{options.job}-party-{options.party}"
        asked = AuditRequest(
            parties_folder(options), options.party, options.job, options.model, options.delta, options.confidence
        )
        found = audit_job(asked)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidArgument.of("--out", str(options.out), "a folder, or a name that is free for one") from error
    paths = [options.out / f"{name}-{number}.json" for number in range(1, len(found) + 1)]
    for path, certificate in zip(paths, found):
        atomic_write(path, certificate.to_json())
    return dict(zip(paths, found))


def show(certificates: dict[Path, Certificate]) -> None:
    console = wide_console()
    for path, certificate in certificates.items():
        claim, found, evidence = certificate.claim, certificate.found, certificate.evidence
        rows = {
            "audited": claim.subject,
            "claimed epsilon (nats)": "none"
            if math.isinf(claim.epsilon)
            else f"{claim.epsilon:.4g} at delta {claim.delta:g}",
            "unit, relation": f"{claim.unit}, {claim.relation}",
            "lower bound": "none" if found is None else f"{found.epsilon:.4g} at confidence {certificate.confidence:g}",
            "method": "none" if found is None else found.method,
            "canaries": "none" if evidence is None else str(evidence.canaries),
            "verdict": certificate.verdict,
        }
        print_table(console, "Audit certificate", TextTable(("field", "value"), tuple(rows.items())))
        print(f"{certificate.reason}\nCertificate: {path}")
