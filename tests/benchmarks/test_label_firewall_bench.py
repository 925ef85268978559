"""What the benchmark of hosts that read labels writes down, of readings that are made up."""

import json
from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest
import yaml

from bench import label_firewall
from bench.label_firewall import CASES, HEAD, Statement, write_transcripts
from bench.label_firewall_parties import UNREAD, Read


@pytest.mark.parametrize("found", [[0, 0, 1, 1], [UNREAD] * 4])
def test_statements_of_every_case_are_the_same_in_both_files(found, tmp_path, monkeypatch):
    monkeypatch.setattr(label_firewall, "TRANSCRIPTS", tmp_path / "out" / "transcripts.json")
    labels = np.array([0.0, 1.0, 1.0, 1.0])
    read = Read(np.array(found, dtype=float), labels, labels, {"enc_y": 1}, 0.1, 2.0)
    cases = [replace(case, share=attrgetter("share_of_true")) for case in CASES]
    write_transcripts([Statement(case, read) for case in cases], tmp_path / "recorded.yaml")
    text = (tmp_path / "recorded.yaml").read_text(encoding="utf-8")
    entries = yaml.safe_load(text)
    assert text.startswith(HEAD)
    # JSON has texts alone as keys.
    assert json.loads(json.dumps(entries)) == json.loads(
        (tmp_path / "out" / "transcripts.json").read_text(encoding="utf-8")
    )
    assert len(entries) == len(CASES) and {entry["share_read"] for entry in entries} == {0.75 if found[0] == 0 else 0.0}


def test_what_is_played_alone_leaves_the_other_entries_of_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(label_firewall, "TRANSCRIPTS", tmp_path / "transcripts.json")
    labels = np.array([0.0, 1.0])
    first, second = (Statement(case, Read(labels, labels, labels, {}, 0.1, 2.0)) for case in CASES[:2])
    for statements in ([second], [first]):
        write_transcripts(statements, tmp_path / "recorded.yaml")
    entries = yaml.safe_load((tmp_path / "recorded.yaml").read_text(encoding="utf-8"))
    assert [entry["key"] for entry in entries] == [case.figure for case in CASES[:2]]
