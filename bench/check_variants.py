"""Variants of the jobs of tests/check, each with the verdict that follows from the table by what was read in FATE 2.2.0.

What was read stands beside each: `VARIANTS` makes a job another one, and says what becomes of its lines in the table. `spelled`
writes a setting in every way that FATE's parameter classes take.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from fate_dp.components.disclosure.declaration import catalogue, disclosure_of
from fate_dp.components.disclosure.reading import generated, parameters_of, read, stages_declared

FOLDER = Path(__file__).parent.parent / "tests" / "check"
WAYS = {True: (1, "1", "on", "t", "true", "True", "y", "YES"), False: (0, "0", "off", "f", "false", "FALSE", "n", "no")}
TABLE = {"namespace": "bank", "name": "loans"}
# Coordinated* with the cipher that blinds: the arbiter's key opens the guest's message of every row and, at the guest, the hosts'
# (coordinated_lr/guest.py:271 and arbiter.py:60; coordinated_linr/guest.py:151 and arbiter.py:50).
OPENED = (("host", "guest", "labels", "every"), ("host", "guest", "scores", "every"))


@dataclass(frozen=True)
class Variant:
    """How a DAG is changed; ``read`` makes the lines of the table and its exit status those of the changed job.

    ``change`` returns False where the DAG has nothing of the kind.
    """

    name: str
    change: Callable
    read: Callable = lambda lines, dag: lines


def exit_of(rows, unknown):
    """1 where true labels or features are learned to the last one, else 3 where nobody can tell, else 0."""
    leaks = any(
        row["learns"] == "every" and row["what"] in ("labels", "features") and "state" not in row for row in rows
    )
    return 1 if leaks else 3 if unknown else 0


def of_fate(dag):
    fates = set(generated()) & set(catalogue())
    return {name: task for name, task in dag["tasks"].items() if task["component_ref"] in fates}


def respelled(value, kind):
    """A value as FATE takes it as well, of this kind: `reading._taken`."""
    match kind:
        case "bool" if isinstance(value, bool):
            return WAYS[value][-1]
        case "int" if isinstance(value, int):
            return str(value)
        case ["choice", *_] if isinstance(value, str):
            return value.upper()
        case ["list", item] if isinstance(value, list):
            return [respelled(each, item) for each in value]
        case {**members} if isinstance(value, dict):
            return {
                name: respelled(each, members[name][0]) if name in members else each for name, each in value.items()
            }
    return value


def spell_otherwise(dag):
    changed = False
    for task in of_fate(dag).values():
        kinds = generated()[task["component_ref"]]
        for name, value in (task.get("parameters") or {}).items():
            task["parameters"][name] = respelled(value, kinds[name].read.args[0]) if name in kinds else value
            changed = True
    return changed


def set_unknown(dag):
    """FATE passes over what its component does not declare (component_desc/_component_io.py:82): nobody knows what was meant."""
    task = next(iter(of_fate(dag).values()))
    task["parameters"] = {**(task.get("parameters") or {}), "He_Param": {"kind": "ou"}}


def set_refused(dag):
    """A value that FATE's class refuses (component_desc/_parameter.py:86), of a parameter on which no statement depends."""
    for task in of_fate(dag).values():
        component = task["component_ref"]
        told = {setting.partition(".")[0] for setting in disclosure_of(component).settings}
        # Each party has a table of its own in place of the one that all would read.
        for name in sorted(set(parameters_of(component)) - told) if component != "reader" else ():
            if read(component, {name: [{"per": "haps"}]}).unread:
                task["parameters"] = {**(task.get("parameters") or {}), name: [{"per": "haps"}]}
                return True
    return False


def arbiter_is_a_host(dag):
    """FATE's own examples/config.yaml: one party is host and arbiter."""
    parties = [dag["parties"], *(task["parties"] for task in dag["tasks"].values() if task.get("parties"))]
    host = next((line["party_id"][0] for line in dag["parties"] if line["role"] == "host"), None)
    arbiters = [line for named in parties for line in named if line["role"] == "arbiter"]
    for line in arbiters:
        line["party_id"] = [host]
    for owner in (dag.get("party_tasks") or {}).values():
        if any(line["role"] == "arbiter" for line in owner["parties"]):
            owner["parties"] = [{"role": "arbiter", "party_id": [host]}]
    return bool(arbiters)


def read_opened(lines, dag):
    """What that party reads more: all features, by its steps (coordinated_lr/arbiter.py:203); with ou, what its key opens."""
    rows = [dict(row) for row in lines["rows"]]
    for name, task in dag["tasks"].items():
        if (
            task["component_ref"] not in ("coordinated_lr", "coordinated_linr")
            or (task.get("stage") or dag.get("stage")) == "predict"
        ):
            continue
        kind = ((task.get("parameters") or {}).get("he_param") or {}).get("kind")
        others = {"guest"} | {row["owner"] for row in rows if row["task"] == name and row["observer"] == "host"}
        more = [("host", owner, "features", "every") for owner in sorted(others)] + [*(OPENED if kind == "ou" else ())]
        for each in more:
            found = dict(zip(("observer", "owner", "what"), each))
            rows = [row for row in rows if row["task"] != name or not found.items() <= row.items()]
            rows.append({"task": name, **found, "learns": each[3]})
    return {
        "rows": rows,
        "exit": 1 if any(row["learns"] == "every" and row["what"] == "features" for row in rows) else lines["exit"],
    }


def flips_of(dag):
    return [name for name, task in dag["tasks"].items() if task["component_ref"] == "label_flip"]


def channels_behind_flips(dag):
    flips = flips_of(dag)
    for task in dag["tasks"].values():
        for channels in ((task.get("inputs") or {}).get("data") or {}).values():
            read = channels.get("task_output_artifact") or []
            if any(each["producer_task"] in flips for each in (read if isinstance(read, list) else [read])):
                yield channels


def table_of_data_parties(dag):
    return {**TABLE, "parties": [line for line in dag["parties"] if line["role"] in ("guest", "host")]}


def warehouse_last(dag):
    """FATE-Flow takes the last source of an input that has anything for a party (controller/parser.py:447)."""
    found = list(channels_behind_flips(dag))
    for channels in found:
        channels["data_warehouse"] = table_of_data_parties(dag)
    return bool(found)


def warehouse_first(dag):
    found = list(channels_behind_flips(dag))
    for channels in found:
        read = channels.pop("task_output_artifact")
        channels.update(data_warehouse=table_of_data_parties(dag), task_output_artifact=read)
    return bool(found)


def warehouse_of_hosts(dag):
    """A table for hosts alone leaves the guest its flips."""
    found = list(channels_behind_flips(dag))
    hosts = [line for line in dag["parties"] if line["role"] == "host"]
    for channels in found:
        channels["data_warehouse"] = {**TABLE, "parties": hosts}
    return bool(found)


def inherit_flips(dag):
    """An earlier job's task of that name, which may have been any (controller/job.py:362)."""
    dag["conf"] = {
        **(dag.get("conf") or {}),
        "inheritance": {"job_id": "202601010000000000000", "task_list": flips_of(dag)},
    }
    return bool(flips_of(dag))


def read_true(lines, dag):
    rows = [{name: value for name, value in row.items() if name != "state"} for row in lines["rows"]]
    unknown = lines["exit"] == 3 or bool((dag.get("conf") or {}).get("inheritance"))
    return {"rows": rows, "exit": exit_of(rows, unknown)}


def read_unknown(lines, dag):
    return {**lines, "exit": exit_of(lines["rows"], True)}


def another_runner(dag):
    """A runner from a folder of source.yaml is any code (nn/component_utils.py:31)."""
    found = [task for task in dag["tasks"].values() if task["component_ref"] in ("homo_nn", "hetero_nn")]
    for task in found:
        task["parameters"] = {**(task.get("parameters") or {}), "runner_module": "my_runner", "source": "bank_runners"}
    return bool(found)


def without_stages(dag):
    """The last task of FATE's whose component has no stages, a reader if need be."""
    found = [task for task in of_fate(dag).values() if set(stages_declared(task["component_ref"])) == {"default"}]
    return min(found, key=lambda task: task["component_ref"] == "reader")


def ignored_input(dag):
    """FATE takes an argument by its name, and passes over all others (component_desc/_component_io.py:75)."""
    for task in of_fate(dag).values():
        given = (task.get("inputs") or {}).get("data") or {}
        if given:
            key = "train_data" if "train_data" not in given else "test_data"
            given[key] = copy.deepcopy(next(iter(given.values())))
            return True
    return False


def missing_stage(dag):
    """_cpn_search.py:63."""
    without_stages(dag)["stage"] = "predict"


def missing_role(dag):
    """Outputs are active for the roles of a component alone, and without the one for metrics no task starts."""
    task, arbiter = without_stages(dag), {"role": "arbiter", "party_id": ["10009"]}
    if task["component_ref"] == "reader" or any(line["role"] in ("arbiter", "local") for line in dag["parties"]):
        return False
    dag["parties"].append(arbiter)
    if task.get("parties"):
        task["parties"].append(arbiter)
    return True


def without_hosts(dag):
    """A party that nobody plays is waited for, or is none of FATE's list of parties (arch/context/_context.py:190)."""
    if not any(task["component_ref"] == "psi" for task in dag["tasks"].values()):
        return False
    for content in _mappings(dag):
        if isinstance(content.get("parties"), list):
            content["parties"] = [line for line in content["parties"] if line["role"] != "host"]
    dag["party_tasks"] = {name: owner for name, owner in (dag.get("party_tasks") or {}).items() if owner["parties"]}


def read_without_hosts(lines, dag):
    rows = [row for row in lines["rows"] if "host" not in (row["observer"], row["owner"])]
    return {"rows": rows, "exit": exit_of(rows, True)}


def _mappings(content):
    inner = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    yield from [content] if isinstance(content, dict) else []
    for each in inner:
        yield from _mappings(each)


def set_in_runners(dag, change):
    found = [each["runner_conf"] for each in _mappings(dag) if each.get("runner_conf")]
    for conf in found:
        change(conf)
    return bool(found)


def function_as_loss(dag):
    """FATE's loader imports the module and calls what it holds (nn/loader.py:93): this one unpickles a file."""
    named = {
        "module_name": "fate.components.components.nn.runner.homo_default_runner",
        "item_name": "load_model_dict_from_path",
        "kwargs": {"path": "/tmp"},
    }
    return set_in_runners(dag, lambda conf: conf.update(loss_conf=named))


def model_to_a_hub(dag):
    """FATE overwrites it (nn/trainer/trainer_base.py:131): nobody knows what was meant."""
    return set_in_runners(dag, lambda conf: conf["training_args_conf"].update(push_to_hub=True))


def average_by_steps(dag):
    """FATE's runner refuses it (nn/runner/homo_default_runner.py:190)."""
    return set_in_runners(
        dag, lambda conf: (conf.get("fed_args_conf") or {}).update(aggregate_strategy="steps")
    ) and any(task["component_ref"] == "homo_nn" for task in dag["tasks"].values())


def go_on_with_guest_trees(dag):
    """The guest's own trees are counted from the first of the model (secureboost/hetero/guest.py:288)."""
    trained = dag["tasks"].get("sbt_0", {})
    given = trained.get("parameters") or {}
    if given.get("complete_secure", 0) < given.get("num_trees", 1):
        return False
    model = {"producer_task": "sbt_0", "output_artifact_key": "output_model"}
    again = {**trained["inputs"], "model": {"warm_start_model": {"task_output_artifact": [model]}}}
    dag["tasks"]["again_0"] = {**trained, "inputs": again}
    return True


def read_all_trees(lines, dag):
    """The second training shows what one without trees of the guest alone does, at these settings."""
    stock = yaml.safe_load((FOLDER / "verdicts.yaml").read_text())["secureboost_unpacked"]["rows"]
    rows = [*lines["rows"], *({**row, "task": "again_0"} for row in stock if row["task"] == "sbt_0")]
    return {"rows": rows, "exit": exit_of(rows, False)}


VARIANTS = (
    Variant("spelled otherwise", spell_otherwise),
    Variant("an unknown parameter", set_unknown, read_unknown),
    Variant("a refused value", set_refused, read_unknown),
    Variant("one party as arbiter and host", arbiter_is_a_host, read_opened),
    Variant("a table as a second source", warehouse_last, read_true),
    Variant("a table as a first source", warehouse_first),
    Variant("a table for hosts", warehouse_of_hosts),
    Variant("flips of an earlier job", inherit_flips, read_true),
    Variant("another runner", another_runner, read_unknown),
    Variant("an input that the stage ignores", ignored_input, read_unknown),
    Variant("a stage that is not there", missing_stage, read_unknown),
    Variant("a role that does not run it", missing_role, read_unknown),
    Variant("no hosts", without_hosts, read_without_hosts),
    Variant("a function as a loss", function_as_loss, read_unknown),
    Variant("a model to a hub", model_to_a_hub, read_unknown),
    Variant("an average by steps", average_by_steps, read_unknown),
    Variant("the guest's trees in a second training", go_on_with_guest_trees, read_all_trees),
)


def variants_of(dag, lines):
    """(name, DAG, lines of the table) of each variant that a job has."""
    for variant in VARIANTS:
        changed = copy.deepcopy(dag)
        if variant.change(changed) is not False:
            yield variant.name, changed, variant.read(lines, changed)


def spelled():
    """(component, setting, plain value, the same in other ways), of all settings on which the catalogue's statements depend."""
    for component in catalogue():
        for setting in disclosure_of(component).settings if component in generated() else ():
            name, _, member = setting.partition(".")
            kind = generated()[component][name].read.args[0]
            if member and isinstance(kind, dict):
                kind = kind[member][0]
                made = lambda value, name=name, member=member: {name: {member: value}}
            elif member:
                continue
            else:
                made = lambda value, name=name: {name: value}
            for value, ways in _ways(kind):
                yield component, f"{setting}: {value}", made(value), [made(way) for way in ways]


def _ways(kind):
    match kind:
        case "bool":
            return list(WAYS.items())
        case "int":
            return [(value, (str(value), float(value))) for value in (10, 20, 50, 100)]
        case ["choice", *allowed]:
            return [(each, (each.upper(), each.title(), each.swapcase())) for each in allowed]
        case ["list", ["choice", *allowed]]:
            return [([each], ([each.upper()], [each.title()])) for each in allowed]
    return []
