"""Every statement of who learns what is at least as strong as what recorded runs showed, and names one of them or a test."""

import ast
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import yaml

from fate_dp.components.disclosure.declaration import EVERY, NOTHING, SOME, SUMS, catalogue, check, disclosure_of, fits
from fate_dp.components.disclosure.tracing import flat
from fate_dp.pipelines.report.guarantees import component_names
from fate_dp.privacy.validation import InvalidArgument

ROOT = Path(__file__).parents[2]
TRANSCRIPTS = {
    entry["key"]: entry for entry in yaml.safe_load((ROOT / "tests/check/transcripts.yaml").read_text(encoding="utf-8"))
}
STRENGTH = (NOTHING, SUMS, SOME, EVERY)
NAMES = (*catalogue(), *component_names())
CELLS = [(name, number) for name in NAMES for number in range(len(disclosure_of(name).shows))]
READ_OF_EVERY_ROW = 0.98
"""Starts are random: of 1,000 labels runs have missed up to 13."""


@cache
def functions_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def strength(learns: str) -> int:
    return STRENGTH.index(learns)


def settings_of(entry: dict) -> dict:
    declared = disclosure_of(entry["component"]).settings
    return {**declared, **flat(entry["settings"], declared)}


def speaks_of(shown, entry: dict) -> bool:
    """Whether a statement is about what was recorded: asset, parties, stage and settings."""
    return (
        shown.what == entry["what"]
        # A recorded observer had one role.
        and not shown.also
        and entry["owner"] in shown.of
        and entry["observer"] in shown.to
        and (not shown.stages or entry["stage"] in shown.stages)
        and fits(shown.when, settings_of(entry))
    )


def milder(shown, entries: dict[str, dict]) -> list[str]:
    """Keys of transcripts that a statement cites and is milder than."""
    cited = [entries[place.partition(":")[2]] for place in shown.evidence if place.startswith("transcript:")]
    return [entry["key"] for entry in cited if strength(shown.learns) < strength(entry["learns"])]


@pytest.mark.parametrize("name, number", CELLS)
def test_every_cell_agrees_with_its_evidence(name, number):
    shown = disclosure_of(name).shows[number]
    for place in shown.evidence:
        if place.startswith("transcript:"):
            entry = TRANSCRIPTS[place.partition(":")[2]]
            assert entry["component"] == name and speaks_of(shown, entry), place
        elif place.startswith("tests/"):
            path, _, called = place.partition("::")
            assert called in functions_in(path), f"{place} is not there"
    assert not milder(shown, TRANSCRIPTS)
    shown_as = {TRANSCRIPTS[place[11:]]["learns"] for place in shown.evidence if place.startswith("transcript:")}
    assert not shown_as or shown.learns in shown_as, "No transcript shows as much."


@pytest.mark.parametrize(
    "key", [key for key, entry in TRANSCRIPTS.items() if strength(entry["learns"]) > strength(NOTHING)]
)
def test_whatever_a_recorded_run_showed_the_catalogue_says(key):
    entry = TRANSCRIPTS[key]
    told = [shown.learns for shown in disclosure_of(entry["component"]).shows if speaks_of(shown, entry)]
    assert any(strength(learns) >= strength(entry["learns"]) for learns in told)


@pytest.mark.parametrize("key", TRANSCRIPTS)
def test_a_transcript_calls_what_was_read_by_its_share(key):
    entry = TRANSCRIPTS[key]
    if entry["learns"] in (SUMS, NOTHING):
        assert entry["share_read"] == 0
    elif entry["what"] == "labels" and entry["share_read"] >= READ_OF_EVERY_ROW:
        # Which rows are sampled is a relation of each, no label.
        assert entry["learns"] == EVERY or entry["method"] == "sampled_rows"
    else:
        assert entry["share_read"] > 0 if entry["learns"] == SOME else entry["share_read"] >= READ_OF_EVERY_ROW


def test_a_cell_that_is_milder_than_its_transcript_is_found():
    shown = disclosure_of("coordinated_linr").shows[0]
    assert milder(replace(shown, learns=SOME), TRANSCRIPTS) and not milder(shown, TRANSCRIPTS)


def test_a_statement_without_a_transcript_or_a_test_is_refused():
    found = disclosure_of("psi")
    bare = replace(found, shows=(replace(found.shows[0], evidence=("ml/x.py:1", "components/x.py::Class")),))
    with pytest.raises(InvalidArgument, match="evidence in psi.yaml must be a list with a transcript:KEY"):
        check(bare, "psi", "psi.yaml")


def test_the_stock_defaults_of_linear_regression_show_every_label():
    assert TRANSCRIPTS["linr_share_read"]["settings"] == {} and TRANSCRIPTS["linr_share_read"]["share_read"] == 1.0
