"""What FATE's HomoLR takes for granted about the tables of a job, asked before the job begins.

HomoLR averages weights by position: parties whose columns differ in order would train without an error on a mixture. A
party with more rows than `batch_size` would take several steps an epoch. Neither needs more than the tables' metadata.
"""
from __future__ import annotations

from dataclasses import dataclass

from fate_dp.deploy.flow_address import FlowAddress

from .flow import FlowUnavailable, connect
from .homo_lr import Federation, StudyTables
from .job import reason_of

# FATE-Flow's code for a table that it does not have.
NO_TABLE = 7001


class UnfitTables(ValueError):
    """The tables of a job do not fit together; the message is one sentence."""


@dataclass(frozen=True)
class TableSchema:
    """What FATE-Flow knows of a table."""

    name: str
    rows: int
    label: str | None
    features: tuple[str, ...]


def checked_features(
    address: FlowAddress, federation: Federation, tables: StudyTables, batch_size: int
) -> tuple[str, ...]:
    """The names of the features, in the order of the model's weights; raises UnfitTables or FlowUnavailable.

    Training tables of other sites, which the guest's server does not know, are left to the job to find.
    """
    test = table_schema(address, tables.namespace, tables.test)
    if test is None:
        raise UnfitTables(f"FATE-Flow at {address} has no table {tables.namespace}/{tables.test}; upload it first.")
    names = [tables.training(*party) for party in federation.data_parties()]
    known = [table_schema(address, tables.namespace, name) for name in names]
    check_schemas(test, [schema for schema in known if schema is not None], batch_size)
    return test.features


def check_schemas(test: TableSchema, training: list[TableSchema], batch_size: int) -> None:
    """Refuse a table without label, columns unlike the test table's, and too many rows for one batch."""
    for schema in (test, *training):
        if schema.label is None:
            raise UnfitTables(f"The table {schema.name} has no label; HomoLR needs every row's label at every party.")
        if schema.features != test.features:
            raise UnfitTables(
                f"The table {schema.name} {difference(schema.features, test.features)} in {test.name}; HomoLR adds "
                "weights by position, so that all tables need the same columns in the same order."
            )
    for schema in training:
        if schema.rows > batch_size:
            raise UnfitTables(
                f"The table {schema.name} has {schema.rows} rows, more than the batch_size of {batch_size}; "
                "raise it, so that every epoch is one step on all rows."
            )


def difference(features: tuple[str, ...], expected: tuple[str, ...]) -> str:
    """The first difference between two lists of columns, as the middle of a sentence."""
    if len(features) != len(expected):
        return f"has {len(features)} features and there are {len(expected)}"
    place = next(number for number, pair in enumerate(zip(features, expected)) if pair[0] != pair[1])
    return f"has {features[place]!r} as feature {place + 1} and it is {expected[place]!r}"


def table_schema(address: FlowAddress, namespace: str, name: str) -> TableSchema | None:
    """A table's metadata; None where this server has no such table. Raises FlowUnavailable where it does not say."""
    response = connect(address).table.query(namespace=namespace, name=name)
    if response.get("code") == NO_TABLE:
        return None
    if response.get("code") != 0:
        raise FlowUnavailable(
            f"FATE-Flow at {address} does not tell what the table {namespace}/{name} is: {reason_of(response)}.")
    fields = response["data"]["meta"]["schema_meta"]["fields"]
    named = {kind: [field["name"] for field in fields if field["property"] == kind] for kind in ("label", "column")}
    return TableSchema(
        f"{namespace}/{name}", response["data"]["count"], next(iter(named["label"]), None), tuple(named["column"]))
