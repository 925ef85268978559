"""The tables that the jobs in conf/ read, from scikit-learn's breast-cancer data and from invented loans and people.

Each job's file names its tables; `EXAMPLES` says which of the makers here makes them. Nothing needs a download.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.deploy.flow_address import FlowAddress

from .hetero_lr import Parties, Tables
from .party_ledgers import declare
from .shuffler import ShuffledParties
from .upload import TableMeta, upload_table
from .upload_prepared import upload_prepared

PATIENTS = Tables("fate_dp_demo", "guest_train", "host_train")
# Of these some 19,000 are left as training rows: most invented loans, like most real ones, are not settled.
LOANS = 100_000
PEOPLE_NAMESPACE = "fate_dp_demo"
PEOPLE = {ShuffledParties().guest: ("guest_records", 2500), ShuffledParties().hosts[0]: ("host_records", 2000)}
PEOPLE_SEED = 2024


@dataclass(frozen=True)
class Destination:
    """Where tables go: a FATE-Flow, its home if it is the embedded one, and the parties' folder of policies.

    ``data`` is a folder where tables of FATE's examples may lie; where one does not, it is made up.
    """

    address: FlowAddress
    parties_folder: Path
    home: Path | None = None
    progress: Callable[[str, str, str, float], None] = lambda table, task, status, seconds: None
    data: Path | None = None

    def upload(self, csv_file: Path, namespace: str, name: str, meta: TableMeta) -> None:
        """Upload a table and tell of it under its name; one of that name is replaced."""
        upload_table(
            self.address, csv_file, namespace, name, meta, home=self.home,
            progress=lambda *news: self.progress(name, *news),
        )  # fmt: skip


def upload_patients(destination: Destination, folder: Path) -> list[str]:
    """Training rows of guest and host as the demo splits them; the guest's labels are declared."""
    from fate_dp.data_prep.breast_cancer import LABEL, write_tables

    write_tables(folder / "patients")
    for name, label in ((PATIENTS.guest, LABEL), (PATIENTS.host, None)):
        destination.upload(folder / "patients" / f"{name}.csv", PATIENTS.namespace, name, TableMeta(label_name=label))
    declare(destination.parties_folder, Parties().guest, PATIENTS.label_source())
    return [f"{PATIENTS.namespace}/{name}" for name in (PATIENTS.guest, PATIENTS.host)]


def upload_loans(destination: Destination, folder: Path) -> list[str]:
    """Invented loans in public units, not over-sampled, as `fate-dp prep` makes them for three parties, and test rows."""
    from fate_dp.data_prep.lending_club.cleaning import clean
    from fate_dp.data_prep.lending_club.preparation import divide
    from fate_dp.data_prep.lending_club.synthetic import write_synthetic
    from fate_dp.data_prep.lending_club.written import write

    from .upload_prepared import NAMESPACE

    write_synthetic(folder / "loan.csv", LOANS)
    loans, options = clean(folder / "loan.csv"), PrepOptions(units="public", over_sampling="none")
    write(loans, divide(loans, options), options, folder / "prepared")
    names = upload_prepared(
        destination.address, folder / "prepared", progress=destination.progress, home=destination.home)
    return [f"{NAMESPACE}/{name}" for name in names.values()]


def upload_people(destination: Destination, folder: Path) -> list[str]:
    """Invented people of guest and host: age in years, income a year, whether they own a house; no labels."""
    for number, (name, rows) in enumerate(PEOPLE.values()):
        people(rows, PEOPLE_SEED + number).to_csv(folder / f"{name}.csv", index=False)
        destination.upload(folder / f"{name}.csv", PEOPLE_NAMESPACE, name, TableMeta())
    return [f"{PEOPLE_NAMESPACE}/{name}" for name, _ in PEOPLE.values()]


def people(rows: int, seed: int):
    """A pandas table of invented people, the same for the same rows and seed."""
    import numpy
    import pandas

    draws = numpy.random.default_rng(seed)
    age = draws.integers(20, 80, rows)
    return pandas.DataFrame({
        "id": [f"person-{seed}-{number:05d}" for number in range(rows)],
        "age": age,
        "income": draws.lognormal(10.7, 0.5, rows).round(-2),
        "owns_house": (draws.random(rows) < age / 100).astype(int),
    })


EXAMPLES: dict[str, Callable[[Destination, Path], list[str]]] = {
    "label_private_hetero_lr": upload_patients,
    "joined_shares_lr": upload_patients,
    "private_homo_nn": upload_loans,
    "lending_club_homo_lr": upload_loans,
    "shuffled_statistics": upload_people,
}
"""What makes the tables of each job in conf/, by the name of its file."""


def makers_of(jobs: list[str]) -> list[Callable[[Destination, Path], list[str]]]:
    """Each maker that one of these jobs needs, once; all of them for no job.

    :raises ValueError: one sentence, for a name that neither a file in conf/ nor a folder of examples/pipeline/ has.
    """
    from .script_tables import FOLDERS

    known = {**{job: (maker,) for job, maker in EXAMPLES.items()}, **FOLDERS}
    unknown = next((job for job in jobs if job not in known), None)
    if unknown is not None:
        raise ValueError(f"The job is {unknown!r}; it must be one of {', '.join(known)}.")
    return list(dict.fromkeys(maker for job in jobs or known for maker in known[job]))
