"""Vectors in PostgreSQL: one table per model and length, half precision, an HNSW index; small tables are searched exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import hypot, isnan
from typing import Any

from lukasa.errors import InvalidInput, MissingExtra
from lukasa.storage.postgres.connection import fetch_single_row
from lukasa.storage.postgres.pool import Database
from lukasa.storage.postgres.sql import SQL

_EXACT_SEARCH_LIMIT = 20_000
_MAX_LENGTH = 4_000
_OVERSAMPLING = 4

_CHECKSUM = "substr(sha256(halfvec_send(new.vector)), 1, 8)"
_IS_DAMAGED = f"""CASE WHEN new.checksum IS NULL THEN l2_norm(new.vector) NOT BETWEEN 0.99 AND 1.01 AND l2_norm(new.vector) <> 0
    ELSE new.checksum <> {_CHECKSUM} END"""

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
    where = " AND ".join(conditions)
    statement = f"SELECT v.seq, {distance} FROM {table} AS v JOIN log ON log.seq = v.seq AND log.scope = v.scope WHERE WITHIN_REACH(v.scope) AND {where}"  # noqa: S608 - only our own fragments, values are bound
    query = format_vector(vector)
    size = run(SQL["estimated_rows"], (table, table)).fetchone()
    if limit is None or size is None or size[0] < _EXACT_SEARCH_LIMIT:
        found = run(statement, (query, *values))
    else:
        run(
            "SELECT set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', %s, true)",
            (str(min(1000, max(40, _OVERSAMPLING * limit))),),
        )
        found = run(f"{statement} ORDER BY {distance} LIMIT %s", (query, *values, query, _OVERSAMPLING * limit))
    best: dict[int, float] = {}
    for seq, cosine_distance in found:
        score = 0.0 if cosine_distance is None or isnan(cosine_distance) else 1.0 - float(cosine_distance)
        best[seq] = max(score, best.get(seq, -2.0))
    return sorted(best.items(), key=lambda item: (-item[1], item[0]))[:limit]


def build_missing_vectors_clause(run: RunStatement, model: str) -> str:
    """Build the clause that selects versions with a text and no vector of the model, of any length, scope by scope."""
    numbers = [int(number) for (number,) in run(SQL["numbers_of_model"], (model,))]
    newest = [f"SELECT max(seq) FROM vector_{number} AS v WHERE v.scope = present.scope" for number in numbers]  # noqa: S608 - our own table names
    known = " UNION ALL ".join(newest)
    return f"""FROM (SELECT DISTINCT scope FROM tally) AS present
        CROSS JOIN LATERAL (SELECT coalesce(max(seq), 0) AS seq FROM ({known or "SELECT 0::bigint"}) AS k (seq)) AS known
        JOIN log ON log.scope = present.scope AND log.seq > known.seq AND log.tokens IS NOT NULL
        WHERE WITHIN_REACH(present.scope) AND log.seq <= %s"""  # noqa: S608 - our own fragments, values are bound


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
            cursor.executemany(f"DELETE FROM {table} WHERE scope = %s AND seq = %s", replaced)  # noqa: S608 - our own table name
            cursor.executemany(
                f"""INSERT INTO {table} AS v (scope, seq, chunk, vector, checksum)
                SELECT new.*, {_CHECKSUM} FROM (SELECT %s, %s::bigint, %s::integer, %s::halfvec) AS new (scope, seq, chunk, vector)
                ON CONFLICT (scope, seq, chunk) DO UPDATE SET vector = excluded.vector, checksum = excluded.checksum""",  # noqa: S608 - our own names
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
    database.execute("LOCK TABLE model IN SHARE ROW EXCLUSIVE MODE")
    row = database.execute(SQL["find_model"], (model, length)).fetchone()
    if row is not None:  # another process created it
        return f"vector_{int(row[0])}"
    database.execute(SQL["insert_model"], (model, length))
    (number,) = fetch_single_row(database.execute(SQL["find_model"], (model, length)))
    database.execute("SELECT create_vector_table(%s, %s)", (number, length))
    return f"vector_{int(number)}"


def count_damaged(database: Database, table: str) -> int:
    """Count the vectors that do not match their checksums."""
    return int(fetch_single_row(database.execute(f"SELECT count(*) FROM {table} AS new WHERE {_IS_DAMAGED}"))[0])  # noqa: S608 - our own names


def delete_damaged(database: Database, table: str) -> None:
    """Delete the damaged vectors of each scope and those after them; recall makes them again, in log order."""
    database.execute(
        f"""DELETE FROM {table} AS v USING (SELECT scope, min(seq) AS seq FROM {table} AS new WHERE {_IS_DAMAGED} GROUP BY scope) AS first
        WHERE v.scope = first.scope AND v.seq >= first.seq"""  # noqa: S608 - our own names
    )


def list_tables(database: Database) -> list[str]:
    """Return the tables of all models."""
    return [f"vector_{int(number)}" for (number,) in database.execute(SQL["model_numbers"])]
