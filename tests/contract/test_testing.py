"""fate_dp.testing does what docs/testing.md says, and the guide's component declares what ours must."""

import io
import logging
import os
import pdb
import re
import sys
from pathlib import Path

import pytest

from fate_dp.components.common.wire.kinds import Int
from fate_dp.pipelines.report.guarantees import component_guarantee
from fate_dp.testing import FileWritten, LogLine, Sentence, Silence, play

from .cases import GUEST, HOST
from .installed import FILES, TEMPLATE

ROOT = Path(__file__).parents[2]
MESSAGES = {"number": Int(64)}


def test_the_code_of_the_page_runs(monkeypatch, tmp_path):
    page = (ROOT / "docs" / "testing.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))
    exec(compile(code, "docs/testing.md", "exec"), {})


def test_a_debugger_stops_in_the_component_while_the_others_wait(monkeypatch, tmp_path):
    told, said = [], io.StringIO()

    def step(ctx):
        if ctx.is_on_guest:
            secret = 41
            breakpoint()
            ctx.hosts[0].put("number", secret)
        else:
            told.append(ctx.guest.get("number"))
        return os.getpid()

    def debugger():
        typed = io.StringIO("p secret, told\nsecret = 42\nc\n")
        pdb.Pdb(stdin=typed, stdout=said, nosigint=True, readrc=False).set_trace(sys._getframe(1))

    monkeypatch.setattr(sys, "breakpointhook", debugger)
    played = play(step, [GUEST, HOST], tmp_path, messages=MESSAGES).check()
    assert "(41, [])" in said.getvalue() and told == [42]
    assert set(played.values.values()) == {os.getpid()}


def test_files_log_lines_and_sentences_are_recorded_with_whose_they_are(tmp_path):
    def step(ctx):
        if ctx.is_on_guest:
            Path(tmp_path, "draft").write_text("x")
            Path(tmp_path, "draft").rename(tmp_path / "kept")
            Path(tmp_path, "kept").read_text()
            logging.getLogger("fate_dp.some.component").info("%d rows", 3)
            raise ValueError("row 17 holds 0.4711")
        ctx.guest.get("number")

    played = play(step, [GUEST, HOST], tmp_path / "home", messages=MESSAGES)
    assert [Path(each.path).name for each in played.timeline.of(FileWritten, GUEST)] == ["draft", "kept"]
    assert [(each.level, each.text) for each in played.timeline.of(LogLine, GUEST)] == [("INFO", "3 rows")]
    (sentence,) = played.timeline.of(Sentence, GUEST)
    assert (
        sentence.text == str(played.errors[HOST]) and "(ValueError)" in sentence.text and "0.4711" not in sentence.text
    )


def test_a_play_ends_where_all_wait_for_ever(tmp_path):
    def step(ctx):
        (ctx.hosts[0] if ctx.is_on_guest else ctx.guest).get("number")

    errors = play(step, [GUEST, HOST], tmp_path, messages=MESSAGES).errors
    assert {type(each) for each in errors.values()} == {Silence}
    with pytest.raises(Silence, match="which never comes"):
        raise errors[GUEST]


def test_the_guarantee_of_the_guides_component_is_whole(tmp_path):
    path = tmp_path / TEMPLATE / "guarantee.yaml"
    path.parent.mkdir()
    path.write_text(FILES[f"components/{TEMPLATE}/guarantee.yaml"])
    declared = component_guarantee(TEMPLATE, tmp_path)
    assert declared.promises and declared.disclosure.shows
