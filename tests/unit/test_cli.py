"""The command line says in one sentence what it refuses, and its help names every command."""

import argparse
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module

import pytest

from fate_dp.pipelines.cli.console import declared
from fate_dp.pipelines.cli.main import main, parser


def test_help_names_every_command_in_a_group_with_an_example_that_parses(capsys):
    commands = next(each for each in parser()._actions if each.choices).choices
    examples = {name: told["example"] for group in declared()["commands"].values() for name, told in group.items()}
    assert commands.keys() == examples.keys() and len(commands) > 20
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for name, command in commands.items():
        assert f"  {name} " in text and f"fate-dp {examples[name]}\n" in text and "Example:" in command.format_help()
        assert parser().parse_args(shlex.split(examples[name])).run


def test_what_the_help_says_of_every_flag_is_what_holds():
    """A default in brackets is that of the dataclass, or constant, that the command fills."""
    from fate_dp.components.dp_homo_gbdt import settings as homo_gbdt
    from fate_dp.components.dp_homo_nn import settings as homo_nn
    from fate_dp.data_prep.lending_club.options import PrepOptions
    from fate_dp.pipelines.cli.plan import LinkRequest
    from fate_dp.pipelines.jobs.plan import LabelPlanRequest, TrainingPlanRequest
    from fate_dp.pipelines.jobs.scorecard_plan import CardRequest
    from fate_dp.privacy.validation import DEFAULT_DELTA

    filled = {
        "plan labels": LabelPlanRequest,
        "plan training": TrainingPlanRequest,
        "plan homo-nn": homo_nn.TrainSettings,
        "plan homo-gbdt": homo_gbdt.TrainSettings,
        "plan hetero-lr": LinkRequest,
        "plan scorecard": CardRequest,
        "prep lending-club": PrepOptions,
    }
    told = 0
    for name, command in _all_commands(parser()).items():
        defaults = vars(filled[name]) if name in filled else {}
        for action in command._actions:
            said = re.search(r"\(([^() ]+)\)$", action.help or "")
            known = defaults.get(action.dest) if action.default is None else action.default
            if said and isinstance(known, (int, float, str)) and not isinstance(known, bool) and "/" not in said[1]:
                assert said[1] in (str(known), f"{known:g}" if isinstance(known, float) else ""), (name, action.dest)
                told += 1
            if action.dest == "delta" and action.default is not None:
                assert action.default == DEFAULT_DELTA
    assert told > 30


def test_every_command_names_a_function_that_is_there():
    for command in _all_commands(parser()).values():
        module, _, function = command._defaults["run"].args[0].partition(".")
        assert callable(getattr(import_module(f"fate_dp.pipelines.cli.{module}"), function))


def _all_commands(top, name=""):
    kinds = next((each.choices for each in top._actions if isinstance(each, argparse._SubParsersAction)), None)
    if kinds is None:
        return {name.strip(): top}
    return {
        full: each for kind, inner in kinds.items() for full, each in _all_commands(inner, f"{name} {kind}").items()
    }


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["declare", "bank/loans"], "must be namespace/name/column"),
        (["declare", "bank/loans/y", "--cap", "-1"], "cap"),
        (["upload", "missing.csv", "bank"], "must be NAMESPACE/NAME"),
        (["upload", "missing.csv", "bank/loans"], "No FATE-Flow was started"),
        (["demo", "--flow", "nowhere"], "is not an address"),
    ],
)
def test_a_refusal_is_one_sentence_and_exit_status_1(arguments, sentence, tmp_path, capsys):
    assert main([*arguments, "--home", str(tmp_path / "home")]) == 1
    output = capsys.readouterr()
    assert sentence in output.err and output.err.count("\n") == 1 and "Traceback" not in output.err


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    program = "import sys; from fate_dp.pipelines.cli.main import main; sys.exit(main(sys.argv[1:]))"
    with subprocess.Popen(
        [sys.executable, "-c", program, "ledger", "--home", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        run.stdout.close()
        assert run.wait(600) == 1 and run.stderr.read() == ""


def test_a_home_that_the_locale_cannot_spell_is_printed_byte_by_byte(tmp_path):
    home = os.fsencode(tmp_path) + "/家 \N{ROCKET}".encode()
    environment = os.environ | {"PYTHONUTF8": "0", "PYTHONIOENCODING": "gbk", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    program = "import sys; from fate_dp.pipelines.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "declare", "bank/loans/y", "--home", home]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert home in done.stdout and not done.stderr


def test_a_declared_source_is_in_the_policy_of_its_party(tmp_path, capsys):
    from fate_dp.privacy.ledger.policy import load_policy

    assert main(["declare", "bank/loans/y", "--cap", "3", "--home", str(tmp_path)]) == 0
    policy = load_policy(tmp_path / "parties" / "party-9999" / "policy.yaml")
    assert policy.is_declared("bank/loans/y") and policy.label_cap("bank/loans/y") == 3


def test_a_source_is_declared_with_what_its_table_is_like(tmp_path):
    from fate_dp.privacy.ledger.policy import load_policy

    given = ["declare", "bank/loans/y", "--columns", "age, income", "--records", "300", "--home", str(tmp_path)]
    assert main(given) == 0
    policy = load_policy(tmp_path / "parties" / "party-9999" / "policy.yaml")
    assert policy.source("bank/loans/y").columns == {"age", "income"} and policy.source("bank/loans/y").records == 300


def test_a_table_has_caps_before_its_first_job_whatever_columns_are_left_in_it(tmp_path, capsys):
    from fate_dp.components.common.charges import columns_name
    from fate_dp.privacy import BudgetCap, Ledger
    from fate_dp.privacy.labels.flips import record_tags
    from fate_dp.privacy.ledger.policy import load_policy
    from fate_dp.privacy.private_files import key_id, load_or_create_key

    table = tmp_path / "loans.csv"
    table.write_text("loan,y,a,b\n07,0,1.5,2\n8,1,0.5,1\n")
    given = ["declare-table", str(table), "--label", "y", "--epsilon", "1", "--scores", "0", "--home", str(tmp_path)]
    assert main([*given, "--id", "id"]) == 1 and "has no id column 'id'" in capsys.readouterr().err
    assert main([*given, "--id", "loan"]) == 0
    name, home = columns_name(["b", "a"]), tmp_path / "parties" / "party-9999"
    policy, ledger, key = (
        load_policy(home / "policy.yaml"),
        Ledger(home / "ledger.sqlite"),
        load_or_create_key(home / "flip.key"),
    )
    assert policy.dataset_cap(name) == BudgetCap(1.0, 1e-6) and policy.score_cap(name, 40) == 0
    part = ledger.remember_dataset("columns:b", ["b"], records=record_tags(["07"], key, "records"), key_id=key_id(key))
    assert (
        ledger.related(part) == sorted([name, part]) and policy.dataset_cap(part, ledger.related(part)).epsilon == 1.0
    )


def test_public_labels_are_declared_from_their_file(tmp_path, capsys):
    from fate_dp.privacy import Ledger
    from fate_dp.privacy.labels.flips import record_tags
    from fate_dp.privacy.private_files import key_id, load_or_create_key

    table = tmp_path / "loans.csv"
    table.write_text("id,y,x\na,0,1.5\nb,1,0.5\n")
    assert main(["declare", "bank/loans/y", "--public", str(table), "--home", str(tmp_path)]) == 0
    home = tmp_path / "parties" / "party-9999"
    key = load_or_create_key(home / "flip.key")
    rows = list(zip(record_tags(["a", "b"], key, "bank/loans/y"), "01"))
    assert Ledger(home / "ledger.sqlite").are_public(rows, source="bank/loans/y", key_id=key_id(key))
