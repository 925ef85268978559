"""One FATE-Flow server for all end-to-end tests of a session."""

import pytest

from fate_dp.deploy.flow.server import down, up
from tests.fork_servers import imported_at


@pytest.fixture(scope="session")
def flow_home(tmp_path_factory):
    """The home folder of the session's server; what runs in it is stopped at the end."""
    home = tmp_path_factory.mktemp("flow") / "home"
    yield home
    down(home)


@pytest.fixture(scope="session")
def flow_address(flow_home):
    """The address of the session's server, which is started on first use, and whose tasks start warm."""
    address = up(flow_home)
    imported_at(flow_home)
    return address


def pytest_collection_modifyitems(items):
    """The board's tests look at the jobs that all others left on the server."""
    items.sort(key=lambda item: item.path.name == "test_board_records.py")
