"""A key that stands in a file is found, however it is written there."""

import secrets
from base64 import b64encode, urlsafe_b64encode

import pytest

from tests.cluster.searching import Private, found_in

KEY = secrets.token_bytes(32)
WRITTEN = {
    "bytes": KEY,
    "hexadecimal": b"key=" + KEY.hex().encode(),
    "capitals": KEY.hex().upper().encode(),
    **{
        f"{name} behind {before}": b"{" + encode(bytes(range(before)) + KEY + b"tail") + b"}"
        for name, encode in (("base64", b64encode), ("base64 of addresses", urlsafe_b64encode))
        for before in range(4)
    },
}


@pytest.mark.parametrize("numbers", [{}, {0.123456789012: "a number"}], ids=["alone", "beside numbers"])
@pytest.mark.parametrize("form", WRITTEN)
def test_a_key_is_found(form, numbers, tmp_path):
    (tmp_path / "log").write_bytes(b"2026-11-27 " + WRITTEN[form] + b"\n")
    assert found_in(tmp_path, Private(numbers, {KEY: "key"})) == {"key": tmp_path / "log"}
    (tmp_path / "log").write_bytes(WRITTEN[form].replace(KEY[:4], b"else"[:4])[:-20])
    assert found_in(tmp_path, Private(numbers, {KEY: "key"})) == {}
