"""``fate-dp ledger --html``: a page of what was spent, and when."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
from datetime import datetime, timezone
from html import escape, unescape

import pytest
from ledger_scenarios import derive, release, score

from fate_dp.components.common.charges import columns_name
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.jobs.party_ledgers import all_ledgers
from fate_dp.pipelines.jobs.text_tables import epsilon_text
from fate_dp.pipelines.report import ledger_page
from fate_dp.privacy import Ledger
from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE, Event, Laplace, NotPrivate, PureDP
from fate_dp.privacy.ledger import history
from fate_dp.privacy.ledger.entries import JOINT_SCORES, BudgetCap
from fate_dp.privacy.ledger.policy import declare_caps, declare_source

COLUMNS = [f"x{number}" for number in range(12)]
UNNAMED = "columns:00000000000000aa"
DAY, FIRST = 86_400.0, 1_790_000_000.0
CREATED = datetime(2026, 11, 23, 18, tzinfo=timezone.utc)
CAP = BudgetCap(8, 1e-6)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ELEMENT = re.compile(r"<style>.*?</style>|<title>.*?</title>|<[^>]*>", re.DOTALL)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A guest with two label sources, a public one and flipback; a host with steps, scores and a dataset without name."""
    folder = tmp_path_factory.mktemp("home")
    for party in ("9999", "10000", "10001"):
        (folder / "parties" / f"party-{party}").mkdir(parents=True)
    guest, host = ledger_of(folder, "9999"), ledger_of(folder, "10000")
    policy = guest.path.with_name("policy.yaml")
    declare_source(policy, "bank/loans/y", cap=4)
    declare_source(policy, "bank/<b>cards&amp;/y")
    declare_source(policy, "bank/open/y", public=True)
    parent = release(guest, range(50), 2, source="bank/loans/y", job_id="job-flip").entry_id
    release(guest, range(50), 2, source="bank/loans/y", job_id="job-again")
    release(guest, range(30), 0.5, source="bank/loans/y", job_id="job-more")
    release(guest, range(90, 99), 1, source="bank/<b>cards&amp;/y", job_id="<script>alert(1)</script>")
    more = {"reason": "true <i>labels</i> of public data", "job_id": "job-public", "task_id": "task-public", "rows": 9}
    guest.record_not_private(source="bank/open/y", **more)
    derived = [(row, text) for row, text in flips_of(guest, parent)]
    derive(guest, parent, derived, job_id="job-derived")
    dataset = remember(host, COLUMNS, range(40), "bank/payments")
    remember(host, COLUMNS[:8], range(20), "bank/payments_2025")
    declare_caps(host.path.with_name("policy.yaml"), dataset, epsilon=3.0)
    score(host, "w1", dataset=dataset)
    score(host, "w2", dataset=dataset)
    score(host, "w1", dataset=dataset)
    step(host, dataset, PureDP(0.25), "first", count=2)
    step(host, dataset, PureDP(0.5), "second", relation=ADD_OR_REMOVE, observers=("model", "server"))
    step(host, UNNAMED, PureDP(0.125), "unnamed")
    step(host, UNNAMED, NotPrivate("exact counts"), "exact", cap=None)
    for ledger in (guest, host):
        set_times(ledger)
    return folder


@pytest.fixture(scope="module")
def page(template):
    return page_of(template)


@pytest.fixture
def home(template, tmp_path):
    """A copy, to be changed."""
    shutil.copytree(template / "parties", tmp_path / "parties")
    return tmp_path


def ledger_of(home, party):
    return Ledger(home / "parties" / f"party-{party}" / "ledger.sqlite")


def flips_of(ledger, entry):
    with sqlite3.connect(ledger.path) as connection:
        return connection.execute("SELECT id_tag, label FROM released_label WHERE entry_id = ?", (entry,)).fetchall()


def remember(ledger, columns, records, table):
    tags = [bytes([number]) * 16 for number in records]
    return ledger.remember_dataset(columns_name(columns), columns, records=tags, key_id="k", tables=[table])


def step(ledger, dataset, process, key, *, count=1, relation=REPLACE_ONE, observers=("model",), cap=CAP):
    names = {"release_key": key, "job_id": f"job-{key}", "task_id": f"task-{key}", "fingerprint": "f"}
    event = Event(process, "record", relation, observers)
    return ledger.record(dataset=dataset, event=event, count=count, cap=cap, **names)


def set_times(ledger, times=None):
    """A use a day, or at these times, in the order in which they were written."""
    with sqlite3.connect(ledger.path) as connection:
        releases = [number for (number,) in connection.execute("SELECT release_id FROM release ORDER BY 1")]
        for number, time in zip(releases, times or [FIRST + place * DAY for place in range(len(releases))]):
            connection.execute("UPDATE release SET time = ? WHERE release_id = ?", (time, number))
    connection.close()


def page_of(home, delta=1e-5):
    return ledger_page.ledger_html(ledger_page.spending(home / "parties", delta), delta, CREATED)


def section_of(page, party):
    start = page.index(f"<h2>Party {party}</h2>")
    return page[start : page.index("<h2>", start + 1)]


def text_of(page):
    """What a reader sees, cell by cell."""
    return " ".join(unescape(ELEMENT.sub(" ", page)).split())


def run(capsys, home, *arguments):
    status = main(["ledger", "--home", str(home), *map(str, arguments)])
    told = capsys.readouterr()
    return status, told.out, told.err


def test_the_command_writes_the_page_and_says_where(home, tmp_path, capsys):
    path = tmp_path / "ledger.html"
    assert run(capsys, home, "--html", path) == (0, f"Wrote {path} for the parties in {home / 'parties'}.\n", "")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    status, out, _ = run(capsys, home, "--html", path, "--json")
    assert status == 0 and json.loads(out) == all_ledgers(home / "parties", 1e-6)


def test_each_party_has_a_part_with_its_caps(page):
    guest, host = text_of(section_of(page, "9999")), text_of(section_of(page, "10000"))
    assert "bank/loans labels y, epsilon 2.5 4 1.5 0 declared 62.5 %" in guest
    assert "bank/<b>cards&amp; labels y, epsilon 1 8 7 0 default 12.5 %" in guest
    assert "bank/open labels y, epsilon 0 8 8 0 default 0.0 %" in guest
    # The step that was stated under add-or-remove counts twice under replace-one.
    assert re.search(r"bank/payments private steps, epsilon 1\.5\d* 3 1\.\d+ 1e-06 declared (49\.9|50\.0) %", host)
    assert "bank/payments models whose scores were shown 2 3 1 default 66.7 %" in host
    assert f"{UNNAMED} private steps, epsilon infinity 8 0 1e-06 default all" in host
    assert "Nothing was released: the party has no ledger yet." in text_of(section_of(page, "10001"))


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_totals_are_those_that_the_command_prints(home, delta):
    page, names = page_of(home, delta), {columns_name(COLUMNS): "bank/payments"}
    for party, content in all_ledgers(home / "parties", delta).items():
        told = text_of(section_of(page, party.removeprefix("party ")))
        for line in content["totals"]:
            view = f"{line['unit']} {line['relation']} {line['observer']}"
            told_epsilon = f"{epsilon_text(line['epsilon'])} {delta:g}"
            assert f"{names.get(line['dataset'], line['dataset'])} {view} {told_epsilon}" in told
        for line in content["budgets"]:
            view = (
                f"{line['unit']} {line['relation']} {line['observer']} {epsilon_text(line['epsilon'])} {line['cap']:g}"
            )
            assert f"{names.get(line['dataset'], line['dataset'])} {view}" in told
    assert f"at delta {delta:g}" in text_of(page)


def test_every_use_is_told_with_its_job_task_and_price(page, template):
    guest, host = text_of(section_of(page, "9999")), text_of(section_of(page, "10000"))
    again = "2026-09-22 14:13 bank/loans/y randomized_response 2 0 label replace_one Job job-again, task task, line 1"
    assert again in guest
    assert "post-processing 0 0 label replace_one Job job-derived, task task, line 5" in guest
    assert re.search(
        r"2026-09-24 14:13 bank/payments PureDP 0\.(5|49\d+) 1e-05 record replace_one Job job-first, task", host
    )
    assert (
        "task-second, line 3 of the ledger; against model, server; 1 round; counted towards a cap; not confirmed"
        in host
    )
    assert host.index("job-first") < host.index("job-second") < host.index("job-unnamed") < host.index("Job job-exact")
    uses = sum(len(ledger_of(template, party).uses(1e-5)) for party in ("9999", "10000"))
    assert f"in {uses} uses" in text_of(page) and page.count('class="explained"') == uses


def test_what_has_no_guarantee_is_told_apart(page):
    guest, host = text_of(section_of(page, "9999")), text_of(section_of(page, "10000"))
    public = "bank/open/y, not private, against arbiter, host, model: 1 use, the last in job job-public; no guarantee at all; public data, "
    assert public + "outside the cap; true <i>labels</i> of public data; outside the totals and caps." in guest
    assert "2026-09-25 14:13 bank/open/y not private infinity 0 label" in guest
    assert (
        f"{UNNAMED}, NotPrivate, against model: 1 use, the last in job job-exact; no guarantee at all: exact counts"
        in host
    )
    assert f"{UNNAMED}, record, replace_one, against everybody, model: no guarantee: exact counts." in host
    assert "bank/payments, joint scores, against guest: 3 uses, the last in job job;" in host
    # Three uses of joint scores, the exact counts and the true labels.
    assert re.search(r"5 uses without a guarantee", text_of(page))


def test_noise_on_the_labels_of_records_has_a_cap_and_a_picture_with_its_tables_name(home):
    """The account of a dataset's labels is no label source that a policy could declare."""
    ledger = ledger_of(home, "10000")
    noise = Event(Laplace(2.0), "label", REPLACE_ONE, ("model",))
    more = {"cap": CAP, "job_id": "j", "task_id": "t", "fingerprint": "f"}
    for dataset in (columns_name(COLUMNS), UNNAMED):
        ledger.record(dataset=f"labels of {dataset}", event=noise, release_key=dataset, **more)
    told = text_of(section_of(page_of(home), "10000"))
    assert "bank/payments labels, epsilon 0.5 3 2.5 0 declared" in told
    assert f"{UNNAMED} labels, epsilon 0.5 8 7.5 0 default" in told


def test_a_picture_for_each_cap_that_is_spent_has_a_title_and_the_cap(page):
    labels = [unescape(label) for label in re.findall(r'<svg role="img" aria-label="(.*?)"', page)]
    assert [unescape(title) for title in re.findall(r"<svg [^>]*><title>(.*?)</title>", page)] == labels
    told = "\n".join(labels)
    assert re.search(
        r"^bank/payments, bank/payments_2025: private steps, epsilon; 1\.5\d* of 3 spent at delta 1e-06", told
    )
    assert "bank/payments: models whose scores were shown; 2 of 3 spent, 1 left" in labels
    # A table of fewer columns has a smaller cap of its own.
    assert "bank/payments_2025: models whose scores were shown; 2 of 2 spent, 0 left" in labels
    assert f"{UNNAMED}: private steps, epsilon; without any bound, and beyond the cap of 8 at delta 1e-06" in labels
    assert "bank/loans: labels y, epsilon; 2.5 of 4 spent at delta 0, 1.5 left" in labels
    assert "bank/<b>cards&amp;: labels y, epsilon; 1 of 8 spent at delta 0, 7 left" in labels
    assert len(labels) == 6 and "cap 4" in page and page.count("no bound<") == 1
    ids = re.findall(r'\bid="(.*?)"', page)
    assert len(ids) == len(set(ids))


def test_names_with_markup_are_text(page):
    for markup in ("<b>cards", "<script", "<i>labels"):
        assert markup not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "bank/&lt;b&gt;cards&amp;amp;/y" in page


def test_tables_have_headings_and_nothing_is_fetched(page):
    assert page.count("<table") == page.count("<thead") and page.count("<th ") == page.count('scope="col"') > 0
    assert all("aria-label=" in table for table in re.findall(r"<table[^>]*>", page))
    levels = [int(level) for level in re.findall(r"<h([1-6])", page)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:]))
    assert not re.search(r"\b(src|href)=\"(?!#)|@import|url\((?!#)|<script|<link", page.replace("xlink:href", "href"))


def test_the_same_spending_gives_the_same_page(template, page):
    assert page_of(template) == page


def test_what_was_spent_ends_with_what_the_ledger_says(home):
    guest, host = ledger_of(home, "9999"), ledger_of(home, "10000")
    courses = [course for party in ledger_page.spending(home / "parties", 1e-5) for course in party.courses]
    assert all(course.points[-1].amount == course.line.spent for course in courses)
    labels = [(point.time, point.amount) for point in guest.label_spending("bank/loans/y")]
    # The second use of the first line costs nothing.
    assert labels == [(FIRST, 2.0), (FIRST + 2 * DAY, 2.5)]
    assert [point.amount for point in host.counts(columns_name(COLUMNS[:8]), JOINT_SCORES)] == [1, 2]
    steps = host.step_spending(columns_name(COLUMNS), 0.0)
    assert [point.amount for point in steps] == pytest.approx([0.5, 1.5]) and steps[0].time == FIRST + 3 * DAY


def test_noise_on_labels_adds_to_their_flips_along_time(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    noise = Event(Laplace(2.0), "label", REPLACE_ONE, ("host", "model"))
    more = {"cap": CAP, "task_id": "t", "fingerprint": "f"}
    release(ledger, range(9), 1, source="a/b/y")
    ledger.record(dataset="a/b/y", event=noise, release_key="n1", job_id="j", **more)
    release(ledger, range(9), 2, source="a/b/y")
    found = ledger.label_spending("a/b/y")
    assert [point.amount for point in found] == pytest.approx([1, 1.5, 3.5])
    assert found[-1].amount == ledger.spent_of_labels("a/b/y")


def test_an_earlier_amount_counts_records_that_came_later_and_is_never_too_small(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    release(ledger, range(5), 1, source="a/b/y")
    release(ledger, range(5, 9), 2, source="a/b/y")
    apart = [point.amount for point in ledger.label_spending("a/b/y")]
    release(ledger, range(5, 9), 1, source="a/b/y")
    assert apart == [1, 2] and [point.amount for point in ledger.label_spending("a/b/y")] == [1, 3]


def test_uses_stand_in_the_order_of_their_times(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for key, epsilon in (("late", 0.5), ("early", 0.25)):
        step(ledger, UNNAMED, PureDP(epsilon), key)
    set_times(ledger, [FIRST + DAY, FIRST])
    assert [use.use.job_id for use in ledger.uses(0.0)] == ["job-early", "job-late"]
    assert [point.amount for point in ledger.step_spending(UNNAMED, 0.0)] == pytest.approx([0.25, 0.75])


def test_of_many_steps_a_few_totals_are_composed_and_none_is_below_the_truth(tmp_path):
    ledger, most = Ledger(tmp_path / "ledger.sqlite"), history.MAX_POINTS
    for number in range(2 * most + 3):
        step(ledger, UNNAMED, PureDP(0.125), f"draw {number}")
    set_times(ledger)
    found = ledger.step_spending(UNNAMED, 0.0)
    assert len(found) == most and found[-1].amount == ledger.spent_by_steps(UNNAMED, 0.0)
    for number in range(2 * most + 3):
        drawn = [point.amount for point in found if point.time <= FIRST + number * DAY][-1]
        assert drawn >= 0.125 * (number + 1) - 1e-9


def test_a_source_whose_declaration_was_taken_back_still_shows_what_it_spent(home):
    (home / "parties" / "party-9999" / "policy.yaml").unlink()
    told = text_of(section_of(page_of(home), "9999"))
    assert "bank/loans labels y, epsilon 2.5 8 5.5 0 default" in told


def test_an_empty_ledger_gives_a_page_that_says_so(tmp_path, capsys):
    path = tmp_path / "parties" / "party-9999" / "ledger.sqlite"
    path.parent.mkdir(parents=True)
    assert Ledger(path).entries() == []
    assert run(capsys, tmp_path, "--html", tmp_path / "page.html")[0] == 0
    told = text_of((tmp_path / "page.html").read_text())
    assert "Party 9999: what was spent" in told and "Nothing was released: the ledger is empty." in told
    assert "The ledger holds no release" in told and "<svg" not in told


@pytest.mark.parametrize("party", [None, "9999"])
def test_without_any_ledger_no_page_is_written(tmp_path, capsys, party):
    if party:
        (tmp_path / "parties" / f"party-{party}").mkdir(parents=True)
    status, out, err = run(capsys, tmp_path, "--html", tmp_path / "page.html")
    assert (status, out) == (1, "") and err.startswith("No party has a ledger in ") and err.count("\n") == 1
    assert not (tmp_path / "page.html").exists()
    assert not list(tmp_path.rglob("ledger.sqlite"))


def test_a_ledger_of_a_later_version_is_refused_and_the_old_page_kept(home, tmp_path, capsys):
    path = tmp_path / "page.html"
    path.write_text("old")
    with sqlite3.connect(ledger_of(home, "9999").path) as connection:
        connection.execute("UPDATE ledger_version SET version = 99")
    connection.close()
    status, out, err = run(capsys, home, "--html", path)
    assert (status, out) == (1, "") and "has version 99" in err and err.count("\n") == 1
    assert path.read_text() == "old" and not list(tmp_path.glob(".page.html*"))


@pytest.mark.parametrize("name", ["missing/page.html", "folder"])
def test_a_file_that_cannot_be_written_is_refused_in_one_sentence(home, tmp_path, capsys, name):
    (tmp_path / "folder").mkdir()
    before = sorted(os.listdir(tmp_path))
    status, out, err = run(capsys, home, "--html", tmp_path / name)
    assert (status, out) == (1, "") and "could not be written" in err and err.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before


def test_no_page_takes_the_place_of_a_ledger(home, capsys):
    path = ledger_of(home, "9999").path
    before = path.read_bytes()
    status, _, err = run(capsys, home, "--html", path)
    assert status == 1 and "is among the keys and ledgers" in err and path.read_bytes() == before


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
def test_the_page_never_scrolls_sideways(home, tmp_path):
    """At 360 and at 1920 pixels, each as a frame of one page whose title tells how wide their contents are."""
    host = ledger_of(home, "10000")
    dataset = remember(host, COLUMNS[:5], range(90, 99), f"bank/{'long' * 30}")
    step(host, dataset, PureDP(0.01), "long" * 30)
    step(host, dataset, NotPrivate("long" * 30), "not private", cap=None)
    frames = "".join(
        f'<iframe srcdoc="{escape(page_of(home))}" style="width:{width}px;height:900px;border:0"></iframe>'
        for width in (360, 1920)
    )
    widths = "each.innerWidth, each.document.documentElement.scrollWidth"
    inner = (
        "[...each.document.querySelectorAll('.scroll')].filter(table => table.scrollWidth > table.clientWidth).length"
    )
    told = f"Array.from(frames, each => [{widths}, {inner}])"
    script = f"onload = () => document.title = JSON.stringify({told})"
    (tmp_path / "frames.html").write_text(f"<!doctype html><meta charset=utf-8><script>{script}</script>{frames}")
    flags = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--window-size=2000,2000",
    ]
    command = [
        CHROMIUM,
        *flags,
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
        f"file://{tmp_path}/frames.html",
    ]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    title = re.search(r"<title>(\[\[.*?\]\])</title>", found)
    assert title and json.loads(title[1]) == [[360, 360, 0], [1920, 1920, 0]]
