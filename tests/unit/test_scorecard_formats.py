"""A scorecard in others' formats: PMML, held to the schema's order and scored by an evaluator of its own, and plain Python."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from fate_dp.components.dp_scorecard.additive import Calibration, Scale
from fate_dp.components.dp_scorecard.export import characteristics, contributions, function_of, reasons
from fate_dp.components.dp_scorecard.formats import NAMESPACE, pmml, python_source
from fate_dp.components.dp_scorecard.model import Points, Scorecard
from fate_dp.privacy.bins import ColumnBins, TableBins

OWN = TableBins(
    (
        ColumnBins("age", (25.0, 40.5, 60.0), special=(-999.0, 30.0)),
        ColumnBins("kind", (), (1.0, 7.0, 2.5), special=(-1.0,)),
        ColumnBins("one", (), special=(0.0,)),
    )
)
HOST = TableBins(
    (ColumnBins("x0", (-0.25, 1e-7), missing=False, special=(1e-7,)), ColumnBins("x1", (), (3.0,), missing=False))
)
BINNING = {"guest": {"bins": OWN.to_wire()}, "host 10000": {"bins": HOST.to_wire()}}
NAMES = ("age", "kind", "one", "host 10000: x0", "host 10000: x1")


def made():
    generator = np.random.default_rng(4)
    parts = []
    for names, bins in ((OWN.names, OWN), (("x0", "x1"), HOST)):
        points = generator.integers(-60, 60, bins.total)
        parts.append(Points(tuple(names), bins.counts, points / -30, points))
    card = Scorecard(parts[0], {"host 10000": parts[1]}, 547, Scale(600, 50.0, 20.0), Calibration(1.0, 0.0))
    return json.loads(json.dumps(card.to_json({"threshold": 0.5})))


DOCUMENT = made()
BINS = dict(zip(NAMES, (*OWN.columns, *HOST.columns)))


def values():
    """Records on and beside every cut point, missing, rare and infinite ones, and many more."""
    special = {
        "age": [25.0, 25.000001, 40.5, 30.0, 61.0, None, -999.0],
        "kind": [1.0, 7.0, 2.5, 99.0, None, -1.0, 0.0],
        "one": [0.0, None, 5.0, -3.0, 1.0, None, 2.0],
        "host 10000: x0": [-0.25, -0.2499, 1e-7, 1.1e-7, -5.0, 0.0, 3.0],
        "host 10000: x1": [3.0, 4.0, 0.0, 3.0, -1.0, 2.0, 3.0],
    }
    yield from ({name: of_name[at] for name, of_name in special.items()} for at in range(7))
    generator = np.random.default_rng(1)
    for _ in range(40):
        yield {name: special[name][generator.integers(0, 7)] for name in NAMES}


def codes_of(record):
    return {
        name: int(BINS[name].codes(np.array([math.nan if value is None else value]))[0])
        for name, value in record.items()
    }


# A small evaluator of PMML 4.4, written from the standard alone


def tag(name):
    return f"{{{NAMESPACE}}}{name}"


def holds(predicate, record):
    """True, False, or None for unknown."""
    if predicate.tag == tag("CompoundPredicate"):
        assert predicate.get("booleanOperator") == "and"
        parts = [holds(each, record) for each in predicate]
        return False if False in parts else None if None in parts else True
    assert predicate.tag == tag("SimplePredicate")
    value, operator = record[predicate.get("field")], predicate.get("operator")
    if operator in ("isMissing", "isNotMissing"):
        return (value is None) is (operator == "isMissing")
    if value is None:
        return None
    limit = float(predicate.get("value"))
    differs = {"equal": value == limit, "notEqual": value != limit}
    return {**differs, "greaterThan": value > limit, "lessOrEqual": value <= limit}[operator]


def expression(element, fields):
    if element.tag == tag("FieldRef"):
        return fields[element.get("field")]
    if element.tag == tag("Constant"):
        return float(element.text)
    assert element.tag == tag("Apply")
    given = [expression(each, fields) for each in element]
    functions = {"+": lambda a, b: a + b, "*": lambda a, b: a * b, "/": lambda a, b: a / b, "exp": math.exp}
    return functions[element.get("function")](*given)


def evaluated(text, record):
    """{output field: value}; raises ValueError where no attribute of a characteristic holds, as no score is then."""
    (card,) = ElementTree.fromstring(text).iter(tag("Scorecard"))
    total = float(card.get("initialScore"))
    for characteristic in card.iter(tag("Characteristic")):
        first = next((each for each in characteristic if holds(each[0], record) is True), None)
        if first is None:
            raise ValueError(f"No attribute of {characteristic.get('name')} holds.")
        total += float(first.get("partialScore"))
    found = {}
    for field in card.iter(tag("OutputField")):
        found[field.get("name")] = total if field.get("feature") == "predictedValue" else expression(field[0], found)
    return found


@pytest.mark.parametrize("binning", [None, BINNING, {"guest": BINNING["guest"]}], ids=["codes", "values", "mixed"])
def test_pmml_scores_as_the_function_does(binning):
    text, score = pmml(DOCUMENT, binning), function_of(DOCUMENT, binning)
    known = [name for name in NAMES if binning and ("host" not in name or "host 10000" in binning)]
    for record in values():
        given = {**codes_of(record), **{name: record[name] for name in known}}
        found = evaluated(text, given)
        assert found["points"] == score(given).points == function_of(DOCUMENT)(codes_of(record)).points
        assert found["probability_of_1"] == pytest.approx(score(given).probability, rel=1e-12)


def test_each_value_has_one_attribute_that_holds_or_is_rare():
    """A value must not depend on the order in which an engine tries intervals."""
    (card,) = ElementTree.fromstring(pmml(DOCUMENT, BINNING)).iter(tag("Scorecard"))
    for record in values():
        for characteristic, name in zip(card.iter(tag("Characteristic")), NAMES):
            holding = sum(holds(each[0], record) is True for each in characteristic)
            assert holding == 1 or (BINS[name].categories is not None and holding == 2)


# Elements and their attributes that PMML 4.4 wants, with the order of children, as far as a scorecard has them.
ORDER = {"PMML": ["Header", "DataDictionary", "Scorecard"], "Scorecard": ["MiningSchema", "Output", "Characteristics"]}
REQUIRED = {
    "PMML": {"version"},
    "DataField": {"name", "optype", "dataType"},
    "Value": {"value"},
    "Scorecard": {"functionName", "initialScore", "useReasonCodes"},
    "MiningField": {"name"},
    "OutputField": {"name", "feature", "dataType"},
    "Characteristic": {"name"},
    "Attribute": {"partialScore"},
    "SimplePredicate": {"field", "operator"},
    "CompoundPredicate": {"booleanOperator"},
    "Apply": {"function"},
    "FieldRef": {"field"},
}


@pytest.mark.parametrize("binning", [None, BINNING], ids=["codes", "values"])
def test_the_document_has_what_the_schema_wants(binning):
    root = ElementTree.fromstring(pmml(DOCUMENT, binning))
    assert root.tag == tag("PMML") and root.get("version") == "4.4"
    for element in root.iter():
        name = element.tag.removeprefix(f"{{{NAMESPACE}}}")
        assert REQUIRED.get(name, set()) <= set(element.attrib), name
        if name in ORDER:
            assert [child.tag for child in element] == list(map(tag, ORDER[name]))
        if name == "SimplePredicate":
            assert (element.get("value") is None) == (element.get("operator") in ("isMissing", "isNotMissing"))
        if name == "CompoundPredicate":
            assert len(element) >= 2
    fields = [each.get("name") for each in root.iter(tag("DataField"))]
    assert len(set(fields)) == len(fields) == int(root.find(tag("DataDictionary")).get("numberOfFields"))
    used = {each.get("name") for each in root.iter(tag("MiningField"))}
    assert used == set(fields) and {each.get("field") for each in root.iter(tag("SimplePredicate"))} <= used


def test_a_bin_that_no_column_has_gets_no_score():
    record = {**codes_of(next(values())), "age": 9}
    with pytest.raises(ValueError, match="No attribute"):
        evaluated(pmml(DOCUMENT), record)


@pytest.mark.parametrize("binning", [None, BINNING], ids=["codes", "values"])
def test_plain_python_scores_as_the_function_does_and_imports_nothing_of_ours(tmp_path, binning):
    path, score = tmp_path / "card.py", function_of(DOCUMENT, binning)
    path.write_text(python_source(DOCUMENT, binning), encoding="utf-8")
    records = [record if binning else codes_of(record) for record in values()]
    program = f"import card, json; print(json.dumps([card.score(each) for each in {records!r}]))"
    told = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    for (points, probability), record in zip(json.loads(told.stdout), records):
        assert points == score(record).points and probability == pytest.approx(score(record).probability, rel=1e-12)


def test_contributions_and_reasons_add_up():
    for record in values():
        found = contributions(DOCUMENT, record, BINNING)
        score = function_of(DOCUMENT, BINNING)(record)
        assert DOCUMENT["data"]["scorecard"]["base_points"] + sum(found.values()) == score.points
        lost = reasons(DOCUMENT, record, BINNING)
        assert [points for _, points in lost] == sorted((points for _, points in lost), reverse=True)
        best = sum(max(points) for points in map(points_of, NAMES))
        assert sum(points for _, points in lost) == best - sum(found.values())


def points_of(name):
    card = DOCUMENT["data"]["scorecard"]
    columns = {each["column"]: each["points"] for each in card["columns"]}
    return {**columns, **{f"host 10000: {each['column']}": each["points"] for each in card["hosts"]["host 10000"]}}[
        name
    ]


def test_columns_of_a_host_are_called_as_the_model_that_it_gave_names_them():
    named = TableBins((replace(HOST.columns[0], name="月收入"), HOST.columns[1]))
    found = characteristics(DOCUMENT, {**BINNING, "host 10000": {"bins": named.to_wire()}})
    assert list(found) == [*NAMES[:3], "host 10000: 月收入", "host 10000: x1"]


@pytest.mark.parametrize(
    "binning, told",
    [
        ({"host 9": BINNING["guest"]}, "binning names 'host 9'"),
        ({"guest": BINNING["host 10000"]}, "other columns than the scorecard"),
        ({"guest": {}}, "holds no bins"),
    ],
)
def test_bins_of_others_are_refused_in_one_sentence(binning, told):
    with pytest.raises(ValueError, match=told):
        pmml(DOCUMENT, binning)


@pytest.mark.parametrize("value, told", [("red", "must be a number"), (True, "must be a number")])
def test_a_value_that_is_no_number_is_refused(value, told):
    with pytest.raises(ValueError, match=told):
        function_of(DOCUMENT, BINNING)({**next(values()), "age": value})


def test_a_missing_value_without_a_bin_for_it_is_refused_everywhere(tmp_path):
    record = {**next(values()), "host 10000: x0": None}
    with pytest.raises(ValueError, match="missing values but no bin"):
        function_of(DOCUMENT, BINNING)(record)
    with pytest.raises(ValueError, match="No attribute"):
        evaluated(pmml(DOCUMENT, BINNING), record)
