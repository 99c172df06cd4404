"""Prepared statements that run without a cursor, for the most common write.

A cursor adapts values, looks the statement up and wraps the result in Python, which was half of an insert's time on the
client. Values are encoded here instead, in the binary format of their types.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from struct import pack, unpack
from weakref import WeakKeyDictionary

from psycopg import generators
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from lukasa.storage.postgres.pool import Database
from lukasa.storage.postgres.sql import SQL

Parameter = bytes | None

_TEXT, _BINARY = 0, 1
_NULL_LENGTH = b"\xff\xff\xff\xff"
_prepared_names: WeakKeyDictionary[Database, set[str]] = WeakKeyDictionary()
"""The statements that each connection has prepared."""


def execute_prepared(database: Database, name: str, parameters: Sequence[Parameter]) -> Parameter:
    """Run a named statement of one row and one column and return its value in binary format.

    Parameters are in binary format too; those that the statement casts to a ``tsvector`` are text.
    """
    names = _prepared_names.get(database)
    if names is None:
        names = _prepared_names[database] = set()
    pgconn = database.pgconn
    statement, formats = convert_placeholders(name)
    if name not in names:
        pgconn.send_prepare(name.encode(), statement)
        _require_status(database.wait(generators.execute(pgconn)), ExecStatus.COMMAND_OK)
        names.add(name)
    pgconn.send_query_prepared(name.encode(), parameters, formats, _BINARY)
    return _require_status(database.wait(generators.execute(pgconn)), ExecStatus.TUPLES_OK).get_value(0, 0)


def _require_status(results: Sequence[PGresult], status: int) -> PGresult:
    result = results[-1]
    if result.status != status:
        raise error_from_result(result)
    return result


@cache
def convert_placeholders(name: str) -> tuple[bytes, list[int]]:
    """Return a named statement with numbered placeholders, and the format of each parameter."""
    first, *parts = SQL[name].replace("%b", "%s").split("%s")
    statement = first + "".join(f"${number}{part}" for number, part in enumerate(parts, 1))
    texts = {int(part.rpartition("$")[2]) for part in statement.split("::tsvector")[:-1]}
    return statement.encode(), [_TEXT if number in texts else _BINARY for number in range(1, len(parts) + 1)]


def encode_array(element_type: int, elements: Sequence[Parameter]) -> bytes:
    """Encode an array of one dimension, given the number of its elements' type and the encoded elements."""
    parts = [pack(">iiiii", 1, None in elements, element_type, len(elements), 1)]
    for element in elements:
        parts += (_NULL_LENGTH,) if element is None else (len(element).to_bytes(4), element)
    return b"".join(parts)


def decode_bigints(array: bytes) -> tuple[int, ...]:
    """Decode an array of one dimension with elements of eight bytes, none of them null."""
    length = int.from_bytes(array[12:16])
    return unpack(">" + "4xq" * length, array[20:])
