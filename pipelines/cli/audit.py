"""``fate-dp canaries`` plants what ``fate-dp audit`` looks for; an audit gives certificates that anybody can recompute."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from fate_dp.privacy.validation import DEFAULT_DELTA, InvalidArgument

from ..jobs.text_tables import TextTable, print_table
from .console import TABLE_FLAGS, Commands, add_command, add_flags, add_home, parties_folder, table_meta, wide_console

if TYPE_CHECKING:
    from fate_dp.privacy.auditing.certificate import Certificate

OUT = Path("out/audit")
REFUTED_STATUS = 2
"""Exit status where a claim was refuted; 1 is a refusal to run."""


def add_audit(commands: Commands) -> None:
    text = "plant canaries in a table before its upload, so that a job on it can be audited"
    command = add_command(commands, "canaries", text, canaries)
    command.add_argument("csv", type=Path, help="the table without canaries")
    command.add_argument("source", metavar="NAMESPACE/NAME/COLUMN", help="the label column of the table, once uploaded")
    command.add_argument(
        "--kind", default="labels", help="labels (for label_flip) or records (for horizontal trainings)"
    )
    command.add_argument("--count", type=int, default=1000, help="how many (1000)")
    command.add_argument("--out", type=Path, required=True, help="where the table with canaries goes")
    add_home(command)
    add_flags(command, "party", *TABLE_FLAGS)
    text = "prove with canaries a lower bound on what a job or a mechanism leaked, as a certificate"
    epilog = "Exit status 2: a claim was refuted. A certificate that could not be made is void and says why."
    command = add_command(commands, "audit", text, audit, epilog=epilog)
    command.add_argument("job", metavar="JOB_ID", nargs="?", help="the job's id in FATE-Flow")
    command.add_argument("--mechanism", metavar="NAME", help="audit a mechanism of the privacy core instead of a job")
    command.add_argument("--verify", metavar="FILE", type=Path, help="compute a certificate again from its counts")
    command.add_argument(
        "--model", metavar="FILE", type=Path, help="the model from dp_homo_nn or dp_homo_gbdt, as JSON"
    )
    command.add_argument("--epsilon", type=float, default=1.0, help="epsilon of the mechanism, in nats (1)")
    command.add_argument("--delta", type=float, default=DEFAULT_DELTA, help=f"delta of the claim ({DEFAULT_DELTA:g})")
    command.add_argument("--canaries", type=int, default=1000, help="canaries of the mechanism (1000)")
    command.add_argument("--confidence", type=float, default=0.95, help="confidence of the lower bound (0.95)")
    command.add_argument("--out", metavar="FOLDER", type=Path, default=OUT, help=f"where certificates go ({OUT})")
    add_home(command)
    add_flags(command, "party")


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
    from fate_dp.privacy.auditing.certificate import REFUTED

    ways = {"JOB_ID": options.job, "--mechanism": options.mechanism, "--verify": options.verify}
    if sum(way is not None for way in ways.values()) != 1:
        raise InvalidArgument(f"Name one of {', '.join(ways)}.")
    found = verified(options.verify) if options.verify is not None else made(options)
    show(found)
    return REFUTED_STATUS if any(each.verdict == REFUTED for each in found.values()) else 0


def verified(path: Path) -> dict[Path, Certificate]:
    from fate_dp.privacy.auditing.certificate import read

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"The file {path} cannot be read as a certificate.") from error
    return {path: read(text)}


def made(options: argparse.Namespace) -> dict[Path, Certificate]:
    from fate_dp.privacy.private_files import atomic_write

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
