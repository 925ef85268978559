"""The plan of a job that was named by a file of its DAG or by its id on a FATE-Flow server."""

import json
import re
from pathlib import Path
from typing import Any

from ruamel import yaml

from fate_dp.components.common.federation import Document
from fate_dp.components.common.job_files import JobPlan
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.privacy.validation import InvalidArgument

from .flow import connect

JOB_ID = re.compile(r"[0-9]{12,}")
MAX_BYTES = 16 * 2**20
MAX_VALUES, MAX_DEPTH = 2_000_000, 100


def plan_of_file(path: Path) -> JobPlan:
    """Of a DAG in YAML or JSON, as `pipeline.get_dag()` gives it; raises InvalidArgument, one sentence."""
    try:
        large = path.stat().st_size > MAX_BYTES
        document = None if large else read_dag(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}; name a file with the DAG of a job.") from error
    except (ValueError, TypeError, yaml.YAMLError, Warning, RecursionError) as error:
        raise InvalidArgument(f"{path} must be a DAG in YAML or JSON and cannot be read as either.") from error
    if large:
        raise InvalidArgument(f"{path} has more than {MAX_BYTES >> 20} MB. Name the DAG of one job.")
    return plan_of_document(document, str(path))


def read_dag(text: str) -> Any:
    """As FATE's client reads and writes it, in YAML 1.2: PyYAML takes 010 for eight, and 1e-05 for a text."""
    try:
        return json.loads(text)
    except ValueError:
        return yaml.safe_load(text)


def plan_of_document(document: Any, where: str) -> JobPlan:
    """Of a DAG with or without the version of its schema around it, checked against FATE's own schema."""
    from fate_client.pipeline.entity.dag_structures import DAGSpec
    from pydantic import ValidationError

    dag = document.get("dag", document) if isinstance(document, dict) else None
    if isinstance(document, dict) and "dsl" in document or isinstance(dag, dict) and "components" in dag:
        raise InvalidArgument(
            f"{where} is a DSL of FATE 1.x. Name the DAG of a job of FATE 2.2, as pipeline.get_dag() gives it."
        )
    if not isinstance(dag, dict) or not isinstance(dag.get("tasks"), dict) or not dag["tasks"]:
        raise InvalidArgument(f"{where} has no tasks. Name the DAG of a job, as pipeline.get_dag() gives it.")
    _refuse_endless(dag, where)
    tasks = {name: _without_nulls(task) if isinstance(task, dict) else task for name, task in dag["tasks"].items()}
    dag = {**dag, "tasks": tasks}
    try:
        return JobPlan(DAGSpec.parse_obj(dag).dict(exclude_unset=True))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidArgument(f"{place} in {where} is wrong for a DAG of FATE 2.2: {first['msg']}.") from error


def _without_nulls(task: Document) -> Document:
    """FATE-Flow stores an input with nothing in each field that it does not have; FATE's own schema refuses that."""

    def given(content: object) -> object:
        if isinstance(content, list):
            return [given(each) for each in content]
        if isinstance(content, dict):
            return {name: given(each) for name, each in content.items() if each is not None}
        return content

    return {name: given(each) if name == "inputs" else each for name, each in task.items()}


def _refuse_endless(dag: object, where: str) -> None:
    """Refuse what aliases of YAML make endless, or larger than any job."""
    waiting, values = [(dag, 0)], 0
    for content, depth in waiting:
        inner = list(content.values()) if isinstance(content, dict) else content if isinstance(content, list) else []
        values += len(inner)
        if values > MAX_VALUES or depth > MAX_DEPTH:
            raise InvalidArgument(
                f"{where} must have at most {MAX_VALUES} values, one in another {MAX_DEPTH} deep; it has more."
            )
        waiting += [(each, depth + 1) for each in inner if isinstance(each, dict | list)]


def plan_of_job(address: FlowAddress, job_id: str) -> JobPlan:
    """Of a job that this FATE-Flow knows, finished or not; raises InvalidArgument where it knows none of that id."""
    if not JOB_ID.fullmatch(job_id):
        raise InvalidArgument.of("JOB", job_id, "the file of a DAG, or the id of a job, of twelve digits or more")
    response = connect(address).job.query(job_id=job_id)
    rows = response.get("data") or [] if response.get("code") == 0 else []
    found = next((row["dag"] for row in rows if row.get("dag")), None)
    if found is None:
        raise InvalidArgument(
            f"FATE-Flow at {address} knows no job {job_id}; it may be one of another site, or its records were cleaned."
        )
    return plan_of_document(found, f"job {job_id}")
