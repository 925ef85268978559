"""The fork server with all of FATE imported: what it holds, and that no two tasks draw the same keys or noise from it."""

import json

import pytest

from tests.fork_servers import make_place, serving

# Every generator of random numbers that importing FATE and our components makes, by the type and how many there are. A
# new one belongs here when `Inheritance.make_own` has been seen to give it a state of its own in each child.
GENERATORS = {"random.Random", "numpy.random.mtrand.RandomState", "numpy.random._mt19937.MT19937", "torch._C.Generator"}
SCAN = """
import gc, json
from fate_dp.deploy.warm_start import inheritance
# What the fork server has imported is kept from its children's collector.
gc.unfreeze()
found = inheritance.find_inheritance()
print(json.dumps({"generators": sorted(map(inheritance.name_of, found.generators)), "unknown": found.unknown}))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A place with a fork server that has imported what it imports for FATE-Flow."""
    place = make_place(tmp_path_factory.mktemp("fate"), OMP_NUM_THREADS="1", PROCESS_ROLE="worker")
    with serving(place, None):
        assert place.state().state == "serving", place.state().sentence
        yield place


def test_every_generator_is_known_and_no_thread_runs(place):
    """A new kind, in a new version of some package, is to be looked at before it is trusted."""
    found = json.loads(place.run_task(SCAN).stdout.splitlines()[-1])
    assert set(found["generators"]) == GENERATORS and found["unknown"] == []
    assert place.counts() == (1, {}), "pyarrow and OpenBLAS start threads unless they are told not to"


TASK = """
import json, multiprocessing, pickle, random, secrets, uuid
import numpy, torch
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from fate.arch.protocol.phe.paillier import keygen
from fate_dp.crypto.paillier import keypair_of_any_length
from fate_dp.crypto.sealed_box import BoxKey
from fate_dp.privacy.noise.stream import SystemStream
from fate_utils.secure_aggregation_helper import DiffieHellman
from sympy.core import random as of_sympy

linear = torch.nn.Linear(3, 1)
print(json.dumps({
    "python": random.random(), "sympy": of_sympy.random(), "numpy": numpy.random.rand(3).tolist(),
    "gauss": [random.gauss(0, 1), float(numpy.random.randn())], "torch": torch.randn(3).tolist(),
    "initial weights": linear.weight.tolist(), "dropout": torch.nn.functional.dropout(torch.ones(200)).tolist(),
    "mask": secrets.token_hex(), "x25519": X25519PrivateKey.generate().private_bytes_raw().hex(),
    "box": BoxKey().public_bytes.hex(), "exchange": bytes(DiffieHellman().get_public_key()).hex(),
    "paillier": pickle.dumps(keygen(1024)[0]).hex(), "ours": str(keypair_of_any_length(256)[0].n),
    "noise": SystemStream().words(2).tolist(),
    "sessions": [uuid.uuid1().hex, uuid.uuid4().hex], "processes": bytes(multiprocessing.current_process().authkey).hex(),
}))
"""


def test_no_two_tasks_draw_the_same_keys_masks_noise_or_weights(place):
    warm, _ = place.counts()
    drawn = [place.run_task(TASK) for _ in range(3)]
    assert [each.stderr for each in drawn] == [""] * 3
    assert place.counts() == (warm + 3, {})
    told = [json.loads(each.stdout) for each in drawn]
    for name in told[0]:
        assert len({json.dumps(each[name]) for each in told}) == 3, name


def test_nothing_of_a_task_is_in_the_server(place):
    secret = "only-this-task-knows-0123456789"
    task = f"import os; print(os.environ['FATE_TASK_CONFIG'] == {secret[::-1]!r}[::-1])"
    assert place.run_task(task, more={"FATE_TASK_CONFIG": secret}).stdout == "True\n"
    assert secret.encode() not in memory_of(place.state().pid)


def memory_of(pid):
    """What a process has written to its memory."""
    pieces = []
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            (begin, _, end), rights = line.split()[0].partition("-"), line.split()[1]
            if rights.startswith("rw"):
                memory.seek(int(begin, 16))
                try:
                    pieces.append(memory.read(int(end, 16) - int(begin, 16)))
                except OSError:
                    continue
    return b"".join(pieces)
