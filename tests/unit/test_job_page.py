"""The page of a job's report: hostile names, the picture of the DAG, screens of all widths, and noise of every mechanism."""

import json
import math
import re
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.pipelines.jobs.text_tables import ESTIMATED
from fate_dp.pipelines.report.dag_picture import BOX_HEIGHT, Box, Layout, dag_svg
from fate_dp.pipelines.report.job_documents import document_text
from fate_dp.pipelines.report.job_facts import SCHEMA, DagTask, Figure, JobReport, Learned, PartyPart, TaskRun
from fate_dp.pipelines.report.job_ledger import Cap, LedgerLine, PartyLedger, Told
from fate_dp.pipelines.report.job_noise import ACTS, MEASURES, noise_of
from fate_dp.pipelines.report.job_page import Matrix, notes_of, report_html, summary, write_report
from fate_dp.privacy.events import PROCESS_NAMES
from tests.board.browser import Browser, missing_program

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{7*7}}"
SVG_NAMESPACES = ('xmlns="http://www.w3.org/2000/svg"', 'xmlns:xlink="http://www.w3.org/1999/xlink"')
WIDTHS = (360, 768, 1280, 1920)
SECONDS = 10


def line(mechanism="randomized_response", parameters=None, **more):
    fields = {
        "entry_id": 3,
        "source": "loans/guest/y",
        "unit": "label",
        "relation": "replace_one",
        "observer": "arbiter, host, model",
        "epsilon": 1.0,
        "delta": 0.0,
        "rounds": 1,
        "records": 1000,
        "uses": 1,
        "pending": 1,
        "counted": True,
        "note": "one memoised draw per record",
    }
    parameters = {"classes": 2, "keep_probability": 0.73} if parameters is None else parameters
    return LedgerLine(**{**fields, "mechanism": mechanism, "parameters": parameters, **more})


def report_of(name="train_0", leaks=False, **more):
    """A report with something in every section, all names in it ending as told."""
    tasks = (
        DagTask("reader_0", "reader", "default", ("guest 9999", "host 10000"), (), {}),
        DagTask(
            name, name, "train", ("guest 9999", "host 10000"), ("reader_0",), {name: name, "epochs": 0.30000000001}
        ),
    )
    seen = Learned(
        name, name, "host 10000", "guest 9999", "labels", "true", None, "clear", "every" if leaks else "sums",
        f"host 10000 can read every true label of guest 9999 in {name}", f"a {name}", f"{name} is computed", (name,), "", name, leaks,
    )  # fmt: skip
    told = Told(name, "label", "replace_one", "host", "infinity", 0.0, name)
    ledger = PartyLedger(
        (line(source=name, note=name),), (told, replace(told, observer="model", epsilon=2.0)), (told,),
        (Cap(name, "labels y, epsilon", 1.0, 2.0, 1.0, 0.0, "declared"), Cap(name, "rows", 1.0, 2.0, 1.0, None, "default")),
    )  # fmt: skip
    runs = (
        TaskRun("reader_0", "guest", "success", 3.25, "", "fate:2.2.0@local", {"name": name}, {}, ()),
        TaskRun(
            name, "guest", "failed", 12.0, f"It refused: {name}.", "", {}, {name: [name], "f": 0.1}, (0.7, 0.6, 0.5)
        ),
    )
    part = PartyPart(
        "9999", ("guest 9999",), "failed", "2025-01-01T09:00:00+00:00", 20.0, runs,
        (Figure(name, "training rows", "AUC", "flips", 0.6, 0.8, 0.1, None),), ledger,
        tuple(noise_of(each, []) for each in ledger.lines), {"fate-dp": "0.2.0"},
    )  # fmt: skip
    fields = {
        "schema": SCHEMA,
        "created": "2025-01-01T09:04:11+00:00",
        "fate_dp_version": "0.2.0",
        "fate_version": "2.2.0",
        "job_id": "202611231539387421710",
        "parties": ("guest 9999", "host 10000"),
        "tasks": tasks,
        "learned": (seen,),
        "unknown": (name,),
        "never_ran": (),
        "parts": (part,),
    }
    return JobReport(**{**fields, **more})


def test_names_with_html_in_them_are_text():
    page = report_html(report_of(HOSTILE, leaks=True))
    assert "<script" not in page and "<img" not in page and "49" not in re.findall(r"&#39;&amp;(.*)", page)
    assert page.count("&lt;script&gt;") > 10
    for attribute in re.findall(r"<svg [^>]*>|<g [^>]*>|<td[^>]*>|<li[^>]*>", page):
        assert "alert" not in attribute


def test_the_page_needs_nothing_else_and_is_the_same_for_the_same_report():
    report = report_of()
    page = report_html(report)
    assert page == report_html(report)
    for namespace in SVG_NAMESPACES:
        page = page.replace(namespace, "")
    assert not re.search(r"https?://|<script|<link|@import|<iframe|url\((?!#)|\ssrc=|\shref=\"(?!#)", page)


def test_every_id_is_unique_and_every_reference_leads_somewhere():
    page = report_html(report_of())
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(ids)


def test_a_leak_a_failure_and_what_is_not_told_are_said_at_the_head():
    leaking = report_of(leaks=True, unknown=())
    assert summary(leaking).count("It leaked: host 10000 can read every true label of guest 9999 in train_0.") == 1
    assert 'class="task leak"' in report_html(leaking) and "LEAK" in report_html(leaking)
    unknown = report_html(report_of())
    assert "What it showed is not known" in unknown and "unknown components: 1" in unknown
    assert "Why it did not end well" in unknown and 'class="task failed"' in unknown
    assert "no party could compute every true label or feature" in summary(report_of(unknown=()))


def test_what_one_learns_in_several_ways_is_said_once_with_all_of_them():
    report = report_of(unknown=())
    (seen,) = report.learned
    scores = replace(
        seen, what="scores", learns="every", instead="", sentence="host 10000 learns the score of every row in train_0"
    )
    again = [replace(scores, computes=way, evidence=(way,)) for way in ("by asking", "by counting")]
    page = report_html(replace(report, learned=(again[0], seen, again[1])))
    assert page.count("Host 10000 learns the score of every row in train_0.") == 1
    assert "(in the clear): by asking. Evidence: by asking." in page and "(in the clear): by counting." in page
    assert page.count("<li ") == 2 and page.count("<summary>How, and the evidence</summary>") == 2


def test_what_one_learns_of_several_parties_alike_is_said_once_of_all_of_them():
    report = report_of(unknown=())
    (seen,) = report.learned

    def of(owner, way):
        sentence = f"host 1 learns aggregates of the features of {owner} in train_0"
        return replace(seen, observer="host 1", owner=owner, sentence=sentence, instead="", computes=way)

    learned = (of("guest 9", "a"), of("host 10", "a"), of("host 11", "a"), of("host 11", "b"))
    page = report_html(replace(report, learned=learned))
    assert "<div>Host 1 learns aggregates of the features of guest 9 and host 10 in train_0.<details>" in page
    assert page.count("<div>Host 1 learns aggregates of the features of host 11 in train_0.<details>") == 1
    assert page.count("(in the clear): a. ") == 2 and page.count("(in the clear): b. ") == 1


def test_what_one_learns_in_several_tasks_is_one_line_and_what_it_cannot_read_is_folded():
    (seen,) = report_of(unknown=()).learned

    def at(task, learns):
        sentence = f"host 10000 {learns} the labels of guest 9999 in {task}"
        return replace(seen, task=task, learns=learns, sentence=sentence, instead="")

    page = report_html(report_of(unknown=(), learned=(at("a", "sums"), at("b", "sums"), at("c", "nothing"))))
    shown, _, folded = page.partition("What it received and cannot read")
    assert "<div>Host 10000 sums the labels of guest 9999 in a and b.<details>" in shown and "in c." not in shown
    assert "a and b. A train_0 (in the clear)" in shown and "<div>Host 10000 nothing the labels" in folded


def test_the_matrix_has_the_most_of_each_asset_by_observer_and_owner():
    (seen,) = report_of().learned
    flips = replace(seen, labels="flipped", epsilon=2.0)
    learned = (
        replace(seen, learns="sums", form="differentially_private"),
        replace(seen, learns="sums"),
        replace(flips, learns="every"),
        replace(flips, learns="nothing"),
        replace(seen, observer="whoever gets the model", what="features", learns="sums", form="differentially_private"),
        replace(seen, observer="guest 9999", owner="host 10000", what="ids", learns="every", leaks=True),
    )
    matrix = Matrix.of(learned, ("guest 9999", "host 10000", "arbiter 1"))
    assert matrix.assets == ("labels", "features", "record ids")
    rows = {
        observer: [[(each.degree, each.of) for each in cells] for cells in assets] for observer, assets in matrix.rows
    }
    assert list(rows) == ["guest 9999", "host 10000", "arbiter 1", "whoever gets the model"]
    assert rows["host 10000"][0] == [
        ("every record", "flipped ones of guest 9999, epsilon 2"),
        ("aggregates", "true ones of guest 9999"),
    ]
    assert rows["guest 9999"] == [[], [], [("LEAK: every record", "of host 10000")]]
    assert rows["whoever gets the model"][1] == [("aggregates with noise", "of guest 9999")]
    assert rows["arbiter 1"] == [[], [], []] and Matrix.of((), ("a",)) == Matrix((), (("a", ()),))


def test_single_labels_that_showed_are_named_beside_the_verdict():
    report = report_of(unknown=())
    seen = replace(report.learned[0], learns="some")
    told = "Something about single labels or features showed in train_0."
    assert told in summary(replace(report, learned=(seen,)))
    for other in (
        replace(seen, labels="flipped"),
        replace(seen, form="differentially_private"),
        replace(seen, what="ids"),
    ):
        assert told not in summary(replace(report, learned=(other,)))
    twice = (replace(seen, learns="every", leaks=True),) * 2
    assert summary(replace(report, learned=twice)).count("leak") == 1
    further = (*twice, replace(twice[0], sentence="another"))
    assert "and there is one more leak." in summary(replace(report, learned=further))


def test_a_report_says_whose_it_is_and_what_others_would_add():
    report = report_of()
    assert "It belongs to guest 9999:" in report_html(report)
    assert "The reports of host 10000 would add" in report_html(report)
    other = replace(report.parts[0], party_id="10000", parties=("host 10000",), ledger=None, noise=())
    joined = replace(report, parts=(*report.parts, other))
    assert "for an auditor whom all of them trust" in summary(joined)
    assert "Nothing: the reports of all parties of this job are joined here." in report_html(joined)
    assert "Nothing: the reports" not in report_html(report) and "`" not in report_html(report)
    assert "Host 10000 keeps no ledger here" in report_html(joined)


def test_no_estimate_is_told_beyond_its_range():
    report = report_of()
    (figure,) = report.parts[0].figures
    for rows, bias, told in (
        ("training rows", 0.05, "1.000 (0.909 to 1.000)"),
        ("training rows", None, "1.000 (0.959 to 1.000, or less)"),
        ("predicted rows", None, "1.000 (0.959 to 1.000)"),
    ):
        beyond = replace(figure, rows=rows, estimate=1.025, standard_error=0.0336, most_bias=bias)
        page = report_html(replace(report, parts=(replace(report.parts[0], figures=(beyond,)),)))
        assert f">{told}</td>" in page


def test_every_noised_line_has_its_records_and_a_picture_of_its_own():
    steps = line(
        "PoissonSampledGaussian",
        {"noise_multiplier": 2.0, "sampling_probability": 0.25},
        entry_id=4,
        records=0,
        rounds=8,
    )
    counts = line(
        "Shuffled", {"epsilon0": 1.0, "messages": 100, "randomizer": "any"}, entry_id=5, relation="replace_one"
    )
    exact = line("joint scores", {}, entry_id=6, epsilon="infinity")
    lines, told = (
        (line(), steps, counts, exact),
        [{"noise over what one record moves": 2.0, "records of all parties": 640}],
    )
    noise = tuple(noise_of(each, told) for each in lines)
    assert [(each.records, each.moved) for each in noise] == [(1000, None), (640, 0.5), (1000, None), (1000, None)]
    report = report_of()
    page = report_html(
        replace(report, parts=(replace(report.parts[0], ledger=PartyLedger(lines, (), (), ()), noise=noise),))
    )
    pictures = re.findall(
        r'<svg role="img" aria-label="([^"]*)" class="figure"', page.partition("Does the noise act?")[2]
    )
    assert pictures[:3] == [
        "Whoever took one label&#39;s value for a coin toss can be at most 73.1\N{NO-BREAK SPACE}% sure of it afterwards",
        "One release with one label, and another in its place: at most 0.5 standard deviations of the noise apart",
        "Whoever took one label&#39;s value for a coin toss can be at most 73.1\N{NO-BREAK SPACE}% sure of it afterwards",
    ]
    assert page.count('data-heading="records" class="number">640<') == 1


def test_a_job_that_charged_nothing_is_not_said_to_have_released_nothing():
    report = report_of(leaks=True)
    for ledger in (None, PartyLedger((), (), (), ())):
        page = report_html(replace(report, parts=(replace(report.parts[0], ledger=ledger, noise=()),)))
        assert "released" not in page.partition("<h2>Epsilon per observer")[2].partition("<h2>")[0]
        assert "Among the observers" not in page and "Among the observers" in report_html(report)
        assert "FATE's own components charge nothing, whatever they\nshow." in page


def test_estimates_have_columns_and_a_word_only_where_there_are_any():
    report = report_of()
    (figure,) = report.parts[0].figures

    def page(*figures):
        return report_html(replace(report, parts=(replace(report.parts[0], figures=figures),)))

    estimated, looks_worse = f"{ESTIMATED}</th>", "A measure on flips makes the model look worse"
    assert (
        estimated in page(figure) and looks_worse in page(figure) and "Where the rate of flips is known" in page(figure)
    )
    bare = page(replace(figure, estimate=None, standard_error=None))
    assert estimated not in bare and looks_worse in bare and "Where the rate of flips is known" not in bare
    assert looks_worse not in page(replace(figure, on="labels as they were", estimate=None))


def test_mechanisms_are_called_by_words_and_flips_are_spoken_of_where_there_are_any():
    report = report_of()
    flips = report_html(report)
    assert ">randomized response</td>" in flips and "The real number of flips" in flips
    steps = line("PoissonSampledGaussian", {"noise_multiplier": 2.0, "sampling_probability": 0.25}, unit="record")
    part = replace(report.parts[0], ledger=PartyLedger((steps,), (), (), ()), noise=(noise_of(steps, []),))
    page = report_html(replace(report, parts=(part,)))
    assert page.count(">Poisson Sampled Gaussian</td>") == 1 and "really flipped" not in page


def test_a_task_that_never_began_is_no_failed_one_and_commands_in_a_refusal_are_code():
    report = report_of()
    first, second = report.parts[0].tasks
    runs = (
        replace(first, status="failed", refusal="Too much; see `fate-dp cap <x>`."),
        replace(second, status="waiting", refusal=""),
    )
    page = report_html(replace(report, never_ran=("train_0",), parts=(replace(report.parts[0], tasks=runs),)))
    assert page.count('class="task failed"') == 1 and page.count('class="task elsewhere"') == 1
    assert (
        "or one that never began: train_0." in page
        and ">never begun at guest 9999</td>" in page
        and "waiting" not in page
    )
    assert "see <code>fate-dp cap &lt;x&gt;</code>." in page


def test_a_total_over_all_jobs_that_is_unlike_this_jobs_is_explained():
    report = report_of()
    ledger = report.parts[0].ledger
    plain = replace(ledger.by_this_job[0], epsilon=1.0, note="")
    noted = replace(plain, epsilon="infinity", note="another step shows who is there")
    of_jobs = replace(ledger, by_this_job=(plain,), by_all_jobs=(noted, replace(noted, dataset="another table")))
    assert notes_of(replace(report.parts[0], ledger=of_jobs)) == [
        "train_0, label, replace-one, against host: over all jobs so far, another step shows who is there."
    ]
    same = replace(ledger, by_this_job=(noted,), by_all_jobs=(noted,))
    assert len(notes_of(replace(report.parts[0], ledger=same))) == 1


def test_an_empty_report_has_a_page():
    part = PartyPart("1", ("arbiter 1",), "success", "", None, (), (), None, (), {})
    empty = report_of(parties=("arbiter 1",), tasks=(), learned=(), unknown=(), parts=(part,))
    page = report_html(empty)
    assert "this party received nothing" in page and "Does the noise act" not in page


def test_what_was_there_stays_where_a_file_cannot_be_written(tmp_path):
    (tmp_path / "job.html").write_text("before")
    (tmp_path / "job.json").mkdir()
    with pytest.raises(ValueError, match="could not be written"):
        write_report(report_of(), tmp_path, "job")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.html", "job.json"]


# The picture.

dags = st.integers(0, 12).flatmap(
    lambda count: st.fixed_dictionaries(
        {f"t{number}": st.sets(st.integers(0, max(0, number - 1)), max_size=number) for number in range(count)}
    )
)


@given(dags)
def test_every_task_stands_below_those_it_reads_and_no_boxes_overlap(drawn):
    reads = {
        name: tuple(f"t{source}" for source in sorted(sources))
        for name, sources in sorted(drawn.items(), key=lambda item: int(item[0][1:]))
    }
    layout = Layout(reads)
    middles = layout.middles()
    layers = {place.name: place.layer for place in middles if place.name}
    assert set(layers) == set(reads)
    assert all(layers[source] < layers[name] for name, sources in reads.items() for source in sources)
    for layer in layout.layers:
        for left, right in zip(layer, layer[1:]):
            assert middles[left] + left.width / 2 < middles[right] - right.width / 2
    for place, above in layout.before.items():
        assert all(each.layer == place.layer - 1 or each.name for each in above)


def test_a_line_that_passes_a_layer_runs_between_boxes():
    reads = {"a": (), "b": ("a",), "c": ("b", "a")}
    layout = Layout(reads)
    (way,) = [place for place in layout.layers[1] if not place.name]
    assert way.line == ("a", "c") and layout.before[way][0].name == "a"


def test_the_picture_is_well_formed_and_told_aloud():
    boxes = [Box("a", "", ("reader", "1 s"), "all of it"), Box("b" * 60, "leak", ("<b>", "2 s"), HOSTILE)]
    drawn = ElementTree.fromstring(str(dag_svg(boxes, {"a": (), "b" * 60: ("a",)}, "a picture")))
    texts = [node.text for node in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert "a" in texts and "<b>" in texts and max(map(len, texts)) <= 24
    titles = [node.text for node in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["all of it", HOSTILE]
    assert float(drawn.get("height")) > 2 * BOX_HEIGHT


# Noise beside signal.


def test_every_mechanism_that_a_ledger_holds_has_an_answer():
    for mechanism in [*MEASURES, *PROCESS_NAMES]:
        if mechanism in ("randomized_response", "piecewise", "Shuffled"):
            continue
        found = noise_of(line(mechanism, {}), [])
        assert found.acts in ACTS and found.sentence.endswith(".")


@pytest.mark.parametrize("epsilon, acts", [(1.0, "yes"), (20.0, "hardly")])
def test_flips_act_where_at_least_one_is_expected(epsilon, acts):
    keep = 1 / (1 + math.exp(-epsilon))
    found = noise_of(line(parameters={"classes": 2, "keep_probability": keep}), [])
    assert found.acts == acts
    assert f"{1000 * (1 - keep):.1f} flips expected in 1000 labels" in found.noise


def test_a_gaussian_is_told_beside_the_clip_and_the_records_where_a_summary_tells_them():
    parameters = {"noise_multiplier": 1.7, "sampling_probability": 0.25}
    told = {"noise over the clip": 1.7001, "clip": 2.0, "records of all parties": 400}
    found = noise_of(
        line("PoissonSampledGaussian", parameters, unit="record", records=0, rounds=3), [{"rows": 9}, told]
    )
    assert (
        "1.7 times the clip" in found.noise and "(3.4 at clip 2)" in found.noise and "each of 3 releases" in found.noise
    )
    assert found.ratio == pytest.approx(100 / 1.7) and found.acts == "yes"
    alone = noise_of(line("PoissonSampledGaussian", parameters, unit="record", records=0), [{"rows": 9}])
    assert alone.ratio is None and "unknown number of records" in alone.signal
    assert noise_of(line("Gaussian", {"noise_multiplier": 0.1}, unit="record"), []).acts == "hardly"
    groups = noise_of(line("GroupedGaussian", {"sensitivities": [1.0, 1.0], "sigmas": [2.0, 2.0]}, unit="record"), [])
    assert f"{math.sqrt(2):.4g} times" in groups.noise


def test_noise_on_sums_of_labels_and_on_counts_is_told_without_a_clip():
    of_labels = noise_of(line("Gaussian", {"noise_multiplier": 2.0, "purpose": "dp_hetero_lr: fit"}, unit="label"), [])
    assert (
        "what one label moves" in of_labels.noise
        and of_labels.signal == "sums of labels times features over 1000 records"
    )
    of_counts = noise_of(line("Gaussian", {"noise_multiplier": 2.0, "purpose": "dp_binning"}, unit="record"), [])
    bare = line("Gaussian", {"noise_multiplier": 2.0, "purpose": "dp_binning"}, unit="record", records=0)
    assert noise_of(bare, [{"rows of this party": 400}]).signal == "counts by bin over 400 records"
    assert noise_of(bare, []).signal == "counts by bin over an unknown number of records"
    assert "counts by bin" in of_counts.signal and (of_labels.ratio, of_counts.ratio) == (500.0, 500.0)
    of_vectors = noise_of(line("Gaussian", {"noise_multiplier": 2.0}, unit="record"), [])
    for found, clipped in ((of_labels, False), (of_counts, False), (of_vectors, True)):
        assert ("clip" in f"{found.noise} {found.signal} {found.sentence}") == clipped


def test_noise_that_every_party_adds_to_its_own_part_is_larger_on_the_sum_of_all():
    parameters = {"noise_multiplier": 2.0, "sampling_probability": 0.25}
    told = {"noise over the clip": 2.0, "records of all parties": 800, "parties with data": 4}
    one = noise_of(
        line("PoissonSampledGaussian", parameters, unit="record"), [{**told, "aggregation": "secure_sum: sums only"}]
    )
    assert (
        one.ratio == 100 and "all 200 together reach at most 100 of them" in one.sentence and "parties" not in one.noise
    )
    each = noise_of(
        line("PoissonSampledGaussian", parameters, unit="record"), [{**told, "aggregation": "local: every party's"}]
    )
    assert each.ratio == 50 and "all 200 together reach at most 50 of those on the sum of all parties" in each.sentence
    assert each.noise.endswith("in each of 1 releases at each of 4 parties")
    assert "at most 0.5 standard deviations" in one.sentence and "at most 0.5 standard deviations" in each.sentence


def test_of_shuffled_messages_only_statistics_have_their_noise_in_the_summary():
    shuffled = line("Shuffled", {"epsilon0": 1.0, "messages": 100, "randomizer": "any"})
    assert noise_of(shuffled, [{"rounds run": 3}]).sentence == "The shuffle hides which message is whose."
    assert "task's summary" in noise_of(shuffled, [{"mean of x0, standard error": 0.2}]).sentence


def test_noisy_numbers_counts_and_shuffled_messages():
    numbers = noise_of(line("piecewise", {"bins": 51, "bounds": [-1.0, 1.0]}), [])
    assert numbers.acts == "yes" and "numbers from -1 to 1" in numbers.signal and numbers.ratio < 1
    told = {"standard deviation of the noise": 5.0, "guest 9999, label 0": 40, "guest 9999, label 1": 60}
    counts = noise_of(line("PureDP", {"epsilon": 0.5, "purpose": "label_count"}), [told])
    assert counts.ratio == 10 and counts.acts == "yes"
    assert noise_of(line("PureDP", {"epsilon": 0.5}), [told]).acts == "not known"
    assert noise_of(line("Laplace", {"noise_multiplier": 0.2}), []).acts == "hardly"
    shuffled = noise_of(line("Shuffled", {"epsilon0": 1.0, "messages": 100, "randomizer": "randomized_response"}), [])
    assert shuffled.ratio == pytest.approx(math.e)
    assert noise_of(line("Shuffled", {"epsilon0": 1.0, "messages": 100, "randomizer": "any"}), []).ratio is None


# Screens.


@pytest.mark.skipif(missing_program() is not None, reason=str(missing_program()))
def test_no_screen_from_360_to_1920_pixels_is_scrolled_sideways(tmp_path):
    begin = time.monotonic()
    page = report_html(report_of("a_task_with_quite_a_long_name_" * 2, leaks=True))
    script = """
        const [html, widths] = arguments;
        return widths.map(width => {
            const frame = document.body.appendChild(document.createElement("iframe"));
            frame.style = `border:0;width:${width}px;height:800px`;
            frame.contentDocument.open(); frame.contentDocument.write(html); frame.contentDocument.close();
            const root = frame.contentDocument.documentElement;
            const cut = [...frame.contentDocument.querySelectorAll(".scroll")].filter(
                each => each.querySelector("table") && each.scrollWidth > each.clientWidth);
            const found = [root.clientWidth, root.scrollWidth + cut.length, frame.contentDocument.querySelectorAll(".dag .task").length];
            frame.remove();
            return found;
        });
    """
    with Browser(tmp_path) as browser:
        browser.go("about:blank")
        found = browser.run(script, page, list(WIDTHS))
    assert [tasks for _, _, tasks in found] == [2] * len(WIDTHS)
    assert all(inner >= width - 20 for (inner, _, _), width in zip(found, WIDTHS))
    assert [(inner, shown) for inner, shown, _ in found if shown > inner] == []
    assert time.monotonic() - begin < 3 * SECONDS


def test_the_json_of_a_report_holds_all_of_it():
    document = json.loads(document_text(report_of()))
    assert document["parts"][0]["ledger"]["by_this_job"][0]["epsilon"] == "infinity"
