"""FATE's own components run under the fence: the jobs of `fate_components`, between parties without FATE-Flow."""

import pickle
import uuid
from graphlib import TopologicalSorter
from unittest.mock import MagicMock

import pandas as pd
import pytest

from bench.label_firewall_parties import Artifact, reader_of, run_stage, stages_of
from fate_dp.pipelines.jobs.job_plans import read_dag
from tests.end_to_end import fate_components as fates
from tests.hostile_pickles import Command
from tests.support.local_parties import frame_of, run_parties

from .scenarios import ONE_THREAD, context_of

GUEST, HOST, ARBITER = ("guest", fates.GUEST), ("host", fates.HOST), ("arbiter", fates.ARBITER)


def play_job(ctx, dag, tables, session):
    """A job's tasks in turn, as one party runs them: the tables that each of them wrote, and what the fence says."""
    from fate.arch.protocol.mpc.communicator import Communicator

    me, tasks, written = tuple(ctx.federation.local_party), dag["tasks"], {}
    own = dag["party_tasks"].get("_".join(me), {}).get("tasks", {})

    def given(source, kind):
        named = source["task_output_artifact"]
        if isinstance(named, list):
            return [given({"task_output_artifact": each}, kind) for each in named]
        output = written.get(named["producer_task"], {}).get(named["output_artifact_key"])
        if output is None or kind == "model":
            return output
        # FATE's trainings add columns to the table that they read. Union wants a name of each.
        reader = reader_of(output.value.copy())
        reader.artifact = MagicMock()
        return reader

    for name in TopologicalSorter({each: tasks[each].get("dependent_tasks", ()) for each in tasks}).static_order():
        task = tasks[name]
        parties = [
            (each["role"], number) for each in task.get("parties", dag["parties"]) for number in each["party_id"]
        ]
        if task["component_ref"] == "evaluation" or me not in parties:
            continue
        settings = {**task["parameters"], **own.get(name, {}).get("parameters", {})}
        if task["component_ref"] == "reader":
            table = tables[settings["name"]]
            frame = frame_of(ctx, table, "y" if "y" in table else None, dtype="float32")
            written[name] = {"output_data": Artifact(frame)}
            continue
        kinds = task["inputs"].items()
        inputs = {key: given(source, kind) for kind, sources in kinds for key, source in sources.items()}
        stage = stages_of(task["component_ref"])[task.get("stage", dag["stage"])]
        chosen = {key: value for key, value in settings.items() if value is not None}
        # FATE's tasks have a process each, and secret sharing keeps the parties of the first one.
        Communicator.instance = None
        try:
            written[name] = run_stage(context_of(ctx, f"{session}-{name}", me, parties), stage, chosen, inputs)
        except ValueError as error:
            # One that all parties have, as `run_parties` understands it.
            raise RuntimeError(f"{name} failed: {error}") from error
    outputs = {(name, key): output.value for name in written for key, output in written[name].items()}
    return {place: each.as_pd_df() for place, each in outputs.items() if hasattr(each, "as_pd_df")}, refusal()


def refusal():
    """What this process says of a table's value that names a function."""
    from fate.arch.computing.serdes import get_serdes_by_type

    with pytest.raises(Exception) as refused:
        get_serdes_by_type(0).deserialize(pickle.dumps(Command("true")))
    return str(refused.value)


@pytest.mark.parametrize("name", fates.SCORED)
def test_fates_own_components_run_under_it(name, tmp_path):
    tables = {
        key: pd.read_csv(path, dtype={"id": str}).assign(sample_id=lambda table, key=key: key + table["id"])
        for key, path in fates.written_tables(tmp_path).items()
    }
    given = {"dag": read_dag(fates.pipeline(name).compile().get_dag())["dag"], "tables": tables}
    parties = (GUEST, HOST, ARBITER)
    played = run_parties(play_job, parties, ONE_THREAD, record=False, forked=True, session=uuid.uuid4().hex, **given)
    assert {party: result.error for party, result in played.items()} == dict.fromkeys(parties)
    assert all("FATE-DP's fence does not let in" in result.value[1] for result in played.values())
    frames = played[GUEST].value[0]
    for task in fates.SCORED[name]:
        scores = frames[task, "train_output_data"]["predict_score"]
        assert len(scores) >= fates.ROWS - 10 and scores.astype(float).notna().all()
    assert name != "preparation" or {task for task, _ in frames} >= {"selection_0", "split_0", "sample_0"}
