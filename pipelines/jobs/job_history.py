"""What a party may combine of a job and of earlier ones that this machine's ledgers know: of the same tables, over several jobs."""

from fate_dp.components.common.channels import channels_of, inputs
from fate_dp.components.common.job_files import JobPlan
from fate_dp.components.disclosure.declaration import EVERY, FEATURES, LABELS, LEARNS, SOME
from fate_dp.components.disclosure.tracing import Disclosure, Sight, Walk, trace
from fate_dp.components.disclosure.verdicts import DEGREES, NAMES
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.privacy.ledger.totals import EVERYBODY
from fate_dp.privacy.private_files import AnyPath
from fate_dp.privacy.validation import DEFAULT_DELTA, InvalidArgument

from .job_plans import plan_of_job
from .party_ledgers import has_ledger
from .table_caps import known_tables

EQUATIONS = "; each shows one combination of columns, and as many as there are columns give every column"
THIS = "this one"


def history_of(disclosure: Disclosure, folder: AnyPath, address: FlowAddress | None) -> tuple[list[str], bool]:
    """What the ledgers below ``folder`` and earlier jobs say of a job's tables, and whether one of those jobs leaked.

    Without an ``address``, the FATE-Flow that ran the jobs, only totals are told. Raises LedgerUnavailable where a
    ledger cannot be read: what is not told might have been spent.
    """
    found: list[str] = []
    seen: dict[str, list[Sight] | None] = {}
    for party_id, tables in sorted(tables_of(disclosure.plan).items()):
        for table in known_tables(folder, party_id):
            if table.table not in tables or not has_ledger(table.home):
                continue
            named, ledger = {*table.datasets, *table.sources}, table.home.ledger
            jobs = dict.fromkeys(job for entry in ledger.entries() if entry["source"] in named for job in entry["jobs"])
            seen |= {job: _sights_of(job, address) for job in jobs if job not in seen}
            for line in (*ledger.totals(0.0), *ledger.totals(DEFAULT_DELTA)):
                asked = line["dataset"] in named and line["observer"] == EVERYBODY
                if asked and (line["unit"] == "label") is (line["delta"] == 0):
                    found.append(
                        f"All observers together had epsilon {line['epsilon']} at delta {line['delta']:g} ({line['unit']}, "
                        f"{line['relation']}) of {table.table} of party {party_id} from {_listed(list(jobs))}."
                    )
    lost = [job for job, sights in seen.items() if sights is None]
    if lost:
        found.append(
            f"What the tasks of {_listed(lost)} showed is not known: no FATE-Flow that answers here knows them."
        )
    earlier = {job: sights for job, sights in seen.items() if sights}
    return [*found, *_combined({**earlier, THIS: list(disclosure.sights)})], any(
        sight.leaks for sights in earlier.values() for sight in sights
    )


def _combined(jobs: dict[str, list[Sight]]) -> list[str]:
    """What one party saw of another's in several of these jobs."""
    seen: dict[tuple[str, str, str], dict[str, str]] = {}
    for job, sights in jobs.items():
        for sight in (each for each in sights if each.observer.party_id and each.shown.learns in (EVERY, SOME)):
            what = sight.shown.what
            named = f"{sight.labels.state} labels" if what == LABELS else NAMES.get(what, what)
            degrees = seen.setdefault((sight.observer.party_id, sight.owner.party_id, named), {})
            degrees[job] = min(degrees.get(job, SOME), sight.shown.learns, key=LEARNS.index)
    return [
        f"Party {observer} has {what} of party {owner} from {_listed(list(degrees))}: "
        f"{DEGREES[min(degrees.values(), key=LEARNS.index)]}{EQUATIONS if what == FEATURES and EVERY not in degrees.values() else ''}."
        for (observer, owner, what), degrees in seen.items()
        if len(degrees) > 1
    ]


def tables_of(plan: JobPlan) -> dict[str, set[str]]:
    """By party id the tables that a job reads, as ``namespace/name``."""
    walk = Walk(plan)
    found: dict[str, set[str]] = {}
    for name, task in plan.dag["tasks"].items():
        channels = [each for given in inputs(task).values() for each in channels_of(given)]
        listed = [each for kind, each in channels if kind == "data_warehouse"]
        for party in walk.parties[name]:
            for each in (*listed, *(walk.given_to[name][party] if task["component_ref"] == "reader" else ())):
                found.setdefault(party[1], set()).add(f"{each.get('namespace')}/{each.get('name')}")
    return found


def _sights_of(job: str, address: FlowAddress | None) -> list[Sight] | None:
    try:
        return None if address is None else list(trace(plan_of_job(address, job)).sights)
    except InvalidArgument:
        return None


def _listed(jobs: list[str]) -> str:
    return f"job{'s' if len(jobs) > 1 else ''} {', '.join(jobs[:5])}" + (
        f" and {len(jobs) - 5} more" if len(jobs) > 5 else ""
    )
