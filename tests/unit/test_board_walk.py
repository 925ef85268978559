"""`make board-test` walks every component that the package announces, in jobs that compile; no board is needed to see that."""

from tests.board.jobs import OURS, SUCCESSFUL, drawn, walked


def test_every_component_of_the_registry_has_a_task_that_the_walk_clicks():
    found = walked()
    assert {task.rpartition("_")[0] for task in found} == OURS and len(OURS) > 13
    assert all(job in SUCCESSFUL and ": " in parameter for job, parameter in found.values())
    assert found["dp_homo_nn_0"][0] == "horizontal"


def test_the_arrows_of_a_graph_are_the_artifacts_that_tasks_take():
    shuffled = drawn(SUCCESSFUL["shuffled"])
    assert set(shuffled.components) == {"reader_0", "shuffler_0"} and shuffled.arrows == 1
    assert drawn(SUCCESSFUL["boosted"]).arrows == 7
