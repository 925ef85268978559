"""The cluster and the single server that these tests compare; they take long, so that they run only when named."""

import shutil
from pathlib import Path

import pytest

from fate_dp.deploy.flow import server
from tests.support.cluster import cluster
from tests.support.cluster.programs import missing

from .places import cluster_place, single_place


def pytest_ignore_collect(collection_path, config):
    """Not part of a run that does not ask for them: each file starts several servers and works for minutes."""
    named = any(
        Path(str(argument).partition("::")[0]).resolve().is_relative_to(Path(__file__).parent)
        for argument in config.invocation_params.args
    )
    return None if named else True


@pytest.fixture(scope="session")
def work(tmp_path_factory):
    """A folder for everything of the session, emptied where all went well: a cluster's logs are large."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def engine(request):
    """The engine of the module's cluster; skips where it is not installed."""
    name = getattr(request.module, "ENGINE", "standalone")
    sentence = missing(name)
    if sentence is not None:
        pytest.skip(sentence)
    return name


@pytest.fixture(scope="module")
def cluster_home(engine, work):
    """The folder of the module's cluster, which is stopped at the end."""
    home = work / f"cluster-{engine}"
    yield home
    cluster.down(home)
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def here(engine, cluster_home):
    """The running cluster of the module."""
    return cluster_place(cluster.up(cluster_home, engine))


@pytest.fixture(scope="module")
def there(work):
    """A single server that plays all parties, to compare with."""
    home = work / "single"
    yield single_place(home, server.up(home))
    server.down(home)
    shutil.rmtree(home, ignore_errors=True)
