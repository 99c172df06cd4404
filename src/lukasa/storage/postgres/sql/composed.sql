-- name: select_entries
-- Return the wanted versions. Names in braces are conditions and other fragments that the caller composes.
SELECT seq, line, digest FROM log WHERE {conditions} ORDER BY seq {direction}

-- name: match_phrases
-- Return where the texts that match a query hold its words.
SELECT found.seq, found.tokens, found.line, word.lexeme, word.positions::integer[] FROM (
    SELECT log.seq, log.tokens, log.words, {line} FROM log
    WHERE log.words @@ %s::tsquery AND {conditions}{order}
) AS found CROSS JOIN LATERAL unnest(found.words) AS word WHERE word.lexeme = ANY(%s) OR word.lexeme LIKE ANY(%s)

-- name: matching_tokens
-- Return the texts that match, with a rank for each token.
SELECT log.seq, log.scope, log.tokens AS length, {ranked}
FROM log WHERE log.words @@ %s::tsquery AND {conditions}

-- name: grouped_matching_tokens
-- Return the same texts, those of one scope and length together that have the same ranks.
SELECT log.scope, log.tokens AS length, {ranked}, array_agg(log.seq) AS seqs
FROM log WHERE log.words @@ %s::tsquery AND {conditions} GROUP BY log.scope, length, {ranks}

-- name: score_matches
-- Return the best of the matching texts.
SELECT seq, scope, {score} AS score FROM (SELECT *, shortest + rate * length AS norm FROM found, weighed OFFSET 0) AS text
ORDER BY score DESC, seq LIMIT least(%s::bigint, %s::bigint)

-- name: score_grouped_matches
-- Return the best of the matching texts that were put together.
SELECT seq, scope, score FROM (
    SELECT scope, seqs, {score} AS score FROM (SELECT *, shortest + rate * length AS norm FROM found, weighed OFFSET 0) AS text
    ORDER BY score DESC FETCH FIRST (%s) ROWS WITH TIES) AS alike, unnest(seqs) AS seq
ORDER BY score DESC, seq LIMIT %s

-- name: match_tokens
-- Match single tokens and score the texts in one pass.
WITH found AS MATERIALIZED ({found}),
corpus AS (SELECT coalesce(sum(CASE WHEN %s THEN texts ELSE past_texts END), 0)::float8 AS texts,
    coalesce(sum(CASE WHEN %s THEN tokens ELSE past_tokens END), 0)::float8 AS tokens
    FROM tally WHERE WITHIN_REACH(scope)),
weighed AS MATERIALIZED (SELECT {weights}, {shortest}::float8 AS shortest,
    {rate}::float8 * greatest(texts, 1) / CASE WHEN tokens > 0 THEN tokens ELSE greatest(texts, 1) END AS rate
    FROM corpus{counted}),
best AS ({best})
SELECT entry.seq, entry.line, entry.digest, best.score FROM best CROSS JOIN LATERAL (
    SELECT log.seq, log.line, log.digest FROM log WHERE log.seq = best.seq AND log.scope = best.scope OFFSET 0) AS entry

-- name: cosines
-- Return the cosines of the vectors in a table. A zero vector has no angle to any other; its cosine counts as zero.
SELECT v.seq, coalesce(1 - nullif({distance}, 'NaN'), 0) AS score
FROM {table} AS v JOIN log ON log.seq = v.seq AND log.scope = v.scope WHERE WITHIN_REACH(v.scope) AND {conditions}

-- name: best_cosines
-- Return each record with its best chunk, the best first.
SELECT seq, max(score) AS score FROM ({cosines}) AS chunk GROUP BY seq ORDER BY score DESC, seq LIMIT %s

-- name: newest_vectors
-- Each scope with the position of its newest vector of a model.
(SELECT DISTINCT scope FROM tally) AS present
CROSS JOIN LATERAL (SELECT coalesce(max(seq), 0) AS seq FROM ({newest}) AS k (seq)) AS known

-- name: newest_vector_of_table
-- Return the position of the newest vector of a scope.
SELECT max(seq) FROM {table} AS v WHERE v.scope = present.scope

-- name: missing_vectors
-- Return the first versions with a text and no vector of a model, scope by scope.
SELECT missing.seq, missing.line, missing.digest FROM {newest_vectors}
CROSS JOIN LATERAL (
    SELECT log.seq, log.line, log.digest FROM log
    WHERE log.scope = present.scope AND log.seq > known.seq AND log.seq <= %s AND log.tokens IS NOT NULL
    ORDER BY log.seq LIMIT %s) AS missing
WHERE WITHIN_REACH(present.scope) ORDER BY missing.seq LIMIT %s

-- name: count_missing_vectors
-- Count the versions with a text and no vector of a model.
SELECT coalesce(sum(missing.count), 0)::bigint FROM {newest_vectors}
CROSS JOIN LATERAL (
    SELECT log.seq FROM log
    WHERE log.scope = present.scope AND log.seq > known.seq AND log.seq <= %s AND log.tokens IS NOT NULL
    ORDER BY log.seq LIMIT 1) AS first
CROSS JOIN LATERAL (
    SELECT count(*) FROM log
    WHERE log.scope = present.scope AND log.seq > first.seq - 1 AND log.seq <= %s AND log.tokens IS NOT NULL) AS missing
WHERE WITHIN_REACH(present.scope)

-- name: delete_at
-- Delete the rows of a table that belong to a version.
DELETE FROM {table} WHERE scope = %s AND seq = %s

-- name: insert_vector
-- Store a vector with its checksum, and replace an earlier one.
INSERT INTO {table} AS v (scope, seq, chunk, vector, checksum)
SELECT new.*, substr(sha256(halfvec_send(new.vector)), 1, 8)
FROM (SELECT %s, %s::bigint, %s::integer, %s::halfvec) AS new (scope, seq, chunk, vector)
ON CONFLICT (scope, seq, chunk) DO UPDATE SET vector = excluded.vector, checksum = excluded.checksum

-- name: is_damaged_vector
-- Whether a vector is not as its checksum says, or without one does not have the length one.
CASE WHEN new.checksum IS NULL THEN l2_norm(new.vector) NOT BETWEEN 0.99 AND 1.01 AND l2_norm(new.vector) <> 0
ELSE new.checksum <> substr(sha256(halfvec_send(new.vector)), 1, 8) END

-- name: count_damaged_vectors
-- Count the damaged vectors of a table.
SELECT count(*) FROM {table} AS new WHERE {is_damaged}

-- name: delete_damaged_vectors
-- Delete the damaged vectors of each scope and those after them.
DELETE FROM {table} AS v USING (
    SELECT scope, min(seq) AS seq FROM {table} AS new WHERE {is_damaged} GROUP BY scope) AS first
WHERE v.scope = first.scope AND v.seq >= first.seq

-- name: counted_tokens
-- How many texts hold each token.
, (SELECT {counts} FROM found) AS counted
