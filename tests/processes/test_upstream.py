"""The scripts of docs/upstream.md show on the installed FATE what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "docs" / "upstream"
FATE_PATCHES = ROOT / "deploy" / "fate_patches"

SAID = {
    "message_runs_a_command": [
        "safety.serdes.federation.restricted_type: restricted",
        "a message ran this command",
        "a second message ran this command",
    ],
    "table_value_runs_a_command": ["a table value ran this command", "a large message ran this command"],
    "unblinded_ciphertexts": [
        "SSHE-LR, decrypted without a key: 3",
        "CoordinatedLR, two ciphertexts of one number are equal: True",
    ],
    "binning_shows_labels": [
        "different ciphertexts: 2",
        "labels that the host reads: [0, 1, 1, 0, 1, 0, 0, 1]",
        "labels of the guest:        [0, 1, 1, 0, 1, 0, 0, 1]",
    ],
    "stratified_split_shows_labels": ["labels that the host reads of 160 rows: 1.000"],
    "classes_of_a_label_with_an_underscore": [
        "y is taken",
        "loan_status ends in ValueError - invalid literal for int() with base 10: 'status'",
        "flag_1_of_2 ends in AssertionError - binary classification task should have 2 unique label, but got {1}",
    ],
    "refused_queue": [
        "the queue was made: False",
        "no error was raised: what is sent to this queue is lost, and the other party waits for ever",
    ],
    "collected_in_a_transaction": ["3 seconds later it still waits for a lock that it holds"],
}


def run(script, *path):
    """What a script prints, with these folders on its path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run(
        [sys.executable, "-W", "ignore", f"{script}.py"],
        cwd=SCRIPTS,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture
def pika(tmp_path):
    """FATE's client of RabbitMQ, which only clusters need and the script does not use, is not installed everywhere."""
    (tmp_path / "pika.py").touch()
    return tmp_path


@pytest.mark.parametrize("script", SAID)
def test_a_script_shows_it(script, pika):
    done = run(script, pika)
    assert done.stdout.splitlines() == SAID[script], done.stderr


@pytest.mark.parametrize("script", ["message_runs_a_command", "table_value_runs_a_command"])
def test_the_fence_stops_it(script):
    done = run(script, FATE_PATCHES)
    assert done.returncode != 0 and "FATE-DP's fence" in done.stderr and "ran this command" not in done.stdout


def test_a_queue_is_asked_for_again_by_our_servers(pika):
    text = (SCRIPTS / "refused_queue.py").read_text()
    text = text.replace("server = http", "import fate_faults\nfate_faults.PATIENCE_SECONDS = 0.2\nserver = http", 1)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (FATE_PATCHES, pika)))},
    )
    assert "did not make the queue send-queue" in done.stderr


def test_no_table_is_collected_in_a_transaction_by_our_servers():
    # Three seconds tell a lock that is never released; a slow disk may take as long to note a table.
    text = (
        (SCRIPTS / "collected_in_a_transaction.py").read_text().replace("threading.Timer(3,", "threading.Timer(300,", 1)
    )
    assert "Timer(300," in text
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(FATE_PATCHES)},
    )
    assert done.stdout.splitlines() == ["it was noted"], done.stderr


def test_the_page_names_every_script_and_none_that_is_not_there():
    page = (ROOT / "docs" / "upstream.md").read_text(encoding="utf-8")
    there = {path.stem for path in SCRIPTS.glob("*.py")} - {"own_context"}
    assert set(re.findall(r"`(\w+)\.py` \|", page)) == set(SAID) == there
