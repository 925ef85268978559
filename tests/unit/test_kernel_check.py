"""`make kernel-check` does not call green what it could not look at."""

import json

import pytest

from tests.kernels import builds, check
from tests.kernels.tally import Tally


def test_without_a_compiler_the_check_says_so_and_fails(monkeypatch, capsys):
    monkeypatch.setattr(builds.shutil, "which", lambda name: None)
    monkeypatch.setattr("sys.argv", ["check", "--quick"])
    assert check.main() == 2
    assert (
        capsys.readouterr().err == "The kernels were not checked: There is no C compiler; on Debian: apt install gcc.\n"
    )


@pytest.mark.parametrize(
    "reports, disagreements", [([], []), (["bound broken: a"], []), (["runtime error: a"], []), ([], ["a"])]
)
def test_one_report_or_one_disagreement_fails_the_check(monkeypatch, capsys, reports, disagreements):
    outcome = check.Outcome("installed", reports, ["all"], check.Counter(vectors=518), disagreements)
    monkeypatch.setattr(check.builds, "sanitizer_library", lambda: "")
    monkeypatch.setattr(check.Runs, "all", lambda self: [outcome])
    monkeypatch.setattr("sys.argv", ["check"])
    assert check.main() == int(bool(reports or disagreements))
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    assert figures["sanitizer_reports"] + figures["bounds_broken"] == len(reports)
    assert figures["disagreements"] == len(disagreements) and figures["vectors"] == 518


def test_a_result_that_is_short_or_differs_in_one_number_is_a_disagreement():
    tally = Tally()
    tally.same("a", 1, [1, 2], [1, 2])
    assert not tally.disagreements
    tally.same("a", 2, [1, 3], [1, 2])
    tally.same("a", 3, [1], [1, 2])
    assert len(tally.disagreements) == 2 and tally.counts["a"] == 6
