"""Before any record is sent: the same request at both parties, tables that fit, sound keys, the public facts."""
import re
import secrets

from fate_dp.components.common.parties import roles
from fate_dp.components.common.preflight import agree
from fate_dp.components.common.together import Together
from fate_dp.crypto.paillier import PrivateKey, PublicKey

from .dummies import OTHER
from .memory import check_memory
from .records import check_table, columns_of
from .settings import Settings

SESSION_BYTES = 8


def check_parties(ctx) -> None:
    """Every party sees the same list, so every party raises the same sentence without a message."""
    present = roles(ctx)
    if sorted(present) != ["guest", "host"]:
        raise ValueError(
            f"The job names {present.count('guest')} guests, {present.count('host')} hosts and "
            f"{present.count('arbiter')} arbiters; align joins the tables of exactly one guest and one host."
        )


def agree_on_terms(ctx, settings: Settings, frame, role: str, private_key: PrivateKey, checks) -> dict:
    """{session, guest, host}, in builtins: of each party {records, features, columns, labelled, public_key, session}.

    Args:
        checks: further checks of this party, called without arguments; raises ValueError.
    """
    half = secrets.token_hex(SESSION_BYTES)

    def check():
        check_table(frame, role)
        facts = _facts(frame, role, settings, private_key, half)
        check_memory(ctx, facts["records"], facts["columns"], private_key.public_key)
        checks()
        return {"asked": settings.to_json(), "public": facts}

    def commit(hosts):
        (facts,) = hosts.values()
        if facts["asked"] != settings.to_json():
            raise ValueError(
                f"The host was asked for {facts['asked']}, the guest for {settings.to_json()}; set the same at both."
            )
        _checked_key(facts["public"], settings, "host")
        return {"guest": _facts(frame, role, settings, private_key, half), "host": facts["public"]}

    terms = agree(ctx, check, commit)
    # Each party puts its own half of the name itself, so that no other can give one name to two alignments.
    halves = {party: terms[party]["session"] for party in OTHER} | {role: half}
    return {"session": f"{halves['guest']}{halves['host']}", **terms}


def peer_key(ctx, terms: dict, settings: Settings, role: str) -> PublicKey:
    """The other party's key; refused at both parties if it is none."""

    def checked():
        facts = terms[OTHER[role]]
        key = _checked_key(facts, settings, OTHER[role])
        if not re.fullmatch(rf"[0-9a-f]{{{2 * SESSION_BYTES}}}", str(facts["session"])):
            raise ValueError(f"The {OTHER[role]} sent no half of a session's name, {SESSION_BYTES} bytes in hex.")
        return key

    return Together(ctx)("keys", checked)


def _facts(frame, role, settings, private_key, half):
    dummies = 0 if settings.hide_size is None else 2 * settings.hide_size.pool
    return {
        "records": frame.shape[0] + dummies,
        "features": len(frame.schema.columns),
        "columns": columns_of(frame, role),
        "labelled": frame.schema.label_name is not None,
        "public_key": private_key.to_wire(),
        "session": half,
    }


def _checked_key(facts, settings, owner) -> PublicKey:
    key = PublicKey.from_wire(facts["public_key"])
    if key.key_length != settings.key_length:
        raise ValueError(f"The {owner} sent a key of {key.key_length} bits; key_length is {settings.key_length}.")
    return key
