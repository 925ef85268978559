"""``python -m examples.tables``: the tables that the jobs in conf/ and the scripts in examples/ read; `EXAMPLES` and `FOLDERS`
say who makes which.

They are of scikit-learn's breast-cancer data and of invented loans, people, card holders, motors and vehicles. Cards of
UCI's default_credit, as FATE's repository has them, are taken from a folder where they lie. Names in the namespace
``experiment`` are those of FATE's own examples. Everything is public or invented, so caps are wide: scripts can be run
again and again. Nothing needs a download.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy
import pandas
from scipy.special import ndtr

from examples.pipelines import Federation
from fate_dp.components.common.charges import columns_name
from fate_dp.data_prep.breast_cancer import LABEL, party_tables, write_tables
from fate_dp.data_prep.lending_club.cleaning import clean
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import divide
from fate_dp.data_prep.lending_club.written import write
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.pipelines.cli.console import TaskLines, add_arguments, parties_folder, running_server, wide_console
from fate_dp.pipelines.cli.main import run_command
from fate_dp.pipelines.jobs.party_ledgers import make_home
from fate_dp.pipelines.jobs.ready import Parties, Tables
from fate_dp.pipelines.jobs.upload import NAMESPACE as LOANS_NAMESPACE
from fate_dp.pipelines.jobs.upload import TableMeta, upload_prepared, upload_table
from fate_dp.privacy.ledger.database import WEIGHTS
from fate_dp.privacy.ledger.policy import declare_caps
from fate_dp.privacy.private_files import POLICY_FILE

from .synthetic_loans import write_synthetic

PATIENTS = Tables("fate_dp_demo", "guest_train", "host_train")
NEW_PATIENTS = "new_patients"
# Of these some 19,000 are left as training rows: most invented loans, like most real ones, are not settled.
LOANS = 100_000
HOSPITALS = Federation(hosts=("9998",), shuffler="10000")
PEOPLE = {HOSPITALS.guest: ("guest_records", 2500), HOSPITALS.hosts[0]: ("host_records", 2000)}
PEOPLE_SEED = 2024
NAMESPACE = "experiment"
CREDIT = Tables(NAMESPACE, "default_credit_hetero_guest", "default_credit_hetero_host")
CREDIT_FILES = ("default_credit_hetero_host", "default_credit_hetero_guest")
MOTORS = Tables(NAMESPACE, "motor_hetero_guest", "motor_hetero_host")
VEHICLES = Tables(NAMESPACE, "vehicle_scale_hetero_guest", "vehicle_scale_hetero_host")
CREDIT_COLUMNS, HOST_CREDIT_COLUMNS = 23, 10
# Of the hetero tables; each side lacks some, and dp_hetero_lr wants 40 for each of the columns, since some take few values.
JOINED_CREDIT, LACKING = 1200, 100
CREDIT_OF_A_BANK = 1000
MOTOR_RECORDS, VEHICLE_RECORDS = 800, 846
SEED = 2024
# How many values each made-up column of the host's takes: limit, sex, education, marriage, age, and five states of payment.
LEVELS = (80, 2, 4, 3, 55, 9, 9, 9, 9, 9)
# Caps: models whose scores are shown, rows that are scored, epsilon of private steps.
MAX_MODELS, MAX_ROWS, MAX_EPSILON = 100, 5000, 1000.0


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

    def upload(self, csv_file: Path, namespace: str, meta: TableMeta) -> str:
        """Upload a table and tell of it under the file's name, one of that name is replaced; returns namespace/name."""
        name = csv_file.stem
        told = lambda *news: self.progress(name, *news)
        # Made-up tables number their rows, and no two are of the same people.
        own = replace(meta, facts=replace(meta.facts, population=f"{namespace}/{name}"))
        upload_table(self.address, csv_file, namespace, name, own, home=self.home, progress=told)
        return f"{namespace}/{name}"

    def put(
        self, csv_file: Path, table: pandas.DataFrame, meta: TableMeta = TableMeta(), namespace: str = NAMESPACE
    ) -> str:
        """Write a table and upload it."""
        table.to_csv(csv_file, index=False)
        return self.upload(csv_file, namespace, meta)

    def allow(self, party: str, dataset: str, epsilon: float | None = None, scores: int | None = None) -> None:
        """Set caps of a party's dataset."""
        declare_caps(make_home(self.parties_folder, party) / POLICY_FILE, dataset, epsilon=epsilon, scores=scores)


Maker = Callable[[Destination, Path], list[str]]


def upload_patients(destination: Destination, folder: Path) -> list[str]:
    """Training rows of guest and host as the demo splits them."""
    write_tables(folder / "patients")
    sides = ((PATIENTS.guest, LABEL), (PATIENTS.host, None))
    return [
        destination.upload(folder / "patients" / f"{name}.csv", PATIENTS.namespace, TableMeta(label_name=label))
        for name, label in sides
    ]


def upload_new_patients(destination: Destination, folder: Path) -> list[str]:
    """Five patients held out of training, with the columns of guest and host in one table of the guest's.

    The host's operator lets its training rows' scores be shown for many models, and its weights be used for many rows.
    """
    tables = party_tables()
    joined = tables["guest_test"].merge(tables["host_test"], on="id").drop(columns=LABEL).head(5)
    columns = columns_name(tables["host_test"].columns.drop("id"))
    destination.allow(Parties().host, columns, scores=MAX_MODELS)
    destination.allow(Parties().host, f"{WEIGHTS}{columns}", scores=MAX_ROWS)
    return [destination.put(folder / f"{NEW_PATIENTS}.csv", joined, namespace=PATIENTS.namespace)]


def upload_loans(destination: Destination, folder: Path) -> list[str]:
    """Invented loans in public units, not over-sampled, as `fate-dp prep` makes them for three parties, and test rows."""
    write_synthetic(folder / "loan.csv", LOANS)
    loans, options = clean(folder / "loan.csv"), PrepOptions(units="public", over_sampling="none")
    write(loans, divide(loans, options), options, folder / "prepared")
    names = upload_prepared(
        destination.address, folder / "prepared", progress=destination.progress, home=destination.home
    )
    return [f"{LOANS_NAMESPACE}/{name}" for name in names.values()]


def upload_people(destination: Destination, folder: Path) -> list[str]:
    """Invented people of guest and host: age in years, income a year, whether they own a house; no labels."""
    return [
        destination.put(folder / f"{name}.csv", people(rows, PEOPLE_SEED + number), namespace=PATIENTS.namespace)
        for number, (name, rows) in enumerate(PEOPLE.values())
    ]


def upload_credit(destination: Destination, folder: Path) -> list[str]:
    """default_credit between a guest and a host: labels and 13 columns, 10 columns."""
    table = credit_records(destination.data, JOINED_CREDIT)
    guest = _side(table[:-LACKING], ["id", "y"], range(HOST_CREDIT_COLUMNS, CREDIT_COLUMNS))
    host = _side(table[LACKING:], ["id"], range(HOST_CREDIT_COLUMNS))
    return [
        destination.put(folder / f"{CREDIT.guest}.csv", guest, TableMeta(label_name="y")),
        destination.put(folder / f"{CREDIT.host}.csv", host),
    ]


def upload_banks(destination: Destination, folder: Path) -> list[str]:
    """default_credit between three banks, which have all columns of a thousand other records each."""
    table = credit_records(destination.data, JOINED_CREDIT + 3 * CREDIT_OF_A_BANK)
    columns, names = columns_name(table.columns.drop(["id", "y"])), []
    for number, (side, (_, party)) in enumerate(zip(("guest", "host_1", "host_2"), Federation().data_parties())):
        rows = table[JOINED_CREDIT + number * CREDIT_OF_A_BANK :][:CREDIT_OF_A_BANK]
        names.append(destination.put(folder / f"default_credit_homo_{side}.csv", rows, TableMeta(label_name="y")))
        destination.allow(party, columns, epsilon=MAX_EPSILON)
    return names


def upload_motors(destination: Destination, folder: Path) -> list[str]:
    """Made-up motors of guest and host: 4 and 7 columns, and the speed, a number between -2 and 2."""
    table = motors(MOTOR_RECORDS, SEED)
    guest, host = _side(table, ["idx", "motor_speed"], range(4)), _side(table, ["idx"], range(4, 11))
    return [
        destination.put(folder / f"{MOTORS.guest}.csv", guest, TableMeta("idx", "motor_speed", "float64")),
        destination.put(folder / f"{MOTORS.host}.csv", host[::-1], TableMeta("idx")),
    ]


def upload_vehicles(destination: Destination, folder: Path) -> list[str]:
    """Made-up vehicles of four kinds, nine columns on either side; the host shows scores."""
    table = vehicles(VEHICLE_RECORDS, SEED)
    guest, host = _side(table, ["id", "y"], range(9)), _side(table, ["id"], range(9, 18), called="v")
    destination.allow(Parties().host, columns_name(host.columns.drop("id")), scores=MAX_MODELS)
    return [
        destination.put(folder / f"{VEHICLES.guest}.csv", guest, TableMeta(label_name="y")),
        destination.put(folder / f"{VEHICLES.host}.csv", host),
    ]


def _side(table: pandas.DataFrame, kept: list[str], columns: range, called: str = "x") -> pandas.DataFrame:
    """One side's part of a table: columns that it keeps, and some of x0, x1, ..., which it counts from 0."""
    names = [f"{called}{number}" for number in range(len(columns))]
    return table[[*kept, *(f"x{number}" for number in columns)]].set_axis([*kept, *names], axis=1)


def people(rows: int, seed: int) -> pandas.DataFrame:
    """A pandas table of invented people, the same for the same rows and seed."""
    draws = numpy.random.default_rng(seed)
    age = draws.integers(20, 80, rows)
    return pandas.DataFrame(
        {
            "id": [f"person-{seed}-{number:05d}" for number in range(rows)],
            "age": age,
            "income": draws.lognormal(10.7, 0.5, rows).round(-2),
            "owns_house": (draws.random(rows) < age / 100).astype(int),
        }
    )


def credit_records(data: Path | None, records: int) -> pandas.DataFrame:
    """A pandas table of card holders: id, y, x0 to x22; the first ones of FATE's files in a folder, else made up."""
    found = [_found(data, name) for name in CREDIT_FILES]
    if None in found:
        return made_up_credit(records, SEED)
    host, guest = (pandas.read_csv(path, dtype={"id": str}, nrows=records) for path in found)
    names = [f"x{number}" for number in range(CREDIT_COLUMNS)]
    host.columns = ["id", *names[:HOST_CREDIT_COLUMNS]]
    guest.columns = ["id", "y", *names[HOST_CREDIT_COLUMNS:]]
    joined = guest.merge(host, on="id")
    # Where FATE's tables were uploaded as they are, these records do not count together with them.
    return joined.assign(id="card-" + joined["id"])[["id", "y", *names]]


def _found(data: Path | None, name: str) -> Path | None:
    files = [] if data is None else [data / f"{name}.csv", data / f"{name}.csv.gz"]
    return next((path for path in files if path.is_file()), None)


def made_up_credit(records: int, seed: int) -> pandas.DataFrame:
    """Card holders who never were: standardised columns, ten of few values, that tell something about y."""
    draws = numpy.random.default_rng(seed)
    risk = draws.normal(size=(records, 1))
    values = 0.4 * risk + draws.normal(size=(records, CREDIT_COLUMNS)) * 0.84**0.5
    values[:, : len(LEVELS)] = numpy.floor(ndtr(values[:, : len(LEVELS)]) * LEVELS)
    # Sums of money: a few are very large.
    values[:, len(LEVELS) :] = numpy.exp(values[:, len(LEVELS) :])
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    return _invented(values, "y", (risk[:, 0] + draws.normal(size=records) > 1.1).astype(int), "invented-{:05d}")


def motors(records: int, seed: int) -> pandas.DataFrame:
    """Motors that never were: eleven standardised columns and a speed that depends on them."""
    draws = numpy.random.default_rng(seed)
    values = draws.normal(size=(records, 11))
    speed = values @ draws.normal(scale=0.2, size=11) + draws.normal(scale=0.2, size=records)
    return _invented(values, "motor_speed", speed.clip(-2, 2).round(6), "motor-{:04d}", id_name="idx")


def vehicles(records: int, seed: int) -> pandas.DataFrame:
    """Vehicles that never were: eighteen standardised columns, and which of four kinds they say it is."""
    draws = numpy.random.default_rng(seed)
    values = draws.normal(size=(records, 18))
    kinds = (values @ draws.normal(size=(18, 4))).argmax(axis=1)
    return _invented(values, "y", kinds, "vehicle-{:04d}")


def _invented(
    values: numpy.ndarray, label: str, labels: numpy.ndarray, form: str, id_name: str = "id"
) -> pandas.DataFrame:
    """A table of ids in a form, labels, and columns x0, x1, ..."""
    table = pandas.DataFrame(values.round(6)).add_prefix("x")
    table.insert(0, label, labels)
    table.insert(0, id_name, [form.format(number) for number in range(len(values))])
    return table


EXAMPLES: dict[str, Maker] = {
    "label_private_hetero_lr": upload_patients,
    "joined_shares_lr": upload_patients,
    "private_homo_nn": upload_loans,
    "private_homo_gbdt": upload_loans,
    "lending_club_homo_lr": upload_loans,
    "shuffled_statistics": upload_people,
}
"""What makes the tables of each job in conf/, by the name of its file."""
FOLDERS: dict[str, tuple[Maker, ...]] = {
    "dp_hetero_lr": (upload_patients, upload_new_patients, upload_credit, upload_motors, upload_vehicles),
    "flipback": (upload_patients, upload_new_patients),
    "score_correction": (upload_patients,),
    "share_lr": (upload_patients,),
    "dp_homo_nn": (upload_banks,),
    "dp_homo_gbdt": (upload_banks,),
    "shuffler": (upload_banks,),
}
"""What makes the tables of the scripts in each folder of examples/pipeline/."""


def makers_of(jobs: list[str]) -> list[Maker]:
    """Each maker that one of these jobs needs, once; all of them for no job.

    Raises:
        ValueError: one sentence, for a name that neither a file in conf/ nor a folder of examples/pipeline/ has.
    """
    known = {**{job: (maker,) for job, maker in EXAMPLES.items()}, **FOLDERS}
    unknown = next((job for job in jobs if job not in known), None)
    if unknown is not None:
        raise ValueError(f"The job must be one of {', '.join(known)}, got {unknown!r}.")
    return list(dict.fromkeys(maker for job in jobs or known for maker in known[job]))


def main(arguments: list[str] | None = None) -> int:
    """The exit status; a refusal is one sentence on standard error and status 1."""
    return run_command(parser(), arguments)


def parser() -> argparse.ArgumentParser:
    text = "Make and upload the tables that conf/ and examples/ read; tables of the same names are replaced."
    command = argparse.ArgumentParser(prog="python -m examples.tables", description=text)
    command.set_defaults(run=run)
    text = (
        "files of conf/ without .yaml, such as private_homo_nn, or folders of examples/pipeline/, such as dp_hetero_lr;"
    )
    command.add_argument("jobs", nargs="*", metavar="JOB", help=f"{text} all unless given")
    text = "where default_credit of FATE's examples lies; made up unless given"
    command.add_argument("--data", type=Path, metavar="FOLDER", help=text)
    add_arguments(command, dict.fromkeys(("--flow", "--home")))
    return command


def run(options: argparse.Namespace) -> None:
    if options.data is not None and not options.data.is_dir():
        raise ValueError(f"--data {options.data} is not a folder.")
    makers = makers_of(options.jobs)
    address, home = running_server(options)
    console = wide_console()
    with TaskLines(console) as lines, tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as threads:
        destination = Destination(address, parties_folder(options), home, lines.task, options.data)
        names = list(threads.map(lambda make: make(destination, Path(folder)), makers))
    console.print(f"Uploaded: {', '.join(sum(names, []))}", markup=False, highlight=False)


if __name__ == "__main__":
    raise SystemExit(main())
