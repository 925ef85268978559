"""The table of tests/check, made by reading FATE: every job parses, and every row names what there is."""

from functools import cache
from pathlib import Path

import fate
import yaml
from fate_client.pipeline.entity.dag_structures import DAGSchema

CHECK = Path(__file__).parents[1] / "check"
FATE = Path(fate.__file__).parent
DAGS = sorted(path.stem for path in (CHECK / "dags").glob("*.yaml"))
VERDICTS = yaml.safe_load((CHECK / "verdicts.yaml").read_text(encoding="utf-8"))
REQUIRED = {"task", "observer", "owner", "what", "learns", "evidence", "why"}
# What FATE has, and ours.
COMPONENTS = {path.stem for path in (FATE / "components" / "components").glob("*.py")} | {"label_flip"}


@cache
def job(name: str) -> DAGSchema:
    text = (CHECK / "dags" / f"{name}.yaml").read_text(encoding="utf-8")
    return DAGSchema.parse_obj(yaml.safe_load(text))


def parties_of(name: str, task: str) -> dict[str, int]:
    """How many parties of each role take part in a task."""
    dag = job(name).dag
    return {party.role: len(party.party_id) for party in dag.tasks[task].parties or dag.parties}


def is_true_value(row: dict) -> bool:
    return row["learns"] == "every" and row["what"] in ("labels", "features") and "state" not in row


def test_every_job_has_a_verdict():
    assert len(DAGS) >= 32 and set(VERDICTS) == set(DAGS)


def test_a_job_parses_and_its_tasks_read_each_other():
    for name in DAGS:
        schema = job(name)
        assert schema.schema_version == "2.2.0", name
        for task in schema.dag.tasks.values():
            assert set(task.dependent_tasks or ()) <= set(schema.dag.tasks), name


def test_a_row_names_a_task_and_roles_of_its_job():
    for name in DAGS:
        for row in VERDICTS[name]["rows"]:
            assert set(row) - {"state"} == REQUIRED and row.get("state", "flipped") == "flipped", name
            assert row["what"] in ("labels", "features", "ids", "scores") and row["learns"] in ("every", "some"), name
            parties = parties_of(name, row["task"])
            assert row["observer"] in parties and row["owner"] in parties, name
            assert row["observer"] != row["owner"] or parties[row["owner"]] > 1, name
        kinds = [(row["task"], row["observer"], row["owner"], row["what"]) for row in VERDICTS[name]["rows"]]
        assert len(set(kinds)) == len(kinds), name


def test_the_exit_follows_from_the_rows():
    for name in DAGS:
        verdict = VERDICTS[name]
        # Other makers' components, runners and networks are a vendor's in these jobs.
        tasks = job(name).dag.tasks.values()
        unknown = any(task.component_ref not in COMPONENTS or "'vendor" in repr(task.parameters) for task in tasks)
        expected = 1 if any(map(is_true_value, verdict["rows"])) else 3 if unknown else 0
        assert verdict["exit"] == expected, name


def test_evidence_stands_in_the_installed_fate():
    cited = {item for verdict in VERDICTS.values() for row in verdict["rows"] for item in row["evidence"]}
    for item in cited:
        name, line = item.rsplit(":", 1)
        lines = (FATE / name).read_text(encoding="utf-8").splitlines()
        assert lines[int(line) - 1].strip(), f"{item} is an empty line."
