"""The credit study's result: its schema, the report for readers and the tables for the terminal."""
import copy
import html
import io
import json
import re
from pathlib import Path

import pytest
from credit_result_example import bare, example_result, one_seed, spread
from json_schema import described_properties, violations
from rich.console import Console

from fate_dp.pipelines import credit_report, credit_tables
from fate_dp.pipelines.credit_report_figures import kind_of, missing_figure

SCHEMA = json.loads(Path(credit_report.__file__).with_name("credit_result_schema.json").read_text(encoding="utf-8"))
HEADINGS = (
    "What was claimed, and what holds", "Together, alone, and all in one place", "Differences", "Each class",
    "Even and uneven shares", "The training, and FATE-Flow", "The data", "What each step left", "Missing values",
    "Dropped columns", "The two classes, before and after over-sampling", "What is private here, and what is not",
    "Settings and times",
)  # fmt: skip
SVG_NAMESPACES = ('xmlns="http://www.w3.org/2000/svg"', 'xmlns:xlink="http://www.w3.org/1999/xlink"')
VARIANTS = {"whole": example_result, "one seed": one_seed, "bare": bare}


@pytest.fixture(scope="module")
def pages():
    return {name: credit_report.credit_report_html(variant()) for name, variant in VARIANTS.items()}


@pytest.fixture(scope="module")
def page(pages):
    return pages["whole"]


@pytest.fixture
def result():
    return example_result()


def cells(table):
    """Every cell of a table as the report writes it."""
    return [f">{html.escape(cell)}</td>" for row in table.rows for cell in row]


def rendered(result, width=100):
    output = io.StringIO()
    credit_tables.print_credit_result(result, Console(file=output, width=width, color_system=None))
    return output.getvalue()


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_examples_follow_the_schema(variant):
    assert list(violations(variant(), SCHEMA)) == []
    assert list(violations(json.loads(json.dumps(variant())), SCHEMA)) == []


@pytest.mark.parametrize("breaking", [
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
    lambda result: result["evenness"][0]["federated"].pop("auc"),
    lambda result: result["early_stop"].update(epoch=0),
    lambda result: result["flow"][0]["agreement"].pop("largest_score_difference"),
    lambda result: result["verdicts"][0].update(holds="yes"),
])  # fmt: skip
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
        "specificity of each model", "AUC of each model", "specificity against evenness", "AUC against evenness",
        "Loss per epoch", "Share of missing values in each raw column", "Rows of each class",
    ]


@pytest.mark.parametrize("name", ["model", "class", "paired", "flow", "step", "reason", "party", "settings", "time"])
def test_report_holds_every_cell_of_every_table(page, result, name):
    found = cells(getattr(credit_tables, f"{name}_table")(result))
    assert found and [cell for cell in found if cell not in page] == []


@pytest.mark.parametrize("measure", credit_tables.EVENNESS)
def test_report_holds_the_study_of_evenness(page, result, measure):
    assert [cell for cell in cells(credit_tables.evenness_table(result, measure)) if cell not in page] == []


def test_the_source_stands_beside_our_figures(page):
    row = "".join(f'<td class="number">{figure}</td>' for figure in ("0.28", "0.66", "0.40", "0.90", "0.65", "0.75"))
    assert f"<td>the source prints (central)</td>{row}" in page
    assert ">the source&#x27;s (central)</text>" in page or ">the source's (central)</text>" in page


def test_each_verdict_stands_with_its_claim_and_figures(page, result):
    for verdict, word in zip(result["verdicts"], ("does not hold", "holds", "not decided")):
        assert (f"<b>{word}</b><div>{html.escape(verdict['claim'])}<span>{html.escape(verdict['figures'])}</span>"
                in page)  # fmt: skip
    assert page.index(result["verdicts"][0]["claim"]) < page.index("<svg ")


def test_summary_and_cards(page):
    assert "They hold 25 %, 25 % and 50 % of 9,039 loans" in page and "among 3,874 held-out ones" in page
    assert "recognises 63.9\N{NO-BREAK SPACE}% (specificity); its AUC is 0.695." in page
    assert "Of 3 claims that were checked, 1 holds, 1 does not hold, 1 is not decided." in page
    cards = re.findall(r'<div class="card \w+"><b>(.*?)</b>', page)
    assert cards == ["0.695", "63.9\N{NO-BREAK SPACE}%", "-0.5", "12,913"]


@pytest.mark.parametrize("mean, reach, sentence", [
    (0.02, 0.001,
     "Its specificity is 2.0 percentage points above that of the best institution alone (+1.8 to +2.2). "),
    (-0.02, 0.001,
     "Its specificity is 2.0 percentage points below that of the best institution alone (-2.2 to -1.8). "),
    (0.001, 0.004, "No difference in specificity to the best institution alone can be told from chance "
                   "(-0.9 to +1.1 points). "),
])  # fmt: skip
def test_difference_to_the_best_alone_in_words(result, mean, reach, sentence):
    result["paired"][0]["measures"]["specificity"] = spread(mean, reach)
    assert credit_report.against_best_alone(result) == sentence


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
    for counts in ("411 (18 %) + 1,849 (82 %)", "1,849 (50 %) + 1,849 (50 %)", "7,396 (50 %) + 7,396 (50 %)",
                   "704 (18 %) + 3,170 (82 %)"):
        assert f">{counts}</text>" in page


def test_early_stopping_in_words(page, result):
    assert ">the rule would stop after epoch 17</text>" in page
    assert "(diff, tol 0.0001) would have ended the training after epoch 17; 20 epochs were run." in page
    result["early_stop"]["epoch"] = None
    never = credit_report.flow_html(result)
    assert "would not have ended the training: 20 epochs were run." in never and "the rule would stop" not in never


def test_report_says_what_is_not_private(page):
    text = " ".join(re.sub(r"<.*?>", "", page).split())
    for sentence in ("This training adds no noise. Its epsilon is infinity for every record and label.",
                     "its epsilon for records is infinity all the same",
                     "In FATE 2.2 it reads the average of the models in clear at every epoch",
                     "The source says that HomoLR encrypts gradients with Paillier. In FATE 2.2 it does not"):
        assert sentence in text


def test_one_seed_has_no_intervals_and_says_so(pages):
    page = pages["one seed"]
    assert "One seed, so one split and one run: there are no intervals" in page and "One seed: no intervals." in page
    assert "±" not in page and "confidence intervals" not in page and ">0.695</td>" in page and ">-0.0054</td>" in page
    assert "±" in pages["whole"] and "over 3 seeds" in pages["whole"]


def test_bare_result_still_reads_well(pages):
    page = pages["bare"]
    for sentence in ("Nothing was claimed in this run.", "was not part of this run.", "No losses were recorded.",
                     "Nothing ran through FATE-Flow here", "No column was dropped.",
                     "Missing values were not counted."):
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
    result["paired"][0]["title"] = result["flow"][0]["job_id"] = result["settings"]["units"] = hostile
    result["source_figures"][hostile] = result["source_figures"]["central"]
    result["seconds"]["steps"][0]["name"] = result["early_stop"]["rule"] = hostile
    page = credit_report.credit_report_html(result)
    assert "<script" not in page and page.count("&lt;script&gt;") > 18
    assert "[bold]" in rendered(result)


def test_same_result_gives_the_same_bytes(page, result, tmp_path):
    credit_report.write_credit_report(copy.deepcopy(result), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_report_that_cannot_be_drawn_leaves_the_old_one(result, tmp_path):
    (tmp_path / "report.html").write_text("old")
    del result["models"][0]["measures"]["auc"]
    with pytest.raises(KeyError):
        credit_report.write_credit_report(result, tmp_path / "report.html")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_no_two_elements_of_the_page_share_an_id(page):
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"""(?:url\(|href=")#([^)"]*)""", page)) <= set(ids)


@pytest.mark.parametrize("interval, text, difference", [
    ({"mean": 0.7, "low": None, "high": None}, "0.700", "+0.7000"),
    ({"mean": -0.25, "low": -0.5, "high": 0.0}, "-0.250 ± 0.250", "-0.2500 (-0.5000 to +0.0000)"),
])  # fmt: skip
def test_intervals_in_words(interval, text, difference):
    assert credit_tables.interval_text(interval) == text
    assert credit_tables.difference_text(interval) == difference


def test_what_rounds_to_zero_has_no_minus():
    assert credit_tables.signed(-0.00004, 4) == "+0.0000" and credit_tables.signed(-0.00006, 4) == "-0.0001"
    assert credit_report.points_text(-0.0004) == "+0.0" and credit_report.points_text(-0.001) == "-0.1"


def test_shares_in_words():
    assert credit_tables.shares_text([0.25, 0.75]) == "25 / 75"
    assert credit_tables.shares_text([0.249972]) == "25" and credit_tables.shares_text([0.125, 0.875]) == "12.5 / 87.5"


def test_evenness_begins_with_the_most_uneven_shares(result):
    shares = [line["shares"] for line in credit_tables.from_uneven_to_even(list(reversed(result["evenness"])))]
    assert shares == [line["shares"] for line in result["evenness"]]


def test_evenness_without_the_institutions_alone(result):
    for line in result["evenness"]:
        del line["alone"]
    assert list(violations(result, SCHEMA)) == []
    assert credit_tables.evenness_table(result, "auc").headings == ("shares in percent", "federated")
    assert "first alone" not in credit_report.evenness_html(result)


def test_columns_of_one_reason_stand_together(result):
    rows = credit_tables.reason_table(result).rows
    assert sum(int(count) for _, count, _ in rows) == len(result["data"]["dropped_columns"])
    assert [int(count) for _, count, _ in rows] == sorted((int(count) for _, count, _ in rows), reverse=True)
    assert any(count == str(len(names.split(", "))) and "recoveries" in names for _, count, names in rows)


@pytest.mark.parametrize("name, kind", [
    ("federated", "federated"), ("alone_host_9998", "alone"), ("central_weighted", "central"), ("other", "central"),
])  # fmt: skip
def test_kinds_of_models(name, kind):
    assert kind_of(name) == kind


def test_terminal_shows_measures_evenness_runs_and_verdicts(result):
    text = rendered(result)
    assert max(map(len, text.splitlines())) <= 100 and "\x1b" not in text
    assert "Models on 3,874 held-out loans; means and 95 % intervals over 3 seeds" in text
    assert re.search(r"federated, HomoLR +0\.695 ± 0\.010 +0\.285 ± 0\.010 +0\.639 ± 0\.010 +0\.640 ± 0\.010", text)
    assert re.search(r"the source prints \(central\) +0\.28 +0\.66 +0\.40", text)
    assert re.search(r"5 / 95 +0\.694 ± 0\.002 +0\.671 ± 0\.007 +0\.694 ± 0\.007", text)
    assert "by at most 3.1e-07, its scores by 1.2e-07." in " ".join(text.split())
    assert all(word in text for word in ("does not hold", "holds", "not decided"))


def test_terminal_without_optional_parts():
    text = rendered(bare())
    assert "one seed, so no intervals" in text and "Nothing ran through FATE-Flow" in text and "±" not in text
    assert "None" not in text


def test_narrow_terminal_keeps_every_number(result):
    text = rendered(result, width=80)
    assert "0.639 ± 0.010" in text and "-0.0153" in text and max(map(len, text.splitlines())) <= 80
