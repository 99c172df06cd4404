"""Vectors in PostgreSQL: one table per model and length, half precision, an HNSW index; small tables are searched exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import hypot
from typing import Any

from lukasa.errors import InvalidInput, MissingExtra
from lukasa.storage.postgres.connection import fetch_single_row
from lukasa.storage.postgres.pool import Database
from lukasa.storage.postgres.sql import SQL
from lukasa.storage.reader import clamp_int64

_EXACT_SEARCH_LIMIT = 20_000
_MAX_LENGTH = 4_000
_OVERSAMPLING = 4

RunStatement = Callable[[str, Sequence[Any]], Any]
VectorRow = tuple[int, int, Sequence[float]]


def format_vector(vector: Sequence[float]) -> str:
    """Format a vector, also one in an array, scaled to length one, so that half precision can hold it."""
    numbers = list(map(float, vector))
    size = hypot(*numbers) or 1.0
    return "[" + ",".join([repr(number / size) for number in numbers]) + "]"


def find_nearest(
    run: RunStatement,
    model: str,
    vector: Sequence[float],
    conditions: Sequence[str],
    values: Sequence[Any],
    limit: int | None,
) -> list[tuple[int, float]]:
    """Return positions and cosines of the nearest, best first; a record counts by its best chunk."""
    row = run(SQL["find_model"], (model, len(vector))).fetchone()
    if row is None:
        return []
    table, distance = f"vector_{int(row[0])}", f"(v.vector <=> %s::halfvec({len(vector)}))"
    query = format_vector(vector)
    scores = SQL["cosines"].format(distance=distance, table=table, conditions=" AND ".join(conditions))
    if limit is None:
        found = run(scores, (query, *values))
    elif fetch_single_row(run(SQL["estimated_rows"], (table, table)))[0] < _EXACT_SEARCH_LIMIT:
        found = run(SQL["best_cosines"].format(cosines=scores), (query, *values, clamp_int64(limit)))
    else:
        run(SQL["configure_vector_search"], (str(min(1000, max(40, _OVERSAMPLING * limit))),))
        found = run(f"{scores} ORDER BY {distance} LIMIT %s", (query, *values, query, _OVERSAMPLING * limit))
    best: dict[int, float] = {}
    for seq, score in found.fetchall():
        if seq not in best or score > best[seq]:
            best[seq] = score
    return sorted(best.items(), key=lambda item: (-item[1], item[0]))[:limit]


def build_missing_vectors_query(run: RunStatement, model: str) -> str:
    """Build the statement that selects the first versions with a text and no vector of the model, of any length.

    It goes from scope to scope and along the index of positions, because a join would read the whole log. Its values are
    the last position and, twice, how many versions are wanted.
    """
    return SQL["missing_vectors"].format(newest_vectors=_newest_vectors(run, model))


def build_missing_vectors_count(run: RunStatement, model: str) -> str:
    """Build the statement that counts the same versions, scopes without any left out; its values are the last position, twice."""
    return SQL["count_missing_vectors"].format(newest_vectors=_newest_vectors(run, model))


def _newest_vectors(run: RunStatement, model: str) -> str:
    """Build the clause that selects each scope and the position of its newest vector of the model."""
    tables = [f"vector_{int(number)}" for (number,) in run(SQL["numbers_of_model"], (model,))]
    newest = [SQL["newest_vector_of_table"].format(table=table) for table in tables]
    return SQL["newest_vectors"].format(newest=" UNION ALL ".join(newest) or "VALUES (0::bigint)")


def put_vectors(database: Database, model: str, vectors: Iterable[VectorRow]) -> None:
    """Store vectors of existing records; earlier vectors of the same records are replaced."""
    by_length: dict[int, list[VectorRow]] = {}
    for vector in vectors:
        by_length.setdefault(len(vector[2]), []).append(vector)
    for length, rows in by_length.items():
        table = _ensure_table(database, model, length)
        scopes: dict[int, str] = dict(database.execute(SQL["scopes_at"], ([seq for seq, _, _ in rows],)).fetchall())
        with database.cursor() as cursor:
            replaced = sorted({(scopes[seq], seq) for seq, _, _ in rows if seq in scopes})
            cursor.executemany(SQL["delete_at"].format(table=table), replaced)
            cursor.executemany(
                SQL["insert_vector"].format(table=table),
                [(scopes[seq], seq, chunk, format_vector(vector)) for seq, chunk, vector in rows if seq in scopes],
            )


def _ensure_table(database: Database, model: str, length: int) -> str:
    """Return the table of a model's vectors of one length; create it if there is none."""
    row = database.execute(SQL["find_model"], (model, length)).fetchone()
    if row is not None:
        return f"vector_{int(row[0])}"
    if not 0 < length <= _MAX_LENGTH:
        raise InvalidInput(f"A vector of {length} numbers cannot be stored; 1 to {_MAX_LENGTH:,} can.")
    if database.execute(SQL["has_pgvector"]).fetchone() is None:
        raise MissingExtra(
            "This database has no pgvector, which vectors need.",
            hint="Let a superuser run CREATE EXTENSION vector in it once.",
        )
    database.execute(SQL["lock_models"])
    row = database.execute(SQL["find_model"], (model, length)).fetchone()
    if row is not None:  # another process created it
        return f"vector_{int(row[0])}"
    database.execute(SQL["insert_model"], (model, length))
    (number,) = fetch_single_row(database.execute(SQL["find_model"], (model, length)))
    database.execute(SQL["create_vector_table"], (number, length))
    return f"vector_{int(number)}"


def count_damaged(database: Database, table: str) -> int:
    """Count the vectors that do not match their checksums."""
    statement = SQL["count_damaged_vectors"].format(table=table, is_damaged=SQL["is_damaged_vector"])
    return int(fetch_single_row(database.execute(statement))[0])


def delete_damaged(database: Database, table: str) -> None:
    """Delete the damaged vectors of each scope and those after them; recall makes them again, in log order."""
    database.execute(SQL["delete_damaged_vectors"].format(table=table, is_damaged=SQL["is_damaged_vector"]))


def list_tables(database: Database) -> list[str]:
    """Return the tables of all models."""
    return [f"vector_{int(number)}" for (number,) in database.execute(SQL["model_numbers"])]
