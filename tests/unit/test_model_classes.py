"""What a job can have FATE's homo_nn and hetero_nn import and call."""

import re
import types

import pytest
import torch
from fate.components.components.nn import loader, nn_runner
from fate.components.components.nn.runner import homo_default_runner
from fate.ml.nn.dataset.table import TableDataset
from fate.ml.nn.trainer import trainer_base

from fate_dp.deploy.fate_patches import model_classes
from fate_dp.privacy.private_files import HOME_VARIABLE

FATES = "fate.components.components.nn"
LINEAR = {"module_name": "torch.nn", "item_name": "Linear", "kwargs": {"in_features": 3, "out_features": 1}}


@pytest.fixture(autouse=True)
def guarded(monkeypatch, tmp_path):
    """FATE's modules as they are in a task of party 10000."""
    monkeypatch.setattr(loader.Loader, "_load_item", loader.Loader._load_item)
    arguments = trainer_base._TrainingArguments
    monkeypatch.setattr(arguments, "__post_init__", arguments.__post_init__)
    model_classes.load_classes_only(loader)
    model_classes.take_numbers_only(trainer_base)
    monkeypatch.setattr(model_classes, "party", "10000")
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))


def load(module, item, **arguments):
    return nn_runner.loader_load_from_conf({"module_name": module, "item_name": item, "kwargs": arguments})


def test_what_networks_are_made_of_is_given():
    assert type(load("torch.nn", "Linear", in_features=3, out_features=1)) is torch.nn.Linear
    assert type(load("torch.nn", "BCELoss")) is torch.nn.BCELoss
    assert type(load("fate.ml.nn.dataset.table", "TableDataset", to_tensor=True)) is TableDataset
    optimizer = {"module_name": "torch.optim", "item_name": "SGD", "kwargs": {"lr": 0.1}}
    assert nn_runner.loader_load_from_conf(optimizer, return_class=True) is torch.optim.SGD
    runner = loader.Loader(f"{FATES}.runner.homo_default_runner", "DefaultRunner")()
    assert type(runner) is homo_default_runner.DefaultRunner
    layers = load(f"{FATES}.torch.base", "load_seq", seq_conf={"0": LINEAR, "1": LINEAR})
    assert [type(each) for each in layers] == [torch.nn.Linear] * 2


@pytest.mark.parametrize(
    ("module", "item"),
    [
        ("subprocess", "call"),
        ("builtins", "print"),
        ("os.path", "join"),
        ("torch", "load"),
        ("torch.hub", "load"),
        ("torchvision.models", "resnet18"),
        ("transformers", "AutoModel"),
        ("fate.ml.nn.trainer.trainer_base", "os"),
        ("fate.components.components.nn.hook_code.extract_torch_modules", "Required"),
        ("fate_llm.runner.default", "Runner"),
        ("torch.nnx", "Linear"),
        ("tests.protocol.homo_nn_parties", "small_net"),
        ("torch.nn.modules.module", "functools"),
        ("torch.nn.modules.module", "warnings"),
        ("torch.nn.modules.module", "OrderedDict"),
        ("torch.nn", "functional"),
        ("torch.nn", "Parameter"),
        ("torch.nn.init", "normal_"),
        ("torch.nn.utils", "clip_grad_norm_"),
        ("torch.optim.lr_scheduler", "LambdaLR"),
        ("torch.nn.quantized", "Linear"),
        ("fate.ml.nn.dataset.table", "pd"),
        (f"{FATES}.torch.base", "convert_tuples_to_lists"),
        (f"{FATES}.torch.base", "Loader"),
        (f"{FATES}.runner.homo_default_runner", "Loader"),
        (f"{FATES}.runner.homo_default_runner", "loader_load_from_conf"),
        (f"{FATES}.runner.homo_default_runner", "load_model_dict_from_path"),
        (f"{FATES}.runner.homo_default_runner", "FedAVG"),
        (f"{FATES}.runner.another", "DefaultRunner"),
        ("fate.ml.nn.model_zoo.hetero_nn_model", "HeteroNNModelGuest"),
        ("torch.nn.parallel", "DistributedDataParallel"),
        ("torch.nn.modules.linear", "Linear"),
        ("torch.nn\n", "Linear"),
        (None, "Linear"),
        ("torch.nn", 7),
    ],
)
def test_what_networks_are_not_made_of_is_not_even_imported(module, item, monkeypatch):
    monkeypatch.setattr(loader.importlib.util, "find_spec", lambda name: pytest.fail(f"{name} was looked for"))
    refused = (
        rf"^module_name and item_name must be a layer .*, got {re.escape(repr(module))} and {item!r}\. The operator"
    )
    with pytest.raises(ValueError, match=refused):
        load(module, item)


def test_layers_of_a_sequence_are_looked_at_each():
    with pytest.raises(ValueError, match="got 'os.path'"):
        load(
            f"{FATES}.torch.base",
            "load_seq",
            seq_conf={"0": LINEAR, "1": {"module_name": "os.path", "item_name": "join"}},
        )


def test_a_runner_is_a_class_though_the_job_names_a_function():
    inner = {"conf": {"module_name": "builtins", "item_name": "print", "source": None, "kwargs": {}}}
    with pytest.raises(ValueError, match="and 'loader_load_from_conf'"):
        loader.Loader(f"{FATES}.runner.homo_default_runner", "loader_load_from_conf", **inner)()


def test_exactly_what_the_operator_lists_is_given_and_to_that_party_alone(tmp_path, monkeypatch):
    policy = tmp_path / "party-10000" / "policy.yaml"
    policy.parent.mkdir()
    policy.write_text("model_modules: {path: 'os.path:join'}")
    assert load("os.path", "join", a="x") == "x"
    with pytest.raises(ValueError, match="^module_name and item_name must be"):
        load("os.path", "exists", path="x")
    monkeypatch.setattr(model_classes, "party", "9999")
    with pytest.raises(ValueError, match="^module_name and item_name must be"):
        load("os.path", "join", a="x")


def test_training_arguments_of_honest_jobs_are_taken(tmp_path):
    given = {
        "num_train_epochs": 2,
        "per_device_train_batch_size": 64,
        "lr_scheduler_type": "cosine",
        "evaluation_strategy": "epoch",
        "label_names": ["y"],
        "optim": "adamw_torch",
        "full_determinism": False,
    }
    arguments = trainer_base.TrainingArguments(**given)
    assert (arguments.num_train_epochs, arguments.lr_scheduler_type) == (2, "cosine")
    replaced = trainer_base.TrainingArguments(**given, logging_dir=str(tmp_path), resume_from_checkpoint=str(tmp_path))
    assert str(tmp_path) not in str(replaced.to_dict())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("deepspeed", "/etc/passwd"),
        ("deepspeed", {"aio": {"path": "/tmp"}}),
        ("fsdp_config", "conf.json"),
        ("report_to", "wandb"),
        ("report_to", ["mlflow"]),
        ("push_to_hub_token", "token"),
        ("torch_compile_backend", "inductor"),
        ("optim_args", "a=b"),
        ("run_name", "http://other"),
        ("lr_scheduler_type", "../x"),
        ("label_names", ["/etc/passwd"]),
        ("hub_always_push", True),
    ],
)
def test_training_arguments_name_no_paths_and_no_services(name, value):
    with pytest.raises(ValueError, match=f"^{name} of training_args_conf must be .*, got "):
        trainer_base.TrainingArguments(**{name: value})


def test_a_task_tells_whose_policy_holds():
    seen = []
    told = types.SimpleNamespace(execute_component_from_config=lambda config, output: seen.append(model_classes.party))
    model_classes.remember_party(told)
    told.execute_component_from_config(types.SimpleNamespace(party_id="9998"), "output")
    assert seen == ["9998"]
