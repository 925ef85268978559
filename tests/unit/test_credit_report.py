"""The credit study's result: its schema, the report for readers and the tables for the terminal."""

import html
import io
import json
import re
from pathlib import Path

import pytest
from credit_result_example import EMPTY_IN_ORDER, bare, example_result, one_seed, spread, without_intervals
from json_schema import described_properties, violations
from markupsafe import escape
from rich.console import Console

from fate_dp.pipelines.lending_club import report, tables
from fate_dp.pipelines.lending_club.balancing import MODELS, TITLES
from fate_dp.pipelines.lending_club.figures import balancing_figure, kind_of, loss_figure, missing_figure

SCHEMA = json.loads(Path(report.__file__).with_name("credit_result_schema.json").read_text(encoding="utf-8"))
HEADINGS = (
    "What was claimed, and what holds",
    "Privacy and accuracy",
    "Institutions split by rows",
    "Bank and bureau, split by columns",
    "Transfer to a small institution",
    "What was charged",
    "Together, alone, and all in one place",
    "Differences",
    "Each class",
    "Ways to balance the classes",
    "Even and uneven shares",
    "The training, and FATE-Flow",
    "The data",
    "What each step left",
    "Missing values",
    "Dropped columns",
    "The two classes, before and after over-sampling",
    "What is private here, and what is not",
    "Settings and times",
)
SVG_NAMESPACES = ('xmlns="http://www.w3.org/2000/svg"', 'xmlns:xlink="http://www.w3.org/1999/xlink"')
VARIANTS = {"whole": example_result, "one seed": one_seed, "bare": bare}


@pytest.fixture(scope="module")
def pages():
    return {name: report.credit_report_html(variant()) for name, variant in VARIANTS.items()}


@pytest.fixture(scope="module")
def page(pages):
    return pages["whole"]


@pytest.fixture
def result():
    return example_result()


def cells(table):
    """Every cell of a table as the report writes it."""
    return [f">{escape(cell)}</td>" for row in table.rows for cell in row]


def rendered(result, width=100):
    output = io.StringIO()
    tables.print_credit_result(result, Console(file=output, width=width, color_system=None))
    return output.getvalue()


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_examples_follow_the_schema(variant):
    assert list(violations(variant(), SCHEMA)) == []
    assert list(violations(json.loads(json.dumps(variant())), SCHEMA)) == []


@pytest.mark.parametrize(
    "breaking",
    [
        *(lambda result, name=name: result.pop(name) for name in SCHEMA["required"]),
        lambda result: result.update(schema="fate-dp/credit-study/0"),
        lambda result: result.update(unknown=1),
        lambda result: result["data"].pop("missing"),
        lambda result: result["data"]["missing"].update(id=1.2),
        lambda result: result["data"]["parties"].pop() and result["data"]["parties"].pop(),
        lambda result: result["data"]["balance"]["test"].pop("Charged Off"),
        lambda result: result["settings"].update(seeds=[]),
        lambda result: result["models"][0]["measures"].pop("ks"),
        lambda result: result["models"][0]["measures"]["auc"].pop("values"),
        lambda result: result["balancing"][0].update(method="adasyn"),
        lambda result: result["balancing"][0].pop("central"),
        lambda result: result["balancing"][0]["central"].pop("auc"),
        lambda result: result["evenness"][0]["federated"].pop("auc"),
        lambda result: result["early_stop"].update(epoch=0),
        lambda result: result["flow"][0]["agreement"].pop("largest_score_difference"),
        lambda result: result["verdicts"][0].update(holds="yes"),
        lambda result: result["private"].pop("ledger"),
        lambda result: result["private"]["models"][0].pop("protects"),
        lambda result: result["private"].update(parts=["rows", "sideways"]),
    ],
)
def test_schema_finds_what_is_wrong(result, breaking):
    breaking(result)
    assert list(violations(result, SCHEMA))


def test_every_property_of_the_schema_is_described():
    assert [name for name, item in described_properties(SCHEMA) if len(item.get("description", "")) < 5] == []


def test_report_needs_nothing_else(page):
    text = page
    for namespace in SVG_NAMESPACES:
        text = text.replace(namespace, "")
    assert not re.search(r"https?://|<script|<link|@import|<iframe|url\((?!#)|\ssrc=|\shref=\"(?!#)", text)
    assert not re.search(r"\$[a-z_]", text) and "prefers-color-scheme: dark" in text


def test_report_holds_every_section_and_figure(page):
    headings = re.findall(r"<h[23]>(.*?)</h[23]>", page)
    assert headings == list(HEADINGS)
    assert re.findall(r'aria-label="(.*?)"', page) == [
        "Held-out AUC by epsilon, institutions split by rows",
        "Held-out AUC by epsilon, bank and bureau, split by columns",
        "specificity of each model",
        "AUC of each model",
        "AUC and specificity by the way to balance",
        "specificity against evenness",
        "AUC against evenness",
        "Loss per epoch",
        "Share of missing values in each raw column",
        "Rows of each class",
    ]


@pytest.mark.parametrize(
    "name", ["model", "class", "paired", "balancing", "flow", "step", "reason", "party", "settings", "time"]
)
def test_report_holds_every_cell_of_every_table(page, result, name):
    found = cells(getattr(tables, f"{name}_table")(result))
    assert found and [cell for cell in found if cell not in page] == []


@pytest.mark.parametrize("measure", tables.EVENNESS)
def test_report_holds_the_study_of_evenness(page, result, measure):
    assert [cell for cell in cells(tables.evenness_table(result, measure)) if cell not in page] == []


def test_the_source_stands_beside_our_figures(page):
    row = "".join(f'<td class="number">{figure}</td>' for figure in ("0.28", "0.66", "0.40", "0.90", "0.65", "0.75"))
    assert f"<td>the source prints (central)</td>{row}" in page
    assert ">the source&#x27;s (central)</text>" in page or ">the source's (central)</text>" in page


def test_each_verdict_stands_with_its_claim_and_figures(page, result):
    for verdict, word in zip(result["verdicts"], ("does not hold", "holds", "not decided")):
        assert f"<b>{word}</b><div>{escape(verdict['claim'])}<span>{escape(verdict['figures'])}</span>" in page
    assert page.index(result["verdicts"][0]["claim"]) < page.index("<svg ")


def test_what_each_way_to_balance_costs_is_computed(page, result):
    lines = result["balancing"]
    assert report.costs(lines) == (
        "Against class weights, which make no synthetic loans, the AUC of scikit-learn's central regression changes by "
        "-0.0473 (-0.0473 to -0.0473) with SMOTENC and -0.0032 (-0.0032 to -0.0032) with plain SMOTE."
    )
    assert report.without_balancing(lines, result["data"]) == (
        "Without balancing, scikit-learn's model recognises 0.3\N{NO-BREAK SPACE}% of the charged-off loans and the "
        "federated one 0.3\N{NO-BREAK SPACE}%, with an AUC of 0.694 and 0.643. To call every loan Fully Paid is right "
        "for 81.8\N{NO-BREAK SPACE}% of the held-out loans: accuracy says nothing about such a model."
    )
    assert report.privacy(lines) == (
        "With synthetic loans of any kind the epsilon of a record is infinity, whatever training follows. The most of "
        "them that one real loan had a part in are 131 with SMOTENC and 40 with plain SMOTE. The private way is class "
        "weights with a public maximum."
    )
    assert "too few charged-off loans for SMOTENC-parents: not measured." in page
    assert f">{0.6838 - 0.6478:+.3f} ± 0.004</td>" in page and "Models on the same 3 splits, all simulated." in page


def test_ways_to_balance_that_no_institution_has_rows_for(result):
    lines = result["balancing"][:2]
    assert report.costs(lines) == "" == report.left_out(lines)
    assert "one real loan" not in report.privacy(lines)
    found = tables.balancing_table({"balancing": without_intervals(result["balancing"])}).rows
    assert [row[:3] for row in found[2:5]] == [
        ("no balancing", "federated", "0.643"),
        ("class weights", "scikit-learn", "0.695"),
        ("SMOTENC", "scikit-learn", "0.648"),
    ]
    assert found[2][5] == "-0.051" and found[3][5] == "-" and len(found) == 10


def test_the_figure_of_balancing_has_a_row_for_each_way_and_all_models(result):
    drawing = balancing_figure(result["balancing"][-2:])
    for text in ("plain SMOTE", "SMOTENC-parents", "scikit-learn", "central", "federated", "AUC", "specificity"):
        assert drawing.count(f">{text}</text>") == 1


def test_ways_and_models_have_one_name_everywhere():
    properties = SCHEMA["definitions"]["balancing"]["properties"]
    assert tuple(properties["method"]["enum"]) == tuple(TITLES)
    assert tuple(tables.BALANCED_MODELS) == MODELS and set(MODELS) < set(properties)


def test_models_that_were_trained_alike_stand_together(page):
    assert "<dt>host 9998 alone</dt><dd>Its own half of the loans.</dd>" in page
    alike = [{"title": title, "how": how} for title, how in (("one", "Same."), ("other", "Else."), ("two", "Same."))]
    assert report.ways(alike) == {"Same.": ["one", "two"], "Else.": ["other"]}


def test_dropped_columns_are_named_once(page, result):
    assert page.count(", ".join(EMPTY_IN_ORDER[:3])) == 1
    notes = [row[3] for row in tables.step_table(result).rows]
    assert notes == ["", "named below", "", "one-hot encoded"]


def test_the_best_alone_and_fate_s_ks_are_explained(pages):
    for sentence in (
        "The best institution alone is the one that does best on the held-out loans themselves",
        "KS by FATE's Evaluation looks at 100 thresholds, ours at all of them: it is at most ours.",
    ):
        assert html.unescape(pages["whole"]).count(sentence) == 1 and sentence not in html.unescape(pages["bare"])


def test_summary_and_cards(page):
    assert "They hold 25 %, 25 % and 50 % of 9,039 loans" in page and "among 3,874 held-out ones" in page
    assert "recognises 63.9\N{NO-BREAK SPACE}% (specificity); its AUC is 0.695." in page
    assert "Of 3 claims that were checked, 1 holds, 1 does not hold, 1 is not decided." in page
    cards = re.findall(r'<div class="card \w+"><b>(.*?)</b>', page)
    assert cards == ["0.695", "63.9\N{NO-BREAK SPACE}%", "-0.5", "12,913"]


@pytest.mark.parametrize(
    "mean, reach, sentence",
    [
        (
            0.02,
            0.001,
            "Its specificity is 2.0 percentage points above that of the best institution alone (+1.8 to +2.2). ",
        ),
        (
            -0.02,
            0.001,
            "Its specificity is 2.0 percentage points below that of the best institution alone (-2.2 to -1.8). ",
        ),
        (
            0.001,
            0.004,
            "No difference in specificity to the best institution alone can be told from chance "
            "(-0.9 to +1.1 points). ",
        ),
    ],
)
def test_difference_to_the_best_alone_in_words(result, mean, reach, sentence):
    result["paired"][0]["measures"]["specificity"] = spread(mean, reach)
    assert report.against_best_alone(result) == sentence


def test_every_raw_column_has_a_bar_and_its_share(page, result):
    for column, share in result["data"]["missing"].items():
        assert f">{column}</text>" in page
        if share > 0.001:
            assert f">{100 * share:.1f} %</text>" in page
    assert ">&lt; 0.1 %</text>" in page and page.count("limit 33.3 %") == 2


def test_columns_are_coloured_by_what_became_of_them():
    def legend(limit, dropped):
        drawing = missing_figure({"one": 0.4, "two": 0.34, "three": 0.2}, dict.fromkeys(dropped, "a reason"), limit)
        return [text for text in ("kept</", "too many are missing", "another reason", "limit") if text in drawing]

    assert legend(0.34, ("one", "three")) == ["kept</", "too many are missing", "another reason", "limit"]
    assert legend(0.34, ("two",)) == ["kept</", "another reason", "limit"]
    assert legend(0.34, ()) == ["kept</", "limit"]
    assert legend(None, ("one", "two", "three")) == ["another reason"]


def test_balance_before_and_after_at_every_party(page):
    for counts in (
        "411 (18 %) + 1,849 (82 %)",
        "1,849 (50 %) + 1,849 (50 %)",
        "7,396 (50 %) + 7,396 (50 %)",
        "704 (18 %) + 3,170 (82 %)",
    ):
        assert f">{counts}</text>" in page


def test_early_stopping_in_words(page, result):
    assert ">the rule would stop after epoch 17</text>" in page
    assert "(diff, tol 0.0001) would have ended the training after epoch 17; 20 epochs were run." in page
    result["early_stop"]["epoch"] = None
    never = report.stop_text(result["early_stop"])
    assert "would not have ended the training: 20 epochs were run." in never
    assert "the rule would stop" not in loss_figure(result["loss"], None)


def test_the_start_of_the_loss_is_explained_for_rmsprop_alone(page, result):
    sentence = "RMSprop's first step is ten times the learning rate in every coefficient"
    assert escape(sentence) in page
    result["settings"]["homo_lr"]["optimizer"] = "adam"
    assert "RMSprop's first step" not in html.unescape(report.credit_report_html({**result, "flow": []}))


def test_report_says_what_is_not_private(page):
    text = " ".join(re.sub(r"<.*?>", "", page).split())
    for sentence in (
        "This training adds no noise. Its epsilon is infinity for every record and label.",
        "its epsilon for records is infinity all the same",
        "In FATE 2.2 it reads the average of the models in clear at every epoch",
        "The source says that HomoLR encrypts gradients with Paillier. In FATE 2.2 it does not",
    ):
        assert sentence in text


def test_one_seed_has_no_intervals_and_says_so(pages):
    page = pages["one seed"]
    assert "One seed, so one split and one run: there are no intervals" in page and "One seed: no intervals." in page
    assert "±" not in page and "confidence intervals" not in page and ">0.695</td>" in page and ">-0.0054</td>" in page
    assert "±" in pages["whole"] and "over 3 seeds" in pages["whole"]


def test_bare_result_still_reads_well(pages):
    page = pages["bare"]
    for sentence in (
        "Nothing was claimed in this run.",
        "was not part of this run.",
        "No losses were recorded.",
        "were not compared in this run.",
        "HomoLR did not run through FATE-Flow here",
        "No column was dropped.",
        "Missing values were not counted.",
    ):
        assert sentence in page
    assert "None" not in page and "nan" not in page and page.count("<svg ") == 3


def test_generated_loans_have_a_banner(pages, result):
    assert "<b>Generated loans.</b>" in pages["bare"] and "Generated loans" not in pages["whole"]
    assert "generated loans" in rendered(bare()) and "generated" not in rendered(result)


def test_names_are_text_and_never_markup(result):
    hostile = "<script>alert('$x_1$')</script> [bold]$summary"
    data = result["data"]
    data.update(source=hostile, notices=[hostile], missing={hostile: 0.5}, dropped_columns={hostile: hostile})
    data["parties"][0]["role"] = data["steps"][0]["name"] = result["loss"][0]["name"] = hostile
    result["models"][0].update(title=hostile, how=hostile)
    result["verdicts"][0].update(claim=hostile, figures=hostile)
    result.update(evenness=[])
    result["balancing"][2]["title"] = hostile
    result["paired"][0]["title"] = result["flow"][0]["job_id"] = result["settings"]["units"] = hostile
    result["source_figures"][hostile] = result["source_figures"]["central"]
    result["seconds"]["steps"][0]["name"] = result["early_stop"]["rule"] = hostile
    page = report.credit_report_html(result)
    assert "<script" not in page and page.count("&lt;script&gt;") > 18
    assert "[bold]" in rendered(result)


def test_a_job_with_a_page_of_its_own_is_linked(result, page):
    assert "<a href" not in page
    result["flow"][0]["page"] = "job-202611211004110000010.html"
    assert list(violations(result, SCHEMA)) == []
    assert '<a href="job-202611211004110000010.html">seed 2024, job 202611211004110000010</a>' in (
        report.credit_report_html(result)
    )


def test_same_result_gives_the_same_bytes(pages, tmp_path):
    report.write_credit_report(one_seed(), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == pages["one seed"]
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_report_that_cannot_be_drawn_leaves_the_old_one(result, tmp_path):
    (tmp_path / "report.html").write_text("old")
    del result["models"][0]["measures"]["auc"]
    with pytest.raises(KeyError):
        report.write_credit_report(result, tmp_path / "report.html")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_no_two_elements_of_the_page_share_an_id(page):
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"""(?:url\(|href=")#([^)"]*)""", page)) <= set(ids)


@pytest.mark.parametrize(
    "interval, text, difference",
    [
        ({"mean": 0.7, "low": None, "high": None}, "0.700", "+0.7000"),
        ({"mean": -0.25, "low": -0.5, "high": 0.0}, "-0.250 ± 0.250", "-0.2500 (-0.5000 to +0.0000)"),
    ],
)
def test_intervals_in_words(interval, text, difference):
    assert tables.interval_text(interval) == text
    assert tables.difference_text(interval) == difference


def test_what_rounds_to_zero_has_no_minus():
    assert tables.signed(-0.00004, 4) == "+0.0000" and tables.signed(-0.00006, 4) == "-0.0001"
    assert report.points_text(-0.0004) == "+0.0" and report.points_text(-0.001) == "-0.1"


def test_shares_in_words():
    assert tables.shares_text([0.25, 0.75]) == "25 / 75"
    assert tables.shares_text([0.249972]) == "25" and tables.shares_text([0.125, 0.875]) == "12.5 / 87.5"


def test_evenness_begins_with_the_most_uneven_shares(result):
    shares = [line["shares"] for line in tables.from_uneven_to_even(list(reversed(result["evenness"])))]
    assert shares == [line["shares"] for line in result["evenness"]]


def test_evenness_without_the_institutions_alone(result):
    for line in result["evenness"]:
        del line["alone"]
    assert list(violations(result, SCHEMA)) == []
    assert tables.evenness_table(result, "auc").headings == ("shares in percent", "federated")
    assert list(tables.evenness_models(result["evenness"][0])) == ["federated"]


def test_columns_of_one_reason_stand_together(result):
    rows = tables.reason_table(result).rows
    assert sum(int(count) for _, count, _ in rows) == len(result["data"]["dropped_columns"])
    assert [int(count) for _, count, _ in rows] == sorted((int(count) for _, count, _ in rows), reverse=True)
    assert any(count == str(len(names.split(", "))) and "recoveries" in names for _, count, names in rows)


@pytest.mark.parametrize(
    "name, kind",
    [("federated", "federated"), ("alone_host_9998", "alone"), ("central_weighted", "central"), ("other", "central")],
)
def test_kinds_of_models(name, kind):
    assert kind_of(name) == kind


def test_terminal_shows_measures_evenness_runs_and_verdicts(result):
    text = rendered(result)
    assert max(map(len, text.splitlines())) <= 100 and "\x1b" not in text
    assert "Models on 3,874 held-out loans; means and 95 % intervals over 3 seeds" in text
    assert re.search(r"federated, HomoLR +0\.695 ± 0\.010 +0\.285 ± 0\.010 +0\.639 ± 0\.010 +0\.640 ± 0\.010", text)
    assert re.search(r"the source prints \(central\) +0\.28 +0\.66 +0\.40", text)
    assert re.search(r"SMOTENC +federated +0\.684 ± 0\.010 +0\.631 ± 0\.005 +\+0\.036 ± 0\.004", text)
    assert re.search(r"5 / 95 +0\.694 ± 0\.002 +0\.671 ± 0\.007 +0\.694 ± 0\.007", text)
    assert "by at most 3.1e-07, its scores by 1.2e-07." in " ".join(text.split())
    assert all(word in text for word in ("does not hold", "holds", "not decided"))


def test_terminal_without_optional_parts():
    text = rendered(bare())
    assert "one seed, so no intervals" in text and "HomoLR did not run" in text and "±" not in text
    assert "None" not in text


def test_narrow_terminal_keeps_every_number(result):
    text = rendered(result, width=80)
    assert re.search(r"SMOTENC +federated +0\.684 ± 0\.010 +0\.631 ± 0\.005 +\+0\.036 ± 0\.004", text)
    assert "0.639 ± 0.010" in text and "-0.0153" in text and max(map(len, text.splitlines())) <= 80
