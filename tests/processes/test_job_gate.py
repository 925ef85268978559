"""What a FATE-Flow takes of a job, and from whom: FATE-Flow's own controller in a process that has our folder on its path."""

import json
import os
import subprocess
import sys

import pytest

from fate_dp.deploy.flow.home import install_server, make_home, open_home
from fate_dp.deploy.flow.programs import ServerRecord
from fate_dp.deploy.flow.server import server_environment

GUEST, HOST = {"role": "guest", "party_id": ["9999"]}, {"role": "host", "party_id": ["10000"]}
LOCAL = {"role": "local", "party_id": ["0"]}
# Takes jobs as the server's pages do and says what became of each: what it made of it, or why it refused it.
PROGRAM = """
import json, sys
from fate_flow.controller import job as controller

def made(job_info):
    raise InterruptedError("taken")

controller.JobSaver.create_job = made
controller.JobSaver.update_job = controller.JobSaver.update_job_status = lambda *a, **k: None
controller.JobController.inheritance_job = classmethod(lambda *a: None)
controller.JobController.adapt_party_parameters = classmethod(lambda *a: ({}, {}, 0))

def schedule(party_id, initiator_party_id, command_body):
    dag = json.loads(json.dumps(command_body["dag"]))
    dag["conf"].update(model_id="job", model_version="0", sync_type="poll", auto_retries=0)
    dag["tasks"].update(case["scheduler_adds"])
    controller.JobController.create_job(dag, "2.2.0", "job", *case["at"])

controller.FederatedScheduler.request_create_job = schedule
for case in json.load(sys.stdin):
    controller.PARTY_ID = case["server"]
    controller.ENGINES = {**controller.ENGINES, "federated_mode": case["mode"]}
    try:
        if case["extra_info"]:
            controller.JobController.start_job("job", *case["at"], extra_info=case["extra_info"])
        elif case["own"]:
            controller.JobController.request_create_job(controller.DAGSchema(dag=case["dag"], schema_version="2.2.0"))
        else:
            controller.JobController.create_job(case["dag"], "2.2.0", case["job"], *case["at"])
        said = "done"
    except Exception as error:
        said = str(error)
    print("SAID " + json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What one process says of all cases below."""
    home = open_home(tmp_path_factory.mktemp("gate") / "home")
    make_home(home)
    install_server(home, ServerRecord(9380, 9360))
    policy = home.parties / "party-10001" / "policy.yaml"
    policy.parent.mkdir()
    policy.write_text("foreign_jobs: [download, vendor_boost, engine_run]\nmodel_modules: {net: 'bank.models:net'}\n")
    environment = {**server_environment(home), "PATH": os.environ["PATH"]}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(list(CASES.values())),
        env=environment,
        cwd=home.root,
        capture_output=True,
        text=True,
    )
    lines = [json.loads(line[5:]) for line in ran.stdout.splitlines() if line.startswith("SAID ")]
    assert len(lines) == len(CASES), ran.stderr[-3000:]
    return dict(zip(CASES, lines))


def dag(component="psi", parameters=None, parties=(GUEST, HOST), **more):
    task = {"component_ref": component, "parameters": parameters or {}, "parties": list(parties), "stage": "default"}
    task.update(more.pop("task", {}))
    conf = {"initiator_party_id": "9999", "scheduler_party_id": "9999", **more.pop("conf", {})}
    return {"parties": list(parties), "stage": "train", "conf": conf, "tasks": {more.pop("name", "a_0"): task}, **more}


def case(
    dag, at=("host", "10000"), own=False, server="", mode="SINGLE", job="job", extra_info=None, scheduler_adds=None
):
    return {
        "mode": mode,
        "dag": dag,
        "at": at,
        "own": own,
        "server": server,
        "job": job,
        "extra_info": extra_info,
        "scheduler_adds": scheduler_adds or {},
    }


def loading(module, item, name="model_conf"):
    return {"runner_conf": {name: {"module_name": module, "item_name": item, "kwargs": {}}}}


UPLOAD = dag("upload", {"file": "/etc/hostname", "namespace": "n", "name": "t", "meta": {}, "partitions": 4})
LOCAL_UPLOAD = dag("upload", {"file": "/etc/hostname"}, parties=(LOCAL,))
LINEAR = {"module_name": "torch.nn", "item_name": "Linear", "kwargs": {}}
SEQUENCE = {
    "module_name": "fate.components.components.nn.torch.base",
    "item_name": "load_seq",
    "kwargs": {"seq_conf": {"0": LINEAR}},
}
ALL_PARTIES = (GUEST, HOST, {"role": "arbiter", "party_id": ["10001"]})
TAKEN = {
    "a job of FATE's components": case(dag()),
    "one of ours": case(dag("dp_homo_nn")),
    "a network": case(dag("homo_nn", {"runner_conf": {"model_conf": SEQUENCE, "loss_conf": LINEAR}})),
    "amounts of engines": case(
        dag(conf={"task": {"engine_run": {"cores": 4, "num-executors": "2", "executor-memory": "4g", "nodes": None}}})
    ),
    "a table's name with a slash": case(dag("reader", {"namespace": "../n", "name": "/t"})),
    "an upload of its own client": case(LOCAL_UPLOAD, ("local", "0"), own=True),
    "an upload of its own client at its own party": case(UPLOAD, ("guest", "9999"), own=True, server="9999"),
    "an upload at its own party, whose id is a number": case(UPLOAD, ("guest", "9999"), own=True, server=9999),
    "an unknown component at its own party": case(dag("vendor_boost"), ("guest", "9999"), own=True, server="9999"),
    "a job at the party of a server among others": case(dag(), server="10000", mode="MULTIPLE"),
    "a job at it whose id is a number": case(dag(), server=10000, mode="MULTIPLE"),
    "a local job of a server among others": case(
        LOCAL_UPLOAD, ("local", "0"), own=True, server="10000", mode="MULTIPLE"
    ),
    "a task at others only": case(dag("upload", {"file": "/x"}, parties=(GUEST, HOST), task={"parties": [GUEST]})),
    "an allowed download": case(dag("download", {"path": "/x"}, ALL_PARTIES), ("arbiter", "10001")),
    "an allowed component": case(dag("vendor_boost", parties=ALL_PARTIES), ("arbiter", "10001")),
    "allowed options": case(
        dag(parties=ALL_PARTIES, conf={"task": {"engine_run": {"conf": {"a": "b"}}}}), ("arbiter", "10001")
    ),
    "a listed function": case(dag("homo_nn", loading("bank.models", "net"), ALL_PARTIES), ("arbiter", "10001")),
}
FILES = "Task a_0 runs {0}, which {1}: the jobs of other parties may not do that at host 10000, unless its operator lists {0} "
READS, NEITHER = "reads a file of the server", "is neither FATE's nor FATE-DP's"
PATH = "must be a name without slashes that does not begin with a dot, got "
MODULES = "module_name and item_name must be a layer or loss of torch.nn, "
OPTION = "in engine_run, which may be more than an amount"
REFUSED = {
    "another's upload": (case(UPLOAD), FILES.format("upload", f"{READS}, removes it if told to, and replaces a table")),
    "another's upload as the role local": (case(LOCAL_UPLOAD, ("local", "0")), f"runs upload, which {READS}"),
    "another's upload that says it is ours": (
        case(UPLOAD, ("guest", "9999"), server="9999"),
        "may not do that at guest 9999",
    ),
    "an upload at another party of the same server": (case(UPLOAD, own=True), READS),
    "an upload at another party than the server's": (case(UPLOAD, own=True, server="9999"), READS),
    "an upload that the scheduler adds": (
        case(dag(), ("guest", "9999"), own=True, server="9999", scheduler_adds={"b_0": UPLOAD["tasks"]["a_0"]}),
        f"Task b_0 runs upload, which {READS}",
    ),
    "an upload that the scheduler makes of a task": (
        case(
            dag("psi", UPLOAD["tasks"]["a_0"]["parameters"]),
            ("guest", "9999"),
            own=True,
            server="9999",
            scheduler_adds=UPLOAD["tasks"],
        ),
        f"Task a_0 runs upload, which {READS}",
    ),
    "another file that the scheduler chooses": (
        case(UPLOAD, ("guest", "9999"), own=True, server="9999", scheduler_adds=dag("upload", {"file": "/x"})["tasks"]),
        f"Task a_0 runs upload, which {READS}",
    ),
    "an upload of a party without an id": (
        case(dag("upload", parties=[{"role": "guest", "party_id": [""]}]), ("guest", ""), own=True),
        f"Task a_0 runs upload, which {READS}",
    ),
    **{
        f"a job at {at} of a server {of} among others": (
            case(dag(parties=[{"role": "host", "party_id": [at]}]), ("host", at), server=of, mode="MULTIPLE"),
            f"party_id must be that of this server, {of!r} in its service_conf.yaml, got {at!r}.",
        )
        for at, of in (("10001", "10000"), ("010000", "10000"), ("10000 ", "10000"), ("10000", ""))
    },
    "a download": (case(dag("download", {"path": "/x"})), "writes a table into a folder of the server"),
    "a table that is replaced": (case(dag("dataframe_transformer", {"namespace": "n"})), "replaces a table"),
    "an unknown component": (case(dag("vendor_boost")), FILES.format("vendor_boost", NEITHER)),
    "a component with a path": (case(dag("../upload")), f"component_ref {PATH}'../upload'"),
    "a component in capitals": (case(dag("Upload")), NEITHER),
    "a component of one party": (
        case(dag(party_tasks={"host_10000": {"parties": [HOST], "conf": {"launcher_name": "deepspeed"}}})),
        "has the launcher 'deepspeed'",
    ),
    "what is allowed beside it only": (
        case(dag("upload", {"file": "/x"}, ALL_PARTIES), ("arbiter", "10001")),
        "unless its operator lists upload under foreign_jobs",
    ),
    "options of the job": (case(dag(conf={"task": {"engine_run": {"conf": {"a": "b"}}}})), f"'conf' {OPTION}"),
    "options of a task": (case(dag(task={"conf": {"engine_run": {"py-files": "/x"}}})), f"'py-files' {OPTION}"),
    "an amount of something else": (case(dag(task={"conf": {"engine_run": {"jars": 4}}})), f"'jars' {OPTION}"),
    "an amount with more": (case(dag(task={"conf": {"engine_run": {"cores": "4 --x"}}})), f"'cores' {OPTION}"),
    "options at one party": (
        case(dag(party_tasks={"h": {"parties": [HOST], "tasks": {"a_0": {"conf": {"engine_run": {"jars": "x"}}}}}})),
        f"'jars' {OPTION}",
    ),
    "a module": (case(dag("homo_nn", loading("subprocess", "call"))), f"{MODULES}"),
    "a module in our own job": (
        case(dag("homo_nn", loading("os", "system")), ("guest", "9999"), True, "9999"),
        MODULES,
    ),
    "a module in a sequence": (
        case(
            dag("homo_nn", {"runner_conf": {"a": {**SEQUENCE, "kwargs": {"seq_conf": {"0": {"module_name": "os"}}}}}})
        ),
        MODULES,
    ),
    "a module of one party": (
        case(
            dag(
                "hetero_nn",
                party_tasks={"h": {"parties": [HOST], "tasks": {"a_0": {"parameters": loading("os", "x")}}}},
            )
        ),
        MODULES,
    ),
    "a function beside the listed one": (
        case(dag("homo_nn", loading("bank.models", "other"), ALL_PARTIES), ("arbiter", "10001")),
        MODULES,
    ),
    "a job's id": (case(dag(), job="../../x"), f"job_id {PATH}'../../x'"),
    "a role": (case(dag(), ("../host", "10000")), f"role {PATH}'../host'"),
    "a party": (case(dag(), ("host", "../10000")), f"party_id {PATH}'../10000'"),
    "a task's name": (case(dag(name="/tmp/x")), f"tasks {PATH}'/tmp/x'"),
    "a task's name in our own job": (
        case(dag("upload", name="../x"), ("guest", "9999"), True, "9999"),
        f"tasks {PATH}'../x'",
    ),
    "what a task hides behind its name": (
        case(dag(name="parameters", task={"conf": {"provider": "../x"}})),
        f"provider {PATH}'../x'",
    ),
    "what a party hides behind its name": (
        case(dag(party_tasks={"name": {"parties": [HOST], "tasks": {"../x": {"parameters": {}}}}})),
        f"tasks {PATH}'../x'",
    ),
    "a model's id": (case(dag(conf={"model_id": ".."})), f"model_id {PATH}'..'"),
    "inherited tasks": (
        case(dag(conf={"inheritance": {"job_id": "1", "task_list": ["/home"]}})),
        f"task_list {PATH}'/home'",
    ),
    "an inherited job": (case(dag(conf={"inheritance": {"job_id": "..", "task_list": []}})), f"job_id {PATH}'..'"),
    "an output's name": (
        case(
            dag(
                task={
                    "outputs": {"data": {"../o": {"output_artifact_key_alias": "x", "output_artifact_type_alias": "x"}}}
                }
            )
        ),
        PATH,
    ),
    "no DAG": (case({"parties": [HOST]}), "dag must be one of FATE-Flow 2.2"),
    "what a start writes over the job": (case(dag(), extra_info={"inheritance": {}}), "extra_info must be left out"),
}
CASES = {**TAKEN, **{name: each for name, (each, _) in REFUSED.items()}}


@pytest.mark.parametrize("name", TAKEN)
def test_it_takes(name, said):
    assert said[name] == "taken"


@pytest.mark.parametrize("name", REFUSED)
def test_it_refuses_before_anything_is_written(name, said):
    assert REFUSED[name][1] in said[name] and said[name].count(". ") <= 1, said[name]
