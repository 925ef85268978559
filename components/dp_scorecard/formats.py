"""A scorecard in formats of others: PMML, which scoring engines read, and Python that imports nothing but math. No FATE in here.

Both give what `export.function_of` gives: whole points, and the probability that they stand for. The PMML is a Scorecard of
version 4.4 [PMML], whose `initialScore` are the base points, with one Characteristic for each column and one Attribute for each
bin. Columns whose bins are known (``binning``, see `export`) are read as values, closed on the right as `dp_binning` cuts them; the
others as numbers of bins.
"""

import math
from bisect import bisect_left
from xml.etree import ElementTree

from ..common.federation import Document
from .export import Binning, Characteristic, characteristics
from .model import Scorecard

NAMESPACE = "http://www.dmg.org/PMML-4_4"
SCORE, PROBABILITY, TARGET = "points", "probability_of_1", "label"
CUTS, CATEGORIES, APART, POINTS = "cuts", "categories", "apart", "points"


def pmml(document: Document, binning: Binning | None = None) -> str:
    columns, card = characteristics(document, binning), Scorecard.from_json(document)
    root = ElementTree.Element("PMML", {"xmlns": NAMESPACE, "version": "4.4"})
    header = ElementTree.SubElement(root, "Header", {"description": "A scorecard of dp_scorecard"})
    ElementTree.SubElement(header, "Application", {"name": "FATE-DP"})
    dictionary = ElementTree.SubElement(root, "DataDictionary", {"numberOfFields": str(len(columns) + 1)})
    for column in columns.values():
        _data_field(dictionary, column)
    ElementTree.SubElement(dictionary, "DataField", {"name": TARGET, "optype": "continuous", "dataType": "double"})
    model = ElementTree.SubElement(
        root,
        "Scorecard",
        {
            "modelName": "dp_scorecard",
            "functionName": "regression",
            "initialScore": str(card.base),
            "useReasonCodes": "false",
        },
    )
    schema = ElementTree.SubElement(model, "MiningSchema")
    for column in columns.values():
        known = {} if column.bins is not None else {"invalidValueTreatment": "returnInvalid"}
        ElementTree.SubElement(schema, "MiningField", {"name": column.name, "usageType": "active", **known})
    ElementTree.SubElement(schema, "MiningField", {"name": TARGET, "usageType": "target"})
    _output(model, card)
    described = ElementTree.SubElement(model, "Characteristics")
    for column in columns.values():
        _characteristic(described, column)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _data_field(dictionary: ElementTree.Element, column: Characteristic) -> None:
    if column.bins is not None:
        kind = {"name": column.name, "optype": "continuous", "dataType": "double"}
        ElementTree.SubElement(dictionary, "DataField", kind)
        return
    kind = {"name": column.name, "optype": "categorical", "dataType": "integer"}
    listed = ElementTree.SubElement(dictionary, "DataField", kind)
    for number in range(len(column.points)):
        ElementTree.SubElement(listed, "Value", {"value": str(number)})


def _output(model: ElementTree.Element, card: Scorecard) -> None:
    """The points, and 1 / (1 + exp(slope points + intercept)), which is the probability of the label 1."""
    output = ElementTree.SubElement(model, "Output")
    given = {"name": SCORE, "optype": "continuous", "dataType": "double", "feature": "predictedValue"}
    ElementTree.SubElement(output, "OutputField", given)
    given = {"name": PROBABILITY, "optype": "continuous", "dataType": "double", "feature": "transformedValue"}
    field = ElementTree.SubElement(output, "OutputField", given)
    slope, intercept = _odds_of_zero(card)
    one_over = _apply(field, "/", 1.0)
    plus_one = _apply(one_over, "+", 1.0)
    line = _apply(_apply(plus_one, "exp"), "+", intercept)
    ElementTree.SubElement(_apply(line, "*", slope), "FieldRef", {"field": SCORE})


def _apply(above: ElementTree.Element, function: str, constant: float | None = None) -> ElementTree.Element:
    made = ElementTree.SubElement(above, "Apply", {"function": function})
    if constant is not None:
        ElementTree.SubElement(made, "Constant", {"dataType": "double"}).text = repr(constant)
    return made


def _odds_of_zero(card: Scorecard) -> tuple[float, float]:
    """(slope, intercept) of the log-odds of the label 0 in points."""
    slope = 1 / card.scale.factor
    return slope, math.log(card.scale.base_odds) - card.scale.base_points * slope


def _characteristic(described: ElementTree.Element, column: Characteristic) -> None:
    """The attributes of a column, of which the first one that holds counts."""
    each = ElementTree.SubElement(described, "Characteristic", {"name": f"points of {column.name}"})
    for points, predicates in zip(column.points, _predicates(column)):
        above = ElementTree.SubElement(each, "Attribute", {"partialScore": str(points)})
        if len(predicates) > 1:
            above = ElementTree.SubElement(above, "CompoundPredicate", {"booleanOperator": "and"})
        for predicate in predicates:
            ElementTree.SubElement(above, "SimplePredicate", {"field": column.name, **predicate})


def _predicates(column: Characteristic) -> list[list[dict[str, str]]]:
    """Of every bin what must hold of a value, all of it. The bin of rare categories comes after those that it is not."""
    bins, present = column.bins, {"operator": "isNotMissing"}
    if bins is None:
        return [[_compared("equal", number)] for number in range(len(column.points))]
    if bins.categories is not None:
        found = [*([_compared("equal", value)] for value in bins.categories), [present]]
    else:
        above = [[], *([_compared("greaterThan", cut)] for cut in bins.cuts)]
        below = [*([_compared("lessOrEqual", cut)] for cut in bins.cuts), []]
        found = [low + high or [present] for low, high in zip(above, below)]
    for value in bins.special:
        within = len(found) - 1 if bins.categories is not None else bisect_left(bins.cuts, value)
        found[within].append(_compared("notEqual", value))
    found += [[_compared("equal", value)] for value in bins.special]
    return [*found, [{"operator": "isMissing"}]] if bins.missing else found


def _compared(operator: str, value: float) -> dict[str, str]:
    return {"operator": operator, "value": repr(value)}


SCRIPT = '''"""A scorecard of dp_scorecard as plain Python: score(record) gives (points, probability of the label 1)."""

import math

BASE_POINTS = {base!r}
SLOPE, INTERCEPT = {slope!r}, {intercept!r}
COLUMNS = {columns}


def bin_of(name, value):
    """The number of the bin of a value; where no bins are known, the value is that number."""
    column = COLUMNS[name]
    if "cuts" not in column and "categories" not in column:
        if not 0 <= value < len(column["points"]):
            raise ValueError(f"{{name!r}} has no bin {{value!r}}.")
        return value
    value, apart = None if value != value else value, column["apart"]
    if value in apart:
        return len(column["points"]) - len(apart) + apart.index(value)
    if value is None:
        raise ValueError(f"{{name!r}} is missing, and has no bin for that.")
    if "cuts" in column:
        return sum(value > cut for cut in column["cuts"])
    categories = column["categories"]
    return categories.index(value) if value in categories else len(categories)


def score(record):
    """(points, probability of the label 1) of {{column: value or number of the bin}}, for all of COLUMNS."""
    points = BASE_POINTS + sum(COLUMNS[name]["points"][bin_of(name, record[name])] for name in COLUMNS)
    return points, 1 / (1 + math.exp(min(SLOPE * points + INTERCEPT, 700)))
'''


def python_source(document: Document, binning: Binning | None = None) -> str:
    """A module's text: a function ``score`` of one record that needs neither FATE nor FATE-DP."""
    card, listed = Scorecard.from_json(document), {}
    for name, column in characteristics(document, binning).items():
        of_column: dict[str, object] = {POINTS: list(column.points)}
        if column.bins is not None:
            # Values with bins of their own, the last ones.
            of_column[APART] = [*column.bins.special, *[None] * column.bins.missing]
            cut = column.bins.categories
            of_column |= {CUTS: list(column.bins.cuts)} if cut is None else {CATEGORIES: list(cut)}
        listed[name] = of_column
    lines = "".join(f"    {name!r}: {of_column!r},\n" for name, of_column in listed.items())
    slope, intercept = _odds_of_zero(card)
    return SCRIPT.format(base=card.base, slope=slope, intercept=intercept, columns="{\n" + lines + "}")
