"""The version of this plugin, as it is installed in the Python environment of the task."""
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "fate-dp"
UNKNOWN = "unknown"


@lru_cache(maxsize=None)
def plugin_version() -> str:
    """For example 0.1.0; 'unknown' where the files lie on the path without an installation."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return UNKNOWN
