"""Where FATE begins to execute a component, the party's recorder begins, if its operator switched it on. As long as the
party's policy does not have its word, a task imports nothing but Python's own for it."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# As `privacy.private_files` and `privacy.ledger.policy` have them, which are not imported before they are needed.
HOME_VARIABLE, PARTY_PREFIX, POLICY_FILE = "FATE_DP_HOME", "party-", "policy.yaml"
WORD = b"record_views"


def may_record(party_id: str) -> bool:
    """Whether the party's policy says anything about recording."""
    home = os.environ.get(HOME_VARIABLE) or os.path.join(os.path.expanduser("~"), ".fate-dp")
    try:
        with open(os.path.join(home, PARTY_PREFIX + party_id, POLICY_FILE), "rb") as file:
            said = file.read()
    except OSError:
        return False
    return WORD in said


def record_views(module: Any) -> None:
    """Let FATE's `execute_component_from_config` run with the recorder around it."""
    execute = module.execute_component_from_config

    def execute_component_from_config(config: Any, output_path: Any) -> None:
        if not may_record(config.party_id):
            execute(config, output_path)
            return
        try:
            from fate_dp.deploy.recorder.recording import recording
        except Exception:
            import logging

            logging.getLogger(__name__).exception("nothing of this task is recorded")
            execute(config, output_path)
            return
        with recording(config):
            execute(config, output_path)

    module.execute_component_from_config = execute_component_from_config
