"""The page of a scorecard: bars with the noise's whiskers, bins outside the order apart, and nothing told that is not private."""

import re
from dataclasses import replace

import numpy as np
import pytest

from fate_dp.components.dp_scorecard.model import COUNTED, POINTS_NOISE, evidence_of
from fate_dp.pipelines.report.card_page import CardFacts, write_card
from fate_dp.privacy.bins import TableBins
from tests.unit.test_scorecard_formats import BINNING, DOCUMENT, HOST, NAMES, OWN

FACTS = CardFacts({"AUC": "1.000 (0.964 to 1.000)"}, 980, 1.0, "7", {"guest": {"kind": ("南", "北", *"cdefg", "<b>")}})


def document(counts=True):
    """That of the formats' tests, with what the model tells of the guest's bins."""
    columns, rng = [], np.random.default_rng(0)
    for each in DOCUMENT["data"]["scorecard"]["columns"]:
        bins = len(each["points"])
        told = dict(
            zip(COUNTED, ([500.0] * (bins - 1) + [20.0], rng.uniform(50, 200, bins), [40.0] * bins, [20.0] * bins))
        )
        told = {name: list(map(float, numbers)) for name, numbers in told.items()} if counts else {}
        columns.append({**each, POINTS_NOISE: [4.0] * bins, **told})
    return {**DOCUMENT, "data": {"scorecard": {**DOCUMENT["data"]["scorecard"], "columns": columns}}}


def page(tmp_path, *given):
    write_card(tmp_path / "card.html", *given)
    return (tmp_path / "card.html").read_text(encoding="utf-8")


def rows(text, name):
    """[(label, its cells)] of a column's ordered bins, and of those apart."""
    section = re.search(rf'aria-label="{name}">(.*?)</table>', text, re.DOTALL)[1]
    return [
        [
            re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
            for row in re.findall(r"<tr role=\"row\">(<td.*?)</tr>", body, re.DOTALL)
        ]
        for body in re.findall(r"<tbody[^>]*>(.*?)</tbody>", section, re.DOTALL)
    ]


def test_bins_outside_the_order_stand_apart_and_every_bar_has_its_whisker(tmp_path):
    text = page(tmp_path, document(), BINNING, FACTS)
    ordered, apart = rows(text, "age")
    assert [row[0] for row in ordered] == OWN.columns[0].labels()[:4]
    assert [row[0] for row in apart] == ["special -999", "special 30", "missing"]
    assert [row[0] for row in rows(text, "one")[0]] == ["(-inf, inf)"]
    assert all(row[2].endswith("±8") for row in ordered + apart)
    assert all(row[1].count("<path") == 2 and row[1].count("<rect") == 1 for row in ordered + apart)


def test_a_bin_of_noise_alone_tells_its_records_and_no_more(tmp_path):
    ordered, apart = rows(page(tmp_path, document(), BINNING, FACTS), "age")
    assert ordered[0][3] == "500 ±80" and ordered[0][4].endswith("%") and "±" in ordered[0][5]
    assert apart[-1][3:] == ["20 ±80", "–", "–"] and 'fill-opacity=".3"' in apart[-1][1]


def test_counts_that_the_model_does_not_tell_are_not_there(tmp_path):
    text = page(tmp_path, document(counts=False), BINNING)
    assert len(rows(text, "age")[0][0]) == 3 and "IV" not in re.sub("<style.*?</style>", "", text, flags=re.DOTALL)
    assert "held-out" not in text and "ε = " not in text


def test_names_and_categories_are_those_that_the_parties_gave_and_never_markup(tmp_path):
    named = TableBins((replace(HOST.columns[0], name="月收入"), HOST.columns[1]))
    text = page(tmp_path, document(), {**BINNING, "host 10000": {"bins": named.to_wire()}}, FACTS)
    assert "host 10000: 月收入" in text and [row[0] for row in rows(text, "kind")[0]] == ["北", "&lt;b&gt;", "2.5"]
    assert "<b>1.000</b>" in text and "Microsoft YaHei" in text
    assert not re.search(r"https?://(?!www.w3.org)|<script|<link|\ssrc=", text)


def test_without_bins_columns_have_numbers_of_bins(tmp_path):
    (ordered,) = rows(page(tmp_path, DOCUMENT), NAMES[3])
    assert [row[0] for row in ordered] == ["bin 0", "bin 1", "bin 2", "bin 3"]


def test_noise_alone_makes_no_information_value():
    """Of 2,000 records in six bins of which one is empty but for noise; one record of smoothing gave some 0.3."""
    generator = np.random.default_rng(1)
    found = []
    for _ in range(50):
        events, records = np.array([80.0] * 5 + [0.0]), np.array([400.0] * 5 + [0.0])
        noise = dict(zip(COUNTED[2:], ([40.0] * 6, [20.0] * 6)))
        noisy = {
            COUNTED[0]: (records + generator.normal(0, 40, 6)).tolist(),
            COUNTED[1]: (events + generator.normal(0, 20, 6)).tolist(),
        }
        found.append(evidence_of({**noisy, **noise}).iv)
    assert np.mean(found) < 0.12 and evidence_of({}) is None


@pytest.mark.parametrize("points, noise, pale", [(10, 4.0, False), (7, 4.0, True)])
def test_a_bar_within_its_noise_is_pale(tmp_path, points, noise, pale):
    given = document()
    given["data"]["scorecard"]["columns"][0] |= {"points": [points, *[0] * 6], POINTS_NOISE: [noise] * 7}
    first = rows(page(tmp_path, given, BINNING), "age")[0][0]
    assert ('fill-opacity=".3"' in first[1]) == pale
