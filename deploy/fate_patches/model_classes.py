"""What a job may name where FATE's `homo_nn` and `hetero_nn` import and call by name: classes of networks, and nothing else.

FATE 2.2.0's `Loader` imports any module that a parameter names, or a model's description that was made of one, and calls what it
finds there with the parameter's arguments. Here it imports only the modules below, and gives only a class that is made in one of
them for what it is asked for: a module of torch, an optimizer, a dataset, a runner. A function is given for two reasons alone: FATE
itself writes a sequence of layers as a call of `load_seq`, which asks the `Loader` for each; and a party's operator may list a
function under `model_modules` in policy.yaml.

`TrainingArguments` of transformers, which runners fill from a parameter, take paths, addresses and names of services; here they take
numbers, and words where only a word is meant.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fate_dp.privacy.ledger.policy import Policy

# With all that lies below them.
MODULES = (
    *("torch.nn", "torch.optim"),
    *("fate.ml.nn.model_zoo", "fate.ml.nn.dataset", "fate.ml.nn.cust_func"),
    *("fate.components.components.nn.torch", "fate.components.components.nn.runner"),
)
SEQUENCE = "fate.components.components.nn.torch.base", "load_seq"
MODULE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
ITEM_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# Of TrainingArguments. FATE's runners put the task's own folder in place of the first three, after they were read.
REPLACED = {"output_dir": "./", "logging_dir": None, "resume_from_checkpoint": None}
WORDS = (
    *("lr_scheduler_type", "evaluation_strategy", "logging_strategy", "save_strategy", "optim", "label_names"),
    *("metric_for_best_model", "log_level", "log_level_replica", "half_precision_backend"),
)
WORD = re.compile(r"\w[\w .+-]{0,99}")
CURE = "The operator can list a function of it under model_modules in policy.yaml"

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


def is_within(module: object) -> bool:
    return isinstance(module, str) and any(module == each or module.startswith(f"{each}.") for each in MODULES)


def check_names(module: object, item: object, party_id: str | None) -> bool:
    """Refuse what no job may import; returns whether the party's policy names exactly this item."""
    fine = isinstance(module, str) and isinstance(item, str)
    if not fine or not MODULE_NAME.fullmatch(str(module)) or not ITEM_NAME.fullmatch(str(item)):
        raise ValueError(f"module_name and item_name must be a module and a name in it, got {module!r} and {item!r}.")
    if is_within(module):
        return False
    policy = None if party_id is None else policy_of(party_id)
    if policy is None or f"{module}:{item}" not in policy.model_modules.values():
        raise ValueError(f"module_name must be one of {', '.join(MODULES)}, got {module!r}. {CURE}.")
    return True


def check_item(found: object, module: str, item: str) -> None:
    """Refuse what a module holds beside the classes that are its own."""
    import torch
    from fate.components.components.nn.nn_runner import NNRunner

    kinds = (torch.nn.Module, torch.optim.Optimizer, torch.utils.data.Dataset, NNRunner)
    if (module, item) == SEQUENCE:
        return
    if not isinstance(found, type) or not issubclass(found, kinds) or not is_within(found.__module__):
        raise ValueError(
            f"item_name must be a class of networks, optimizers, datasets or runners that {module} has, got {item!r}."
        )


def load_classes_only(module: Any) -> None:
    """Let FATE's `Loader` import and give what a job may name."""
    load = module.Loader._load_item

    def _load_item(self) -> Any:
        is_listed = check_names(self.module_name, self.item_name, party)
        found = load(self)
        if not is_listed:
            check_item(found, self.module_name, self.item_name)
        return found

    module.Loader._load_item = _load_item


def is_numbers(value: object) -> bool:
    """Whether a value holds no text but the keys of mappings."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and WORD.fullmatch(key) and is_numbers(each) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(is_numbers, value))
    return value is None or isinstance(value, (bool, int, float))


def is_words(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(is_words, value))
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
            if value == field.default or is_numbers(value) or field.name in WORDS and is_words(value):
                continue
            kind = "a word" if field.name in WORDS else "without texts"
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
