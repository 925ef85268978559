"""Every block of README, tutorial and how-tos says what it is, parses, and builds what it shows; `make walk` runs them."""

import ast
import re
import shlex

import pytest
import yaml

from fate_dp.pipelines.cli.main import parser
from fate_dp.privacy.ledger.policy import load_policy
from tests.support.page_blocks import COMMANDS, PAGES, POLICY, PYTHON, SHOWN, blocks

RUNS_A_JOB = re.compile(r"run_job\(|get_task_info\(")
NUMBERS = {"JOB_ID": "202611231541562323910", "PORT": "9380"}
IDS = [page.stem for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_block_says_what_it_is_and_every_command_parses(page, tmp_path):
    for block in blocks(page):
        assert block.language in (COMMANDS, PYTHON, POLICY, SHOWN), f"{page.name}:{block.line}"
        if block.language == PYTHON:
            ast.parse(block.text)
        elif block.language == POLICY:
            (tmp_path / "policy.yaml").write_text(block.text)
            assert yaml.safe_load(block.text)
            load_policy(tmp_path / "policy.yaml")
        for command in block.commands if block.language == COMMANDS else []:
            for word, number in NUMBERS.items():
                command = command.replace(word, number)
            for each in command.split("&&"):
                program, *arguments = shlex.split(each)
                if program.rpartition("/")[2] == "fate-dp":
                    parser().parse_args(arguments)
                else:
                    assert program in ("make", ".venv/bin/python", ".venv/bin/flow", "pip", "python"), command


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_what_a_page_builds_is_built(page):
    """All but what runs a job or reads one."""
    names = {}
    for block in blocks(page):
        if block.language == PYTHON and page.stem not in ("privacy-core", "scorecard"):
            if RUNS_A_JOB.search(block.text):
                block_text = "\n".join(line for line in block.text.splitlines() if not RUNS_A_JOB.search(line))
                names["result"] = None
                exec(compile(block_text.replace("print(result.job_id)", ""), str(page), "exec"), names)
            else:
                exec(compile(block.text, str(page), "exec"), names)
    if "pipeline" in names:
        names["pipeline"].compile()
