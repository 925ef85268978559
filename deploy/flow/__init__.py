"""The FATE-Flow server of this machine: its programs, its home, its start and stop, and the requests to any FATE-Flow.

`programs` starts and waits for processes, `home` is the folder of one server, `server` starts and stops it, `client` asks
a FATE-Flow wherever it runs, and `process` is what the server's process runs.
"""

import os
import shlex
from pathlib import Path

DEFAULT_HOME = ".fate-dp"


def home_command(words: str, home: str | os.PathLike) -> str:
    """``fate-dp`` with these words, for the embedded server of ``home``.

    Another home than the default one must be named, or the command is for another server.
    """
    is_default = Path(home).resolve() == Path(DEFAULT_HOME).resolve()
    return f"fate-dp {words}" if is_default else f"fate-dp {words} --home {shlex.quote(str(home))}"
