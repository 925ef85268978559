"""Identities of operators, their pins, and what a pin refuses."""

import pytest

from fate_dp.components.common.peers import Meeting, fingerprint, pin, pins, public_key
from fate_dp.components.common.wire.codec import Malformed
from fate_dp.pipelines.cli.main import main
from fate_dp.privacy.private_files import IDENTITY_FILE, PEERS_FILE, party_folder

GUEST, HOST, OTHER = ("guest", "9999"), ("host", "10000"), ("host", "10001")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FATE_DP_HOME", str(tmp_path))
    return tmp_path


def key_of(home, party) -> str:
    return public_key(party_folder(home, party[1]))


def pinned(home, of, at):
    pin(party_folder(home, at[1]), of[1], key_of(home, of))


def meet(greeting, session="task", sender=HOST):
    """What the guest makes of a greeting."""
    guest = Meeting(session, GUEST)
    return guest.keys(sender, guest.greeting(sender), greeting)


def test_both_sides_have_the_same_keys_for_each_way(home):
    guest, host = Meeting("task", GUEST), Meeting("task", HOST)
    first, second = guest.greeting(HOST), host.greeting(GUEST)
    to_host, to_guest = guest.keys(HOST, first, second)
    at_guest, from_guest = host.keys(GUEST, second, first)
    assert from_guest.open(7, b".", to_host.seal(7, b".", b"said")) == b"said"
    assert to_guest.open(7, b".", at_guest.seal(7, b".", b"said")) == b"said"
    assert to_host.seal(7, b".", b"said") != at_guest.seal(7, b".", b"said")


def test_a_signed_greeting_of_the_pinned_operator_is_taken(home):
    pinned(home, HOST, GUEST)
    assert len(meet(Meeting("task", HOST).greeting(GUEST))) == 2


@pytest.mark.parametrize(
    "session, sender, receiver", [("other", HOST, GUEST), ("task", OTHER, GUEST), ("task", HOST, OTHER)]
)
def test_a_signature_is_for_one_run_sender_and_receiver(home, session, sender, receiver):
    """All three parties are one operator's here."""
    key_of(home, HOST)
    folders = [party_folder(home, party[1]) for party in (HOST, OTHER)]
    folders[1].mkdir()
    (folders[1] / IDENTITY_FILE).write_bytes((folders[0] / IDENTITY_FILE).read_bytes())
    (folders[1] / IDENTITY_FILE).chmod(0o600)
    pinned(home, HOST, GUEST)
    with pytest.raises(Malformed, match="signed by another key than the one pinned here for party 10000"):
        meet(Meeting(session, sender).greeting(receiver))


def test_an_unsigned_greeting_of_a_pinned_party_is_refused_with_the_cure(home):
    greeting = Meeting("task", HOST).greeting(GUEST)
    pinned(home, HOST, GUEST)
    with pytest.raises(Malformed, match="not signed by the one pinned here .*`fate-dp identity`.*`fate-dp peers`$"):
        meet(greeting)


def test_a_signature_of_nobody_who_is_pinned_changes_nothing(home):
    key_of(home, HOST)
    assert len(meet(Meeting("task", HOST).greeting(GUEST))) == 2


def test_the_commands_make_an_identity_once_and_keep_pins(home, capsys):
    assert main(["identity", "--party", "10000"]) == 0
    told, key = capsys.readouterr().out, key_of(home, HOST)
    assert key in told and fingerprint(key) in told
    assert (party_folder(home, "10000") / IDENTITY_FILE).stat().st_mode & 0o777 == 0o600
    assert main(["peers", "--pin", "10000", key]) == 0
    assert fingerprint(key) in capsys.readouterr().out
    assert pins(party_folder(home, "9999")) == {"10000": key}
    assert main(["peers"]) == 0 and key in capsys.readouterr().out
    assert main(["peers", "--forget", "10000"]) == 0 and capsys.readouterr().out == ""
    assert main(["peers", "--pin", "10000", "5f0c"]) == 1 and "64 hexadecimal digits" in capsys.readouterr().err


@pytest.mark.parametrize("nobody", ["", "10000 ", "10000\n", "１００００", "host 10000", "../x", "a" * 65])
def test_nobody_is_pinned_who_is_no_party(home, capsys, nobody):
    assert main(["peers", "--pin", nobody, key_of(home, HOST)]) == 1 and "party id must be" in capsys.readouterr().err
    assert pins(party_folder(home, "9999")) == {}


def test_pins_that_cannot_be_read_are_no_pins_at_all(home):
    path = party_folder(home, "9999") / PEERS_FILE
    path.parent.mkdir()
    for text in ("[]", "{", '{"10000": 7}'):
        path.write_text(text)
        with pytest.raises(ValueError, match="cannot be read"):
            pins(path.parent)
