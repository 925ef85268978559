"""What a job may name where FATE's `homo_nn` and `hetero_nn` import and call by name: classes of networks, and nothing else.

FATE 2.2.0's `Loader` imports any module that a parameter names, or a model's description that was made of one, and calls what it
finds there with the parameter's arguments. Here it gives what FATE's own client writes, item by item: a class beside them may read
files, train by itself or run more code. A party's operator may list others under `model_modules` in policy.yaml.

`TrainingArguments` of transformers, which runners fill from a parameter, take paths, addresses and names of services; here they take
numbers, and words where only a word is meant.
"""

from __future__ import annotations

import json
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fate_dp.privacy.ledger.policy import Policy

# What `fate-dp check` knows as well: what FATE's own client writes into a network's settings, and FATE's training arguments.
KNOWN = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "components", "disclosure", "fate_parameters.json"
)
with open(KNOWN, encoding="utf-8") as file:
    _known = json.load(file)
ITEMS: dict[str, list[str]] = _known["items"]
ARGUMENTS: dict[str, str] = _known["arguments"]
# Modules of FATE's own runners; the class is named by every job.
RUNNER = re.compile(r"fate\.components\.components\.nn\.runner\.(homo|hetero)_default_runner")
# Of TrainingArguments: FATE's runners put the task's own folder in their place, after they were read.
REPLACED = {"output_dir": "./", "logging_dir": None, "resume_from_checkpoint": None}
WORD = re.compile(r"\w[\w .+-]{0,99}")
CURE = "The operator can list MODULE:ITEM under model_modules in policy.yaml"

# Whose task this process runs; None where it runs none.
party: str | None = None


def policy_of(party_id: str) -> Policy | None:
    """The policy of a party of this machine; None where FATE-DP is not installed in this environment."""
    try:
        from fate_dp.privacy.ledger.policy import load_policy
        from fate_dp.privacy.private_files import POLICY_FILE, parties_folder, party_folder
    except ImportError:
        return None
    return load_policy(party_folder(parties_folder(), party_id) / POLICY_FILE)


def is_known(module: str, item: str) -> bool:
    return item in ITEMS.get(module, ()) or item == "DefaultRunner" and RUNNER.fullmatch(module) is not None


def check_names(module: object, item: object, party_id: str | None) -> None:
    named = isinstance(module, str) and isinstance(item, str)
    if named and is_known(str(module), str(item)):
        return
    policy = policy_of(party_id) if named and party_id is not None else None
    if policy is None or f"{module}:{item}" not in policy.model_modules.values():
        raise ValueError(
            f"module_name and item_name must be a layer or loss of torch.nn, an optimizer of torch.optim, load_seq or TableDataset of "
            f"FATE, as its client names them, got {module!r} and {item!r}. {CURE}."
        )


def load_classes_only(module: Any) -> None:
    """Let FATE's `Loader` import and give what a job may name."""
    load = module.Loader._load_item

    def _load_item(self) -> Any:
        check_names(self.module_name, self.item_name, party)
        return load(self)

    module.Loader._load_item = _load_item


def texts_in(value: object) -> list[object]:
    """What is no number in a value, the keys of mappings among it."""
    if isinstance(value, dict):
        return [text for each in value.values() for text in texts_in(each)] + [key for key in value if not is_word(key)]
    if isinstance(value, (list, tuple)):
        return [text for each in value for text in texts_in(each)]
    return [] if value is None or isinstance(value, (bool, int, float)) else [value]


def is_word(value: object) -> bool:
    return isinstance(value, str) and WORD.fullmatch(value) is not None


def take_numbers_only(module: Any) -> None:
    """Let FATE's `TrainingArguments` be made of numbers, and of words where only a word is meant."""
    import dataclasses

    settle = module._TrainingArguments.__post_init__

    def __post_init__(self) -> None:
        for name, own in REPLACED.items():
            setattr(self, name, own)
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            taken = ARGUMENTS.get(field.name)
            others = texts_in(value)
            if value == field.default or taken and (not others or taken == "words" and all(map(is_word, others))):
                continue
            kind = {"words": "a word", "numbers": "without texts"}.get(taken or "", "left out")
            raise ValueError(f"{field.name} of training_args_conf must be {kind}, got {value!r}.")
        settle(self)

    module._TrainingArguments.__post_init__ = __post_init__


def remember_party(module: Any) -> None:
    """Let `execute_component_from_config` tell whose policy holds in this process."""
    execute = module.execute_component_from_config

    def execute_component_from_config(config: Any, output_path: Any) -> None:
        global party
        party = config.party_id
        execute(config, output_path)

    module.execute_component_from_config = execute_component_from_config
