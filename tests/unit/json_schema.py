"""The schemas of results: what breaks them, and what they describe."""

from jsonschema.validators import validator_for


def violations(value, schema):
    """Ways in which `value` breaks a schema."""
    kind = validator_for(schema)
    kind.check_schema(schema)
    return kind(schema).iter_errors(value)


def described_properties(schema):
    """All (name, property) pairs of a schema, at every depth."""
    for name, item in schema.get("properties", {}).items():
        yield name, item
        yield from described_properties(item)
    for part in schema.get("definitions", {}).values():
        yield from described_properties(part)
