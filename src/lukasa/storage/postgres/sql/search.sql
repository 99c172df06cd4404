-- name: frequency
-- Count the texts that hold each token, up to a limit: texts are counted one by one.
SELECT asked.token, (
    SELECT count(*) FROM (
        SELECT 1 FROM log WHERE log.words @@ asked.query::tsquery AND log.live AND WITHIN_REACH(log.scope)
        LIMIT %s) AS found)
FROM unnest(%s::text[], %s::text[]) AS asked (token, query)

-- name: adjacent_in_group
-- Select the current records of the same kind just before and after each position, among those with its indexed label.
SELECT log.seq, (
    SELECT other.seq FROM log AS other
    WHERE other.scope = log.scope AND other.group_label = log.group_label AND other.seq < log.seq AND other.kind = log.kind AND other.live
    ORDER BY other.seq DESC LIMIT 1), (
    SELECT other.seq FROM log AS other
    WHERE other.scope = log.scope AND other.group_label = log.group_label AND other.seq > log.seq AND other.kind = log.kind AND other.live
    ORDER BY other.seq LIMIT 1)
FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS wanted (seq, scope, label)
JOIN log ON log.seq = wanted.seq AND log.scope = wanted.scope AND log.group_label = wanted.label WHERE WITHIN_REACH(log.scope)

-- name: adjacent_by_label
-- Select the same neighbours among the records with a label that has no index for its order.
SELECT log.seq, (
    SELECT max(other.seq) FROM log AS other
    WHERE other.labels <> '{}' AND other.labels @> ARRAY[wanted.label] AND other.scope = log.scope AND other.seq < log.seq
        AND other.kind = log.kind AND other.live), (
    SELECT min(other.seq) FROM log AS other
    WHERE other.labels <> '{}' AND other.labels @> ARRAY[wanted.label] AND other.scope = log.scope AND other.seq > log.seq
        AND other.kind = log.kind AND other.live)
FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS wanted (seq, scope, label)
JOIN log ON log.seq = wanted.seq AND log.scope = wanted.scope WHERE WITHIN_REACH(log.scope)

-- name: texts_at
-- Select the texts at some positions.
SELECT log.seq, log.line, log.digest FROM log
WHERE log.seq = ANY(%s) AND WITHIN_REACH(log.scope)
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)

-- name: authors
-- Select the authors of the latest records of some kinds of one scope.
SELECT DISTINCT late.author FROM unnest(%s::text[]) AS wanted (kind)
CROSS JOIN LATERAL (
    SELECT log.author FROM log WHERE log.scope = %s AND log.kind = wanted.kind ORDER BY log.seq DESC LIMIT %s) AS late
WHERE late.author <> ''

-- name: near_duplicates
-- Select the current records that share any of the near-duplicate keys: the newest few of each key, and more of those that share several.
SELECT log.seq, log.id, log.line, log.digest, chosen.pair_keys FROM (
    SELECT placed.seq, array_agg(placed.pair_key) AS pair_keys FROM (
        SELECT newest.seq, newest.pair_key, row_number() OVER (PARTITION BY newest.pair_key ORDER BY newest.seq DESC) AS place
        FROM unnest(%s::integer[]) AS wanted (pair_key)
        CROSS JOIN LATERAL (
            SELECT d.seq, d.pair_key FROM duplicate_key AS d
            WHERE d.scope = %s AND d.pair_key = wanted.pair_key ORDER BY d.seq DESC LIMIT 8 * %s::integer) AS newest) AS placed
    GROUP BY placed.seq HAVING min(placed.place) <= (CASE WHEN count(*) > 1 THEN 8 ELSE 1 END) * %s::integer) AS chosen
CROSS JOIN LATERAL (
    SELECT seq, id, line, digest, kind FROM log WHERE log.seq = chosen.seq AND log.scope = %s OFFSET 0) AS log
WHERE log.kind = %s
ORDER BY log.seq DESC

-- name: corpus_stats
-- Count the current, or the not current, texts of some scopes and their tokens.
SELECT coalesce(sum(CASE WHEN %s THEN texts ELSE past_texts END), 0)::bigint,
    coalesce(sum(CASE WHEN %s THEN tokens ELSE past_tokens END), 0)::bigint
FROM tally WHERE WITHIN_REACH(scope)

-- name: count_phrases
-- Count the texts that hold each phrase.
SELECT asked.number, count(*) FROM unnest(%s::text[]) WITH ORDINALITY AS asked (phrase, number)
JOIN log ON log.words @@ asked.phrase::tsquery
WHERE log.live = %s AND WITHIN_REACH(log.scope)
GROUP BY asked.number
