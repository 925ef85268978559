"""The program that our servers run: FATE-Flow as it is but for three things, changed in this process only, and with a fork
server for its tasks.

FATE-Flow starts the next task when its scheduler wakes up, every two seconds; a task that ends just after a look
costs two idle seconds. The interval is written in FATE-Flow's code.

Where Spark has stored a table as files, FATE-Flow 2.2 cannot read it back for the client: it puts `file_path` of the
table's address, which no address has, before each file's path, which is whole already.

Each change of a task's state waits several times for the disk. With a write-ahead log the state survives a kill as before;
a power failure may take the last changes, of jobs that it ends anyway.
"""

import os

from ..fate_patches.warm_handover import OWNER
from ..warm_start.control import start_for

SCHEDULER_MILLISECONDS = 300


def main() -> None:
    """Start FATE-Flow in this process; returns only when the server ends."""
    import apsw
    from fate_flow.runtime.system_settings import DEFAULT_FATE_PROVIDER_PATH

    # Tasks inherit this variable: a fork server that one of them starts ends with this process as well.
    os.environ[OWNER] = str(os.getpid())
    start_for(DEFAULT_FATE_PROVIDER_PATH)
    # FATE-Flow's own main program does this first, before its other modules read the table.
    from fate_flow.db.casbin_models import init_casbin

    init_casbin()
    from fate_flow import fate_flow_server
    from fate_flow.db.base_models import DB
    from fate_flow.entity.types import FileAddress

    FileAddress.file_path = ""
    DB.init(DB.database, pragmas={"synchronous": "normal"})
    # FATE-Flow closes its connections after each request, and the last to be closed would put the log away, which waits.
    kept_open = apsw.Connection(DB.database)
    kept_open.execute("PRAGMA journal_mode = wal").fetchall()
    # Only who has read holds the log open.
    kept_open.execute("SELECT count(*) FROM sqlite_master").fetchall()

    class AttentiveScheduler(fate_flow_server.DAGScheduler):
        def __init__(self, interval: float, **settings: object) -> None:
            super().__init__(interval=SCHEDULER_MILLISECONDS, **settings)

    fate_flow_server.DAGScheduler = AttentiveScheduler
    fate_flow_server.server_init()
    fate_flow_server.start_server()


if __name__ == "__main__":
    main()
