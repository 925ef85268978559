"""FATE 2.2.0: a table that Python collects while FATE notes another one waits for itself."""

import gc
import os
import tempfile
import threading

# Python collects when so many objects are new: here in one moment that we choose, and not before.
gc.set_threshold(10**9)

from fate.arch.computing.backends.standalone import CSession, _standalone


class Ring:
    """Refers to itself, as frames and exceptions do: it goes when Python looks for such, not before."""

    def __init__(self, table):
        self.table, self.itself = table, self


def serialize_as_python_collects(meta):
    gc.set_threshold(1)
    Ring(None)
    return serialize(meta)


def stop():
    print("3 seconds later it still waits for a lock that it holds", flush=True)
    os._exit(0)


session = CSession(session_id="collected", data_dir=tempfile.mkdtemp(), options={"task_cores": 1})._session
table = session.parallelize([(b"key", b"value")], 1, lambda key, partitions: 0, 0, 0, 0)
namespace, name, folder = table.namespace, table.name, table._data_dir
Ring(table)
del table
serialize = _standalone._TableMeta.serialize
_standalone._TableMeta.serialize = serialize_as_python_collects
threading.Timer(3, stop).start()
_standalone._TableMetaManager.add_table_meta(folder, namespace, name, 1, 0, 0, 0)
print("it was noted", flush=True)
os._exit(0)
