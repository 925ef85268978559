"""An operator's declaration that the labels of a source need no protection: the name in the policy, the labels in the
ledger, record by record, so that no other table can pass for the declared one."""
from pathlib import Path

from fate_dp.privacy.label_flips import canonical_label, record_tags
from fate_dp.privacy.ledger.ledger import Ledger
from fate_dp.privacy.party_files import KEY_FILE, LEDGER_FILE, POLICY_FILE
from fate_dp.privacy.policy import declare_source
from fate_dp.privacy.secret_key import key_id, load_or_create_key


def declare_public_labels(home, source, match_ids, labels):
    """Declare ``labels`` of the records ``match_ids`` public under ``source`` at the party whose home is ``home``.

    :raises InvalidPolicy, InvalidLabel, DuplicateRecord: one sentence; nothing is declared.
    """
    home = Path(home)
    key = load_or_create_key(home / KEY_FILE)
    rows = zip(record_tags(map(str, match_ids), key, source), map(canonical_label, labels), strict=True)
    Ledger(home / LEDGER_FILE).register_public(source=source, key_id=key_id(key), rows=rows)
    declare_source(home / POLICY_FILE, source, public=True)
