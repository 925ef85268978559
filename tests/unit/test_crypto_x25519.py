"""The installed X25519 gives the vectors of RFC 7748, section 6.1, and commutes: a(bP) = b(aP)."""

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ALICE = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"
BOB = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"
ALICE_PUBLIC = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
BOB_PUBLIC = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
SHARED = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"


def private_key(text):
    return X25519PrivateKey.from_private_bytes(bytes.fromhex(text))


@pytest.mark.parametrize("private, public", [(ALICE, ALICE_PUBLIC), (BOB, BOB_PUBLIC)])
def test_public_keys(private, public):
    assert private_key(private).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex() == public


@pytest.mark.parametrize("private, public", [(ALICE, BOB_PUBLIC), (BOB, ALICE_PUBLIC)])
def test_both_orders_give_the_shared_secret(private, public):
    other = X25519PublicKey.from_public_bytes(bytes.fromhex(public))
    assert private_key(private).exchange(other).hex() == SHARED
