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
    source = f"{table} AS v JOIN log ON log.seq = v.seq AND log.scope = v.scope WHERE WITHIN_REACH(v.scope) AND {' AND '.join(conditions)}"
    query = format_vector(vector)
    # A zero vector has no angle to any other; its cosine counts as zero.
    scores = f"SELECT v.seq, coalesce(1 - nullif({distance}, 'NaN'), 0) AS score FROM {source}"  # noqa: S608 - only our own fragments, values are bound
    if limit is None:
        found = run(scores, (query, *values))
    elif fetch_single_row(run(SQL["estimated_rows"], (table, table)))[0] < _EXACT_SEARCH_LIMIT:
        best_chunks = (
            f"SELECT seq, max(score) AS score FROM ({scores}) AS chunk GROUP BY seq ORDER BY score DESC, seq LIMIT %s"  # noqa: S608 - likewise
        )
        found = run(best_chunks, (query, *values, clamp_int64(limit)))
    else:
        run(
            "SELECT set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', %s, true)",
            (str(min(1000, max(40, _OVERSAMPLING * limit))),),
        )
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
    return f"""SELECT missing.seq, missing.line, missing.digest FROM {_newest_vectors(run, model)}
        CROSS JOIN LATERAL ({_missing_after("known.seq", "log.seq, log.line, log.digest")} ORDER BY log.seq LIMIT %s) AS missing
        WHERE WITHIN_REACH(present.scope) ORDER BY missing.seq LIMIT %s"""  # noqa: S608 - our own fragments, values are bound


def build_missing_vectors_count(run: RunStatement, model: str) -> str:
    """Build the statement that counts the same versions, scopes without any left out; its values are the last position, twice."""
    return f"""SELECT coalesce(sum(missing.count), 0)::bigint FROM {_newest_vectors(run, model)}
        CROSS JOIN LATERAL ({_missing_after("known.seq", "log.seq")} ORDER BY log.seq LIMIT 1) AS first
        CROSS JOIN LATERAL ({_missing_after("first.seq - 1", "count(*)")}) AS missing
        WHERE WITHIN_REACH(present.scope)"""  # noqa: S608 - our own fragments, values are bound


def _newest_vectors(run: RunStatement, model: str) -> str:
    """Build the clause that selects each scope and the position of its newest vector of the model."""
    numbers = [int(number) for (number,) in run(SQL["numbers_of_model"], (model,))]
    newest = [f"SELECT max(seq) FROM vector_{number} AS v WHERE v.scope = present.scope" for number in numbers]  # noqa: S608 - our own table names
    return f"""(SELECT DISTINCT scope FROM tally) AS present
        CROSS JOIN LATERAL (SELECT coalesce(max(seq), 0) AS seq FROM ({" UNION ALL ".join(newest) or "SELECT 0::bigint"}) AS k (seq)) AS known"""  # noqa: S608 - likewise


def _missing_after(position: str, columns: str) -> str:
    return f"""SELECT {columns} FROM log
            WHERE log.scope = present.scope AND log.seq > {position} AND log.seq <= %s AND log.tokens IS NOT NULL"""  # noqa: S608 - our own fragments


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
