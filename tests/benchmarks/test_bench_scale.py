"""The arithmetic of `make bench-scale`, what it keeps, and its rows; and kernels that never hold a whole partition."""

import json
import os
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from bench import scale
from bench.hetero_lr_rows import made_rows
from bench.peak_memory import pss_bytes
from bench.scale_tables import BLOCK_ROWS, block_rows
from fate_dp.components.dp_hetero_lr.cross_product import statistics
from fate_dp.components.dp_hetero_lr.rows import Block
from fate_dp.crypto.cross_product import encrypt_rows, merge_sums, open_sums, product_layout, seal_sums
from fate_dp.crypto.paillier import keypair_of_any_length
from fate_dp.privacy.ledger import database
from fate_dp.privacy.ledger.ledger import Ledger

CONSOLE = SimpleNamespace(print=lambda text: None, status=lambda text: open(os.devnull))


def run(rows, cpu, peak):
    return {"rows": rows, "peak_bytes": peak << 30, "stages": {"dp_hetero_lr": {"cpu": cpu, "wall": cpu / 2}}}


def test_figures_are_those_of_the_most_rows_and_the_largest_memory():
    figures = scale.figures_of([run(1000, 2.0, 1), run(10_000, 20.0, 2)], [run(1000, 9.0, 3)])
    assert figures["rows"] == 10_000 and figures["growth_exponent"] == 1.0
    assert figures["peak_gib"] == 3 and figures["peak_gib_hetero_lr"] == 2
    assert figures["cpu_seconds"] == 20.0 and figures["cluster_seconds"] == 0.2


def test_one_size_has_no_exponent():
    assert scale.figures_of([run(1000, 2.0, 1)], [])["growth_exponent"] is None


def test_what_was_measured_is_kept_and_measured_again_only_where_that_is_asked(tmp_path):
    asked = []

    def work(rows):
        asked.append(rows)
        return {"rows": rows, "at": len(asked)}

    measure = partial(scale.kept, tmp_path / "scale", "hetero-lr", work, 7, console=CONSOLE)
    assert [measure(again=again)["at"] for again in (False, False, True, False)] == [1, 1, 2, 2]
    assert json.loads((tmp_path / "scale" / "hetero-lr-7.json").read_text()) == {"rows": 7, "at": 2}


def test_blocks_hold_all_rows_once_and_the_same_in_every_run():
    blocks = [block_rows(number, 2 * BLOCK_ROWS + 5) for number in range(3)]
    assert [len(block.labels) for block in blocks] == [BLOCK_ROWS, BLOCK_ROWS, 5]
    assert np.array_equal(blocks[1].host, made_rows(BLOCK_ROWS, 1).host)


def test_shared_pages_count_less_than_all_resident_ones():
    assert 0 < pss_bytes(os.getpid()) < 1 << 40 and pss_bytes(0) == 0


# A partition in groups of rows, by the kernels of dp_hetero_lr

PUBLIC, PRIVATE = keypair_of_any_length(512)
BATCHES = [(0, 7), (7, 19)]


def blocks_of(columns, seed):
    numbers = np.random.default_rng(seed).integers(-(2**24), 2**24, size=(19, columns))
    return [(at, Block(first, numbers[first : first + 5])) for at, first in enumerate(range(0, 19, 5))]


@pytest.mark.parametrize("at_once", [1, 6, 10, 1000])
def test_a_partition_in_groups_gives_the_sums_of_the_whole(monkeypatch, at_once):
    monkeypatch.setattr(statistics, "ROWS_MULTIPLIED_AT_ONCE", at_once)
    host, guest, layout = blocks_of(2, 1), blocks_of(3, 2), product_layout(19, PUBLIC)
    alone = [(key, (block, b"")) for key, block in host]
    ((_, exact),) = statistics._summed(
        alone, BATCHES, partial(statistics._exact, left=statistics.own_matrix, dropped=0), np.add
    )
    sent = [encrypt_rows(block.features, PRIVATE.encryption(), layout, 19) for _, block in guest]
    pairs = [(key, (block, data)) for (key, block), data in zip(host, sent)]
    matrix = partial(statistics.own_matrix, dropped=0)
    product = partial(statistics._encrypted, matrix=matrix, columns=3, layout=layout, key=PUBLIC)
    ((_, products),) = statistics._summed(pairs, BATCHES, product, partial(merge_sums, public_key=PUBLIC))
    whole_host, whole_guest = (np.concatenate([block.features for _, block in side]) for side in (host, guest))
    for at, (first, last) in enumerate(BATCHES):
        of_host, of_guest = (side[first:last].astype(object) for side in (whole_host, whole_guest))
        assert (exact[at] == of_host.T @ of_host).all()
        sealed, share = seal_sums(products[at], 3, layout, PUBLIC)
        assert (share + open_sums(sealed, 3, layout, PRIVATE) == of_host.T @ of_guest).all()


def test_an_empty_partition_gives_nothing():
    assert list(statistics._summed([], BATCHES, statistics._exact, np.add)) == []


# Rows that are staged


def test_more_rows_than_memory_has_room_for_are_staged_in_a_file_without_a_name(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "STAGED_KIB", 16)
    (tmp_path / "staged").mkdir()
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path / "staged"))
    ledger, records = Ledger(tmp_path / "ledger.sqlite"), 3000
    seen = []

    def rows():
        for number in range(records):
            tag = number.to_bytes(16, "little")
            yield tag, tag[::-1], "1"
        seen.append([os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _open(name)])
        seen.append(os.listdir(tmp_path / "staged"))

    of_job = {"job_id": "job", "task_id": "task", "fingerprint": ""}
    ledger.record_flips(source="a/b/y", epsilon=1.0, classes=2, key_id="k", rows=rows(), cap=8.0, **of_job)
    opened, named = seen
    assert any(path.endswith("(deleted)") for path in opened) and named == []


def _open(name):
    return os.path.islink(f"/proc/self/fd/{name}")
