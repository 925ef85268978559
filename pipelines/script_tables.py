"""The tables that the scripts in examples/ read, under the names that FATE's own examples give them.

default_credit (UCI's card holders, as FATE's repository has it) is taken from a folder where it lies; elsewhere, and for the
motors and the vehicles everywhere, records of the same shape are made up. Everything is public or invented, so caps are wide: scripts can be
run again and again. Nothing needs a download.
"""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fate_dp.components.common.dataset_names import columns_name
from fate_dp.privacy.ledger.families import WEIGHTS
from fate_dp.privacy.party_files import POLICY_FILE
from fate_dp.privacy.policy import declare_caps

from .example_tables import PATIENTS, Destination, upload_patients
from .hetero_lr import Parties, Tables
from .homo_lr import Federation
from .party_ledgers import declare, make_home
from .upload import TableMeta

NAMESPACE = "experiment"
CREDIT = Tables(NAMESPACE, "default_credit_hetero_guest", "default_credit_hetero_host")
CREDIT_FILES = ("default_credit_hetero_host", "default_credit_hetero_guest")
MOTORS = Tables(NAMESPACE, "motor_hetero_guest", "motor_hetero_host")
VEHICLES = Tables(NAMESPACE, "vehicle_scale_hetero_guest", "vehicle_scale_hetero_host")
NEW_PATIENTS = "new_patients"
CREDIT_COLUMNS, HOST_CREDIT_COLUMNS = 23, 10
# Of the hetero tables; each side lacks some, and dp_hetero_lr wants 40 for each of the columns, since some take few values.
JOINED_CREDIT, LACKING = 1200, 100
CREDIT_OF_A_BANK = 1000
MOTOR_RECORDS, VEHICLE_RECORDS = 800, 846
SEED = 2024
# How many values each made-up column of the host's takes: limit, sex, education, marriage, age, and five states of payment.
LEVELS = (80, 2, 4, 3, 55, 9, 9, 9, 9, 9)
# Caps: models whose scores are shown, rows that are scored, epsilon of private steps and of each table's labels.
MOST_MODELS, MOST_ROWS, MOST_EPSILON, MOST_OF_LABELS = 100, 5000, 1000.0, 8.0


def upload_credit(destination: Destination, folder: Path) -> list[str]:
    """default_credit between a guest and a host: labels and 13 columns, 10 columns; the guest's labels are declared."""
    table = credit_records(destination.data, JOINED_CREDIT)
    names = [f"x{number}" for number in range(CREDIT_COLUMNS)]
    sides = {
        CREDIT.guest: table[["id", "y", *names[HOST_CREDIT_COLUMNS:]]].iloc[:-LACKING],
        CREDIT.host: table[["id", *names[:HOST_CREDIT_COLUMNS]]].iloc[LACKING:],
    }
    for name, side in sides.items():
        labelled = ["id", "y"] if "y" in side else ["id"]
        side = side.set_axis([*labelled, *names[: side.shape[1] - len(labelled)]], axis=1)
        _upload(destination, folder, name, side, TableMeta(label_name="y" if "y" in side else None))
    declare(destination.parties_folder, Parties().guest, CREDIT.label_source(), cap=MOST_OF_LABELS)
    return [f"{NAMESPACE}/{name}" for name in sides]


def upload_banks(destination: Destination, folder: Path) -> list[str]:
    """default_credit between three banks, which have all columns of a thousand other records each."""
    table = credit_records(destination.data, JOINED_CREDIT + 3 * CREDIT_OF_A_BANK).iloc[JOINED_CREDIT:]
    names = [f"default_credit_homo_{side}" for side in ("guest", "host_1", "host_2")]
    for number, ((_, party), name) in enumerate(zip(Federation().data_parties(), names)):
        _upload(destination, folder, name, table[number * CREDIT_OF_A_BANK :][:CREDIT_OF_A_BANK], TableMeta(label_name="y"))
        _allow(destination, party, columns_name(table.columns.drop(["id", "y"])), epsilon=MOST_EPSILON)
    return [f"{NAMESPACE}/{name}" for name in names]


def upload_motors(destination: Destination, folder: Path) -> list[str]:
    """Made-up motors of guest and host: 4 and 7 columns, and the speed, a number between -2 and 2, which is declared."""
    table = motors(MOTOR_RECORDS, SEED)
    guest = table[["idx", "motor_speed", *(f"x{number}" for number in range(4))]]
    host = table[["idx", *(f"x{number}" for number in range(4, 11))]].set_axis(["idx", *(f"x{n}" for n in range(7))], axis=1)
    _upload(destination, folder, MOTORS.guest, guest, TableMeta("idx", "motor_speed", "float64"))
    _upload(destination, folder, MOTORS.host, host.iloc[::-1], TableMeta("idx"))
    declare(destination.parties_folder, Parties().guest, MOTORS.label_source("motor_speed"), cap=MOST_OF_LABELS)
    return [f"{NAMESPACE}/{name}" for name in (MOTORS.guest, MOTORS.host)]


def upload_vehicles(destination: Destination, folder: Path) -> list[str]:
    """Made-up vehicles of four kinds, nine columns on either side; the labels are declared, and the host shows scores."""
    table = vehicles(VEHICLE_RECORDS, SEED)
    guest = table[["id", "y", *(f"x{number}" for number in range(9))]]
    host = table[["id", *(f"x{number}" for number in range(9, 18))]].set_axis(["id", *(f"v{n}" for n in range(9))], axis=1)
    _upload(destination, folder, VEHICLES.guest, guest, TableMeta(label_name="y"))
    _upload(destination, folder, VEHICLES.host, host, TableMeta())
    declare(destination.parties_folder, Parties().guest, VEHICLES.label_source(), cap=MOST_OF_LABELS)
    _allow(destination, Parties().host, columns_name(host.columns.drop("id")), scores=MOST_MODELS)
    return [f"{NAMESPACE}/{name}" for name in (VEHICLES.guest, VEHICLES.host)]


def upload_new_patients(destination: Destination, folder: Path) -> list[str]:
    """Five patients held out of training, with the columns of guest and host in one table of the guest's.

    The host's operator lets its training rows' scores be shown for many models, and its weights be used for many rows.
    """
    from fate_dp.data_prep.breast_cancer import LABEL, party_tables

    tables = party_tables()
    joined = tables["guest_test"].merge(tables["host_test"], on="id").drop(columns=LABEL).head(5)
    _upload(destination, folder, NEW_PATIENTS, joined, TableMeta(), PATIENTS.namespace)
    columns = columns_name(tables["host_test"].columns.drop("id"))
    _allow(destination, Parties().host, columns, scores=MOST_MODELS)
    _allow(destination, Parties().host, f"{WEIGHTS}{columns}", scores=MOST_ROWS)
    return [f"{PATIENTS.namespace}/{NEW_PATIENTS}"]


def credit_records(data: Path | None, records: int):
    """A pandas table of card holders: id, y, x0 to x22; the first ones of FATE's files in a folder, else made up."""
    import pandas

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


def made_up_credit(records: int, seed: int):
    """Card holders who never were: standardised columns, ten of few values, that tell something about y."""
    import numpy
    import pandas
    from scipy.special import ndtr

    draws = numpy.random.default_rng(seed)
    risk = draws.normal(size=(records, 1))
    values = 0.4 * risk + draws.normal(size=(records, CREDIT_COLUMNS)) * 0.84**0.5
    values[:, : len(LEVELS)] = numpy.floor(ndtr(values[:, : len(LEVELS)]) * LEVELS)
    # Sums of money: a few are very large.
    values[:, len(LEVELS) :] = numpy.exp(values[:, len(LEVELS) :])
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    table = pandas.DataFrame(values.round(6), columns=[f"x{number}" for number in range(CREDIT_COLUMNS)])
    table.insert(0, "y", (risk[:, 0] + draws.normal(size=records) > 1.1).astype(int))
    table.insert(0, "id", [f"invented-{number:05d}" for number in range(records)])
    return table


def motors(records: int, seed: int):
    """Motors that never were: eleven standardised columns and a speed that depends on them."""
    import numpy
    import pandas

    draws = numpy.random.default_rng(seed)
    values = draws.normal(size=(records, 11))
    speed = values @ draws.normal(scale=0.2, size=11) + draws.normal(scale=0.2, size=records)
    table = pandas.DataFrame(values.round(6), columns=[f"x{number}" for number in range(11)])
    table.insert(0, "motor_speed", speed.clip(-2, 2).round(6))
    table.insert(0, "idx", [f"motor-{number:04d}" for number in range(records)])
    return table


def vehicles(records: int, seed: int):
    """Vehicles that never were: eighteen standardised columns, and which of four kinds they say it is."""
    import numpy
    import pandas

    draws = numpy.random.default_rng(seed)
    values = draws.normal(size=(records, 18))
    kinds = (values @ draws.normal(size=(18, 4))).argmax(axis=1)
    table = pandas.DataFrame(values.round(6), columns=[f"x{number}" for number in range(18)])
    table.insert(0, "y", kinds)
    table.insert(0, "id", [f"vehicle-{number:04d}" for number in range(records)])
    return table


def _found(data: Path | None, name: str) -> Path | None:
    files = [] if data is None else [data / f"{name}.csv", data / f"{name}.csv.gz"]
    return next((path for path in files if path.is_file()), None)


def _upload(destination: Destination, folder: Path, name: str, table, meta: TableMeta, namespace: str = NAMESPACE) -> None:
    table.to_csv(folder / f"{name}.csv", index=False)
    destination.upload(folder / f"{name}.csv", namespace, name, meta)


def _allow(destination: Destination, party: str, dataset: str, **caps) -> None:
    declare_caps(make_home(destination.parties_folder, party) / POLICY_FILE, dataset, **caps)


FOLDERS: dict[str, tuple[Callable[[Destination, Path], list[str]], ...]] = {
    "dp_hetero_lr": (upload_patients, upload_new_patients, upload_credit, upload_motors, upload_vehicles),
    "flipback": (upload_patients, upload_new_patients),
    "share_lr": (upload_patients,),
    "dp_homo_nn": (upload_banks,),
    "shuffler": (upload_banks,),
}
"""What makes the tables of the scripts in each folder of examples/pipeline/."""
