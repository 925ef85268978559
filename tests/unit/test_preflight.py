"""What other parties read where one of them refuses."""

import pytest

from fate_dp.components.common.preflight import UNTOLD, PrivateReason, Refusal, Together, about_settings
from fate_dp.components.protocols.messages import AGREEMENT
from fate_dp.testing import play

GUEST, HOST = ("guest", "9999"), ("host", "10000")
SECRET = "row 17 holds 0.4711"


def told(tmp_path, error, at=HOST):
    """What guest and host end with where one of them raises the error in the middle of its work."""

    def work():
        raise error

    def step(ctx):
        own = tuple(ctx.federation.local_party) == at
        Together(ctx)("work", work if own else lambda: None)

    played = play(step, (GUEST, HOST), tmp_path / "home", messages=AGREEMENT)
    return [str(played.errors[party]) for party in (GUEST, HOST)]


@pytest.mark.parametrize("error", [ValueError(SECRET), KeyError(SECRET), OSError(28, SECRET, "/home/bank/ledger")])
@pytest.mark.parametrize("at", [GUEST, HOST], ids=" ".join)
def test_others_read_one_sentence_of_an_error_that_is_not_meant_for_them(tmp_path, error, at):
    ends = told(tmp_path, error, at)
    other = ends[at == GUEST]
    assert other == f"{' '.join(at)}: {UNTOLD}"
    if type(error) is ValueError:
        assert ends[at == HOST] == f"{' '.join(at)}: {SECRET}"


def test_others_read_what_is_meant_for_them(tmp_path):
    public, private = Refusal("rounds is 3 here and 4 there."), PrivateReason(SECRET, "The cap does not allow it.")
    assert told(tmp_path / "a", public) == ["host 10000: rounds is 3 here and 4 there."] * 2
    assert told(tmp_path / "b", private) == ["host 10000: The cap does not allow it.", f"host 10000: {SECRET}"]


def test_what_is_wrong_with_settings_is_meant_for_all_and_a_private_reason_stays_one():
    with pytest.raises(Refusal, match="^epsilon is 0$"), about_settings():
        raise ValueError("epsilon is 0")
    with pytest.raises(PrivateReason, match=SECRET), about_settings():
        raise PrivateReason(SECRET, "The cap does not allow it.")
