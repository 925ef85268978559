"""The plan of a job that was named by a file of its DAG or by its id on a FATE-Flow server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from fate_dp.components.common.job_files import JobPlan
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.privacy.validation import InvalidArgument

from .flow import connect

JOB_ID = re.compile(r"[0-9]{12,}")
MAX_BYTES = 16 * 2**20


def plan_of_file(path: Path) -> JobPlan:
    """Of a DAG in YAML or JSON, as `pipeline.get_dag()` gives it; raises InvalidArgument, one sentence."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidArgument(f"{path} has more than {MAX_BYTES >> 20} MB. Name the DAG of one job.")
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}; name a file with the DAG of a job.") from error
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise InvalidArgument(f"{path} must be a DAG in YAML or JSON and cannot be read as either.") from error
    return plan_of_document(document, str(path))


def plan_of_document(document: Any, where: str) -> JobPlan:
    """Of a DAG with or without the version of its schema around it, checked against FATE's own schema."""
    from fate_client.pipeline.entity.dag_structures import DAGSpec
    from pydantic import ValidationError

    dag = document.get("dag", document) if isinstance(document, dict) else None
    if not isinstance(dag, dict) or not isinstance(dag.get("tasks"), dict) or not dag["tasks"]:
        raise InvalidArgument(f"{where} has no tasks. Name the DAG of a job, as pipeline.get_dag() gives it.")
    try:
        DAGSpec.parse_obj(dag)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidArgument(f"{place} in {where} is wrong for a DAG of FATE 2.2: {first['msg']}.") from error
    return JobPlan(dag)


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
