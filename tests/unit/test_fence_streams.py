"""Whatever bytes come, the fence makes a value or refuses with one sentence, and touches nothing else on the way."""

import json
import subprocess
import sys

from fate_dp.deploy.flow.server import FATE_PATCHES

PROGRAM = """
import json, pickle, random, sys
sys.path.insert(0, {root!r})
from hypothesis import given, settings, strategies as st
from fate_dp.deploy.fate_patches import fence, fence_builder, fence_classes, fence_reader
from tests import fence_values
from tests.hostile_pickles import name, text
import numpy as np, pandas as pd, torch

HONEST = [pickle.dumps(each) for each in (
    *fence_values.in_tables().values(), [1, 2.5, "a", None, (3, b"x")], {{"a": {{1, 2}}, "b": [(1, 2), [3]]}},
    np.arange(6.0).reshape(2, 3), np.array(["a", 1], dtype=object), np.float64(2), torch.rand(3, 2)[:, 1],
    pd.Index(["a", "b"]), pd.Series([1.0, 2.0], index=["a", "b"]), torch.Size([2]), slice(1, 2))]
HONEST += [fence_values.send(each)[0][1:] for each in fence_values.in_messages(object.__new__(fence_values.Context)).values()]
NAMES = [name(*full.rsplit(".", 1)) for full in sorted(fence_classes.LISTED)]
PIECES = [bytes([each]) for each in range(256)] + [text("a"), b"K\\x01", b"J\\xff\\xff\\xff\\xff", b"C\\x08\\0\\0\\0\\0\\0\\0\\0\\0",
    b"}}", b"]", b")", b"\\x85R", b")\\x81}}b", b"\\x86R", b"(K\\x01K\\x02t", b"h\\0", b"h\\1"] + NAMES
for each in HONEST:
    fence.value_of(each, lambda kind, fields: None)
told, seen, quiet = {{"made": 0, "refused": 0}}, set(), []
def watch(event, arguments):
    # `id` tells its audience of itself, and nothing else is used.
    if quiet and event != "builtins.id":
        seen.add(event)
sys.addaudithook(watch)

def try_one(data):
    quiet.append(True)
    try:
        fence.value_of(data, lambda kind, fields: None)
        told["made"] += 1
    except fence.FencedOff as error:
        told["refused"] += 1
        assert "\\n" not in str(error) and len(str(error)) < 1000, error
    finally:
        quiet.clear()

@settings(derandomize=True, database=None, deadline=None, max_examples={examples})
@given(st.sampled_from(HONEST), st.lists(st.tuples(st.integers(0, 2**30), st.integers(0, len(PIECES) - 1), st.booleans()), min_size=1, max_size=4))
def mutated(data, changes):
    for place, piece, instead in changes:
        place %= len(data)
        data = data[:place] + PIECES[piece] + data[place + len(PIECES[piece]) * instead:]
    try_one(data)

@settings(derandomize=True, database=None, deadline=None, max_examples={examples})
@given(st.lists(st.integers(0, len(PIECES) - 1), max_size=30))
def made_up(pieces):
    try_one(b"\\x80\\x04" + b"".join(PIECES[each] for each in pieces) + b".")

quiet.append(True)
open("/dev/null").close()
assert seen == {{"open"}}, "what this test listens to is heard"
quiet.clear()
seen.clear()
mutated()
made_up()
print(json.dumps([told, sorted(seen)]))
"""


def test_no_stream_of_instructions_reaches_anything_outside():
    """Python itself tells of every import, file, program, socket and look-up by an unpickler: there is none."""
    program = PROGRAM.format(root=str(FATE_PATCHES.parents[1]), examples=1500)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    told, seen = json.loads(done.stdout.splitlines()[-1])
    assert seen == [] and told["made"] > 20 and told["refused"] > 1000, (told, seen)
