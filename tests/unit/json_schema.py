"""A checker of the parts of JSON Schema that the schemas of results use."""
import math

TYPES = {"object": dict, "array": list, "string": str, "number": (int, float), "integer": int, "boolean": bool,
         "null": type(None)}


def violations(value, schema, where="result", definitions=None):
    """Ways in which `value` breaks the parts of JSON Schema that the schemas of results use."""
    definitions = schema.get("definitions", {}) if definitions is None else definitions
    if "$ref" in schema:
        yield from violations(value, definitions[schema["$ref"].rpartition("/")[2]], where, definitions)
    elif "oneOf" in schema:
        if all(any(violations(value, choice, where, definitions)) for choice in schema["oneOf"]):
            yield f"{where} fits no choice"
    elif not fits_type(value, schema.get("type")):
        yield f"{where} is no {schema['type']}"
    elif value not in schema.get("enum", [schema["const"]] if "const" in schema else [value]):
        yield f"{where} is {value!r}"
    elif isinstance(value, dict):
        yield from object_violations(value, schema, where, definitions)
    elif isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", math.inf):
            yield f"{where} has {len(value)} items"
        for place, item in enumerate(value):
            yield from violations(item, schema.get("items", {}), f"{where}[{place}]", definitions)
    elif isinstance(value, (int, float)):
        if not schema.get("minimum", -math.inf) <= value <= schema.get("maximum", math.inf):
            yield f"{where} is {value}"


def fits_type(value, names):
    if names is None:
        return True
    allowed = [TYPES[name] for name in ([names] if isinstance(names, str) else names)]
    return any(isinstance(value, kind) and (kind is bool or not isinstance(value, bool)) for kind in allowed)


def object_violations(value, schema, where, definitions):
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    yield from (f"{where} lacks {name}" for name in schema.get("required", ()) if name not in value)
    for name, item in value.items():
        if name in known or others is not False:
            yield from violations(item, known.get(name, others), f"{where}.{name}", definitions)
        else:
            yield f"{where}.{name} is not in the schema"


def described_properties(schema):
    """All (name, property) pairs of a schema, at every depth."""
    for name, item in schema.get("properties", {}).items():
        yield name, item
        yield from described_properties(item)
    for part in schema.get("definitions", {}).values():
        yield from described_properties(part)
