"""What a worker of align holds at once: a documented function of rows and columns, kept below a parameter."""

import pytest

from fate_dp.components.align import tagged_tables
from fate_dp.components.align.preflight import partitions_of, sorted_bytes
from fate_dp.components.align.settings import Settings
from fate_dp.components.common.parameters import parameters_of
from fate_dp.crypto.paillier import PublicKey

KEY = PublicKey((1 << 2048) - 1)


def test_memory_is_that_of_two_copies_of_ciphertexts_with_what_is_around_them():
    assert sorted_bytes(1000, 10, KEY) == 2 * 1000 * (512 + 320)
    # 31 slots of 65 bits lie in a plaintext of 2048 bits.
    assert sorted_bytes(1000, 32, KEY) == 2 * 1000 * (1024 + 320)


@pytest.mark.parametrize("records", [1, 10_000, 1_000_000, 10_000_000])
@pytest.mark.parametrize("memory", [16, 256])
def test_a_partition_is_sorted_within_the_memory_of_a_worker(records, memory):
    partitions = partitions_of(records, 10, KEY, memory)
    assert sorted_bytes(-(-records // partitions), 10, KEY) <= (memory << 20) + sorted_bytes(1, 10, KEY)
    assert partitions == 1 or sorted_bytes(records // (partitions - 1), 10, KEY) > memory << 20


def test_the_parties_need_not_agree_on_memory_and_too_little_is_refused():
    assert Settings(worker_memory=16).to_json() == Settings().to_json()
    with pytest.raises(ValueError, match="worker_memory must be .*, got 15"):
        parameters_of(Settings)["worker_memory"].check(15)


def test_rows_are_spread_over_at_least_as_many_partitions_as_asked():
    asked = []

    class Table:
        num_partitions = 3

        def map_reduce_partitions_with_index(self, function, output_num_partitions):
            asked.append(output_num_partitions)
            return list(function(0, [1, 2]))

    assert tagged_tables._spread(Table(), list, 7) == tagged_tables._spread(Table(), list, 2) == [1, 2]
    assert asked == [7, 3]
