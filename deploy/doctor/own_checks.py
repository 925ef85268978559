"""Is what this machine has of its own sound: the installation, and what each party keeps to itself?"""

import os
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from fate_dp.deploy import FATE_VERSION
from fate_dp.privacy.ledger.database import SCHEMA_VERSION, UPGRADES, version_of
from fate_dp.privacy.ledger.entries import LedgerUnavailable
from fate_dp.privacy.ledger.policy import InvalidPolicy, load_policy, unused_names
from fate_dp.privacy.private_files import (
    CALLS_FOLDER,
    CANARIES_FOLDER,
    HOME_VARIABLE,
    KEY_FILE,
    LEDGER_FILE,
    PARTY_PREFIX,
    POLICY_FILE,
    VIEWS_FOLDER,
    UnsafeKeyFile,
    load_or_create_key,
    party_ids,
)

from .findings import ENVIRONMENT, PARTIES, PARTY, Finding, check, ok, problem, unseen, warning
from .gathering import Environment
from .limits import read_only
from .probe import FATE_PINS

FATE_PACKAGES = ("pyfate", "fate-flow", "fate-client")
FATE_REQUIREMENT = f"fate_client[fate,fate_flow]=={FATE_VERSION}"
LOOKED_AT_ALONE = ("fate-client", "numpy", "pydantic", "setuptools")
FIRST_PYTHON, FIRST_UNKNOWN_PYTHON = (3, 10), (3, 12)
OTHERS = stat.S_IRWXG | stat.S_IRWXO
BUSY_SECONDS = 2.0
INTEGRITY_SECONDS = 20.0


@check(ENVIRONMENT, "Python")
def python(environment: Environment) -> Finding:
    version = ".".join(map(str, environment.python))
    if FIRST_PYTHON <= tuple(environment.python[:2]) < FIRST_UNKNOWN_PYTHON:
        return ok(f"Python {version} at {environment.executable}.")
    return problem(
        f"{environment.executable} is Python {version}, but FATE-DP runs on 3.10 and 3.11.",
        "Make an environment with `python3.11 -m venv FOLDER` and install FATE and FATE-DP there.",
    )


@check(ENVIRONMENT, "FATE")
def fate(environment: Environment) -> Finding:
    versions = {name: environment.version(name) for name in FATE_PACKAGES}
    wrong = {name: version for name, version in versions.items() if version != FATE_VERSION}
    if not wrong:
        return ok(f"FATE, FATE-Flow and fate_client {FATE_VERSION}.")
    found = ", ".join(f"{name} {version or 'missing'}" for name, version in wrong.items())
    return problem(f"FATE-DP is made for FATE {FATE_VERSION}, but found: {found}.", _cure(environment, list(wrong)))


def _cure(environment: Environment, wrong: list) -> str:
    """How the right FATE comes there; pip would put a second copy beside one that it does not know."""
    unrecorded = [name for name in wrong if name in environment.unrecorded]
    if unrecorded:
        places = " and ".join(sorted({environment.distributions[name][0][1] for name in unrecorded}))
        return f"Replace what is in {places}, which pip did not install, by FATE {FATE_VERSION}."
    if environment.unrecorded:
        return f"Run {environment.pip_install(*(f'{name}=={FATE_VERSION}' for name in wrong))}."
    return f"Run {environment.pip_install(FATE_REQUIREMENT)}."


@check(ENVIRONMENT, "numpy")
def numpy(environment: Environment) -> Finding:
    return _within(environment, "numpy", "<2", "FATE's messages name modules that numpy 2 has renamed")


@check(ENVIRONMENT, "pydantic")
def pydantic(environment: Environment) -> Finding:
    return _within(environment, "pydantic", ">=1.10,<2", "FATE's parameter types are written for pydantic 1.10")


@check(ENVIRONMENT, "setuptools")
def setuptools(environment: Environment) -> Finding:
    finding = _within(environment, "setuptools", "<81", "FATE finds components by pkg_resources, which later ones drop")
    if finding.cure or "error" not in environment.lookup:
        return finding
    return problem(
        f"pkg_resources cannot be imported ({environment.lookup['error']}), so FATE finds no component.",
        f"Run {environment.pip_install('--force-reinstall', 'setuptools<81')}.",
    )


def _within(environment: Environment, name: str, allowed: str, why: str) -> Finding:
    version = environment.version(name)
    if version is not None and SpecifierSet(allowed).contains(version, prereleases=True):
        return ok(f"{name} {version}.")
    return problem(
        f"{name} must be {allowed}, got {version or 'none'}: {why}.", f"Run {environment.pip_install(name + allowed)}."
    )


@check(ENVIRONMENT, "FATE-DP")
def installed_once(environment: Environment) -> Finding:
    """One installation, and the modules come from it."""
    plugin = environment.plugin
    if plugin is None:
        return problem(
            f"FATE-DP is not installed for {environment.executable}.", f"Run {environment.install_plugin()}."
        )
    places = [each.location for each in environment.plugins]
    if len(places) > 1:
        return problem(
            f"FATE-DP is installed {len(places)} times, in {' and '.join(places)}; only the first is used.",
            f"Run `{environment.executable} -m pip uninstall fate-dp` until none is left and take folders that pip "
            f"does not know off PYTHONPATH, then run {environment.install_plugin()}.",
        )
    # What is recorded as installed is what is imported.
    if plugin.source is not None and not Path(plugin.source).is_dir():
        return problem(
            f"FATE-DP {plugin.version} is an editable installation of {plugin.source}, which is gone.",
            f"Bring that folder back, or run {environment.install_plugin()}.",
        )
    folder = environment.folders["components"]
    expected = Path(plugin.source) if plugin.source else Path(plugin.location) / "fate_dp"
    if folder is None:
        return problem(
            f"FATE-DP {plugin.version} is recorded in {plugin.location}, but cannot be imported.",
            f"Run {environment.install_plugin()}.",
        )
    if not Path(folder).resolve().is_relative_to(expected.resolve()):
        return problem(
            f"FATE-DP {plugin.version} is recorded in {plugin.location}, but is imported from {Path(folder).parent}.",
            f"Take {Path(folder).parent} off PYTHONPATH, or run {environment.install_plugin()}.",
        )
    return ok(f"FATE-DP {plugin.version} in {Path(folder).parent}.")


@check(ENVIRONMENT, "requirements")
def requirements(environment: Environment) -> Finding:
    """What else FATE-DP requires beside FATE, as its own metadata says it."""
    if environment.plugin is None:
        return ok("FATE-DP is not installed here, so it requires nothing.")
    here = {"extra": "fate", "python_version": ".".join(map(str, environment.python[:2]))}
    required = [
        each
        for each in map(Requirement, environment.plugin.requires)
        if canonicalize_name(each.name) not in LOOKED_AT_ALONE and (each.marker is None or each.marker.evaluate(here))
    ]
    installed = [environment.version(canonicalize_name(each.name)) for each in required]
    broken = {
        each: version
        for each, version in zip(required, installed, strict=True)
        if version is None or not each.specifier.contains(version, prereleases=True)
    }
    if not broken:
        return ok(f"The other {len(required)} packages that FATE-DP requires are there.")
    found = "; ".join(f"{each.name} is {version or 'missing'}" for each, version in broken.items())
    return problem(
        f"Requirements of FATE-DP are not met: {found}.",
        f"Run {environment.pip_install(*map(_without_marker, broken))}.",
    )


@check(ENVIRONMENT, "FATE's pins")
def pins(environment: Environment) -> Finding:
    """What FATE requires in one version, which pip cannot mind where FATE has no record of installation."""
    found = {name: environment.version(name) for name in FATE_PINS if name not in LOOKED_AT_ALONE}
    moved = {name: there for name, there in found.items() if there and Version(there) != Version(FATE_PINS[name])}
    if not moved:
        return ok(f"The packages that FATE {FATE_VERSION} pins have the pinned versions.")
    told = ", ".join(f"{name} is {there} and not {FATE_PINS[name]}" for name, there in moved.items())
    return warning(
        f"FATE {FATE_VERSION} was made and tried with other packages: {told}.",
        f"Run {environment.pip_install(*(f'{name}=={FATE_PINS[name]}' for name in moved))}.",
    )


def _without_marker(requirement: Requirement) -> str:
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"


@check(ENVIRONMENT, "native kernel")
def native_kernel(environment: Environment) -> Finding:
    """Encrypted training gives the same without it, in more time, so this is never a problem."""
    if environment.kernel is None:
        return ok("FATE-DP cannot be imported here, so nothing is computed.")
    return ok(environment.kernel[1])


@check(ENVIRONMENT, "components")
def components_found(environment: Environment) -> Finding:
    """Every component that lies in the package is announced to FATE, found by it, and imports."""
    if "error" in environment.lookup:
        return problem(
            f"FATE finds no component, because pkg_resources fails: {environment.lookup['error']}.",
            f"Run {environment.pip_install('--force-reinstall', 'setuptools<81')}.",
        )
    expected = component_names(environment)
    found = {name for name, _ in environment.lookup["found"].values() if name}
    failed = {name: why for name, (_, why) in environment.lookup["found"].items() if why and name in expected}
    if failed:
        entry, reason = next(iter(failed.items()))
        return problem(
            f"{len(failed)} of {len(expected)} components cannot be imported; {entry}: {reason}.",
            "Repair the packages that are marked above or install the one that the message names; if it names fate_dp "
            f"itself, run {environment.install_plugin()}.",
        )
    missing = [name for name in expected if name not in found]
    if missing or not expected:
        return problem(
            f"FATE does not find {', '.join(missing) or 'any component'}, because the installation does not announce "
            "it.",
            f"Run {environment.install_plugin()}, which writes the entry points anew.",
        )
    return ok(f"FATE finds and imports {', '.join(expected)}.")


@check(ENVIRONMENT, "descriptions")
def component_files(environment: Environment) -> Finding:
    """The descriptions that the client and FATE-Board read."""
    folder = environment.folders["pipelines"]
    if folder is None:
        return problem(
            "fate_dp.pipelines, which describes the components for the client, cannot be found.",
            f"Run {environment.install_plugin()}.",
        )
    descriptions = Path(folder) / "clients"
    for name in component_names(environment):
        path, described = descriptions / f"{name}.yaml", None
        trouble = f"The file {path} does not describe the component {name}."
        try:
            described = yaml.safe_load(path.read_text(encoding="utf-8"))["component"]["name"]
        except OSError as error:
            trouble = f"The description {path} of a component cannot be read: {error.strerror}."
        except (yaml.YAMLError, KeyError, TypeError, UnicodeDecodeError):
            pass  # so it describes none
        if described != name:
            return problem(trouble, f"Run {environment.install_plugin()}.")
    return ok(f"The descriptions of all components are in {descriptions}.")


def component_names(environment: Environment) -> list:
    """The components that the package holds or its installation announces."""
    folder = environment.folders["components"]
    held = [path.parent.name for path in Path(folder).glob("*/component.py")] if folder else []
    announced = environment.plugin.announces if environment.plugin else ()
    return sorted({*held, *announced})


@check(PARTIES, "parties' folder")
def parties_folder(folder: Path) -> Finding:
    """The folder of all parties, or where it will be made."""
    if not folder.exists():
        above = next(each for each in folder.absolute().parents if each.exists())
        if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
            return _no_party(f"{folder} does not exist")
        return problem(
            f"{folder} does not exist and cannot be made in {above}.",
            f"Run `install -d -m 700 {folder}` as the owner of {above}, for the user who runs FATE-Flow, "
            f"or set {HOME_VARIABLE} to a folder of that user.",
        )
    finding = private_folder(folder)
    return finding if finding.cure or party_ids(folder) else _no_party(f"{folder} has no folder {PARTY_PREFIX}ID in it")


def _no_party(said: str) -> Finding:
    """As it is before the first job, and as it looks to a doctor that was not told where the parties are."""
    return warning(
        f"{said}, so no party's key and ledger were checked.",
        "If a job has run here already, name where its parties are: --home FOLDER, which holds parties/, "
        f"or {HOME_VARIABLE}; otherwise it is made when a party first needs it.",
    )


@check(PARTY, "folder")
def private_folder(path: Path) -> Finding:
    """A folder that only its owner opens."""
    if not path.is_dir():
        return problem(f"{path} is not a folder.", f"Move it away: `mv {path} {path}.other`.")
    status = path.stat()
    to_owner = f"Run `chown -R USER {path}`, where USER runs FATE-Flow, and the doctor as that user."
    finding = _not_private(path, status, to_owner, f"Run `chmod 700 {path}`.")
    if finding is None and not os.access(path, os.R_OK | os.W_OK | os.X_OK) and not read_only(path):
        said = f"{path} has mode {stat.S_IMODE(status.st_mode):04o}, so its owner cannot use it."
        finding = problem(said, f"Run `chmod 700 {path}`.")
    return finding or ok(f"{path} is open to its owner only.")


def _not_private(path: Path, status: os.stat_result, to_owner: str, close: str) -> Finding | None:
    """Another user's, or open to others; with how it comes to its owner, or is closed."""
    if status.st_uid != os.geteuid():
        return problem(f"{path} belongs to user {status.st_uid}, but this is user {os.geteuid()}.", to_owner)
    if status.st_mode & OTHERS:
        return problem(f"{path} has mode {stat.S_IMODE(status.st_mode):04o}, open to group or others.", close)
    return None


@check(PARTY, "files")
def files(party: Path) -> Finding:
    """Every file of the party is its owner's alone; what the files say is looked at by other checks."""
    folders = [path for name in (VIEWS_FOLDER, CALLS_FOLDER, CANARIES_FOLDER) if (path := party / name).is_dir()]
    for path in sorted([*party.iterdir(), *(inner for folder in folders for inner in folder.rglob("*"))]):
        status = path.lstat()
        is_folder = stat.S_ISDIR(status.st_mode) and any(path.is_relative_to(folder) for folder in folders)
        if not is_folder and not stat.S_ISREG(status.st_mode):
            return problem(
                f"{path} is not a regular file, as all in this folder must be.",
                f"Find out who put it there, and move it out of {party}.",
            )
        to_owner = f"Run `chown USER {path}`, where USER runs FATE-Flow."
        finding = _not_private(path, status, to_owner, f"Run `chmod {'700' if is_folder else '600'} {path}`.")
        if finding is not None:
            return finding
    return ok("All files are open to their owner only.")


@check(PARTY, "key")
def key(party: Path) -> Finding:
    """The key, which is not made here."""
    path = party / KEY_FILE
    if not os.path.lexists(path):
        return ok("There is no key yet; it is made when it is first needed.")
    try:
        load_or_create_key(path)
    except UnsafeKeyFile as error:
        return problem(
            str(error),
            f"Run `chmod 600 {path}` if only its mode is wrong and nobody has read it; else restore {path} from a "
            "backup (with a new key, flips are new ones and are charged anew).",
        )
    return ok(f"{path} is a whole key.")


@check(PARTY, "ledger")
def ledger(party: Path) -> Finding:
    """The ledger opens, is of a version that can be read, and passes SQLite's integrity check.

    Nothing is upgraded; what a crash left unfinished is undone, as at any next use.
    """
    path = party / LEDGER_FILE
    if not path.exists():
        return ok("There is no ledger yet; it is made when something is first released.")
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=BUSY_SECONDS)) as connection:
            deadline = time.monotonic() + INTEGRITY_SECONDS
            connection.set_progress_handler(lambda: time.monotonic() > deadline, 100_000)
            version = version_of(connection)
            if version not in (0, *UPGRADES, SCHEMA_VERSION):
                return problem(
                    f"{path} has version {version}, but this FATE-DP reads version {SCHEMA_VERSION}.",
                    "Install the FATE-DP that wrote it; another one must not charge this ledger.",
                )
            (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            return ok(f"{path} opens and is whole (version {version}).") if verdict == "ok" else _damaged(path, verdict)
    except (sqlite3.Error, LedgerUnavailable) as error:
        if "locked" in str(error):
            return unseen(f"{path} is being written.", "Run the doctor again when the job that runs has ended.")
        if "interrupted" in str(error):
            return unseen(
                f"{path} opens, but checking all of it takes longer than {INTEGRITY_SECONDS:.0f} seconds.",
                f"Run `sqlite3 {path} 'PRAGMA integrity_check'` when no job runs.",
            )
        return _damaged(path, str(error))


def _damaged(path: Path, reason: str) -> Finding:
    return problem(
        f"The ledger {path} cannot be used: {' '.join(reason.split())}.",
        f"Stop FATE-Flow, keep a copy of {path}, and restore the last backup; what was released since then must be charged by "
        "hand, so ask for no further release from these data until then.",
    )


@check(PARTY, "policy")
def policy(party: Path) -> Finding:
    """The operator's policy."""
    path = party / POLICY_FILE
    if not path.exists():
        return ok("There is no policy, so the default caps hold and no label source is declared.")
    try:
        found = load_policy(path)
    except InvalidPolicy as error:
        return problem(str(error), f"Correct it in {path}; conf/policy.example.yaml shows all that it may hold.")
    except OSError as error:
        return problem(f"{path} cannot be read: {error.strerror}.", f"Run `chmod 600 {path}` as its owner.")
    for key, name in unused_names(found):
        return problem(
            f"In {path}, {key} names {name!r}, but no component gives a dataset that name, so the line has no effect.",
            "Name the dataset by its columns: `fate-dp declare-table` writes it, `fate-dp ledger` shows the names in use.",
        )
    declared = len(found.label_sources)
    return ok(f"{path} is valid; it declares {declared} label source{'s' if declared != 1 else ''}.")
