"""The order of one task, the same at both parties: terms, keys, charge, protocol, tables."""
from fate_dp.components.common.dataset_names import remembered_dataset
from fate_dp.components.common.party_home import home_of
from fate_dp.components.common.preflight import PrivateReason
from fate_dp.components.common.provenance import find_label_privacy, refuse_true_labels_of_released_records
from fate_dp.components.common.summary import show_summary
from fate_dp.components.common.together import Together
from fate_dp.crypto.paillier import generate_keypair
from fate_dp.privacy.mechanisms.dummy_count import draw_dummy_count

from .alignment import Alignment, feature_names
from .charges import SizeCharge
from .dummies import dummy_names
from .party import Sizes, joined_blocks
from .preflight import agree_on_terms, check_parties, peer_key
from .records import record_blocks
from .settings import Settings
from .shares_table import write_shares


def run(ctx, settings: Settings, frame, label_source=None):
    """This party's part; returns (frame of shares, `Alignment`).

    Raises:
        ValueError: one sentence, at both parties.
    """
    check_parties(ctx)
    role, found = ctx.federation.local_party[0], {}
    _, private_key = generate_keypair(settings.key_length, primes=3)

    def checks():
        if settings.hide_size is not None:
            found["charge"] = SizeCharge(ctx, frame, role, settings.hide_size)
            found["charge"].check()
        found["label"] = _label_privacy(ctx, frame, label_source)
        # No id is left afterwards by which scores of joined rows could be counted for these records.
        found["dataset"] = remembered_dataset(home_of(ctx), frame).name

    terms = agree_on_terms(ctx, settings, frame, role, private_key, checks)
    other_key = peer_key(ctx, terms, settings, role)
    if settings.hide_size is not None:
        # If another job took what was left of the cap, both learn of it.
        Together(ctx)("charges", found["charge"].record)
    dummies = _dummies(settings.hide_size, role)
    sizes = {party: Sizes(terms[party]["records"], terms[party]["columns"]) for party in ("guest", "host")}
    blocks, starts, rows = joined_blocks(
        ctx, record_blocks(frame, role, dummies), role, sizes, terms["guest"]["features"], private_key, other_key
    )
    if "charge" in found:
        found["charge"].mark_released()
    asked = settings.to_json()
    alignment = Alignment(
        session=terms["session"], rows=rows, guest=feature_names("guest", terms["guest"]["features"]),
        host=feature_names("host", terms["host"]["features"]), labelled=terms["guest"]["labelled"],
        hide_size=asked["hide_size"], own=tuple(frame.schema.columns), label_privacy=found["label"],
        dataset=found["dataset"],
    )  # fmt: skip
    show_summary(ctx, _summary(alignment, sizes))
    return write_shares(ctx, blocks, alignment.names, starts, alignment.session), alignment


def _dummies(hide_size, role) -> list:
    if hide_size is None:
        return []
    return dummy_names(role, draw_dummy_count(hide_size.epsilon, hide_size.pool), hide_size.pool)


def _label_privacy(ctx, frame, label_source):
    """What the guest's ledger says of the labels, for training on the shares, where no id is left to ask by."""
    if frame.schema.label_name is None:
        return None
    try:
        return find_label_privacy(home_of(ctx), frame, label_source).to_json(flipback="none")
    except PrivateReason:
        if label_source is not None:
            raise
        # Nobody can ask by record afterwards, so true labels of records whose flips were released end here.
        refuse_true_labels_of_released_records(home_of(ctx), frame)
        return None


def _summary(alignment: Alignment, sizes: dict) -> dict:
    hidden = alignment.hide_size
    size = "hidden" if hidden else "known to both parties"
    privacy = {f"{name} of the number of matches": value for name, value in (hidden or {}).items()}
    return {
        "mechanism": "records joined as additive shares",
        "session": alignment.session,
        "records of the guest": sizes["guest"].records,
        "records of the host": sizes["host"].records,
        "rows": alignment.rows,
        "number of matches": size,
        **privacy,
        "shared columns": len(alignment.names),
    }
