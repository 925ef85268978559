"""Whether a table fits: what leaves a party is sorted, and so all ciphertexts of a partition are held at once."""
from fate_dp.components.common.preflight import PrivateReason
from fate_dp.crypto.joined_records import record_bytes
from fate_dp.crypto.paillier import PublicKey

COPIES = 2
"""Of a partition while it is sorted: as it came, and in order."""


def check_memory(ctx, records: int, columns: int, public_key: PublicKey) -> None:
    """Refuse a table whose ciphertexts exceed the free memory, on an engine of one machine.

    Raises:
        PrivateReason: how much is free is told to this party alone.
    """
    if "standalone" not in type(ctx.computing).__module__:
        return
    needed, free = COPIES * records * record_bytes(columns, public_key), free_memory()
    if needed > free:
        public = f"The ciphertexts of {records} records do not fit into this party's memory; align a part at a time."
        raise PrivateReason(
            f"The ciphertexts of {records} records need {needed / 2**30:.1f} GiB of memory and {free / 2**30:.1f} are free; "
            "align a part of the table at a time, or use an engine of several machines.",
            public,
        )


def free_memory() -> int:
    """Bytes that this machine has left."""
    import psutil

    return psutil.virtual_memory().available
