-- name: frequency
-- Counted one by one, so only so far.
SELECT asked.token, (
    SELECT count(*) FROM (
        SELECT 1 FROM log WHERE log.words @@ asked.query::tsquery AND log.live AND (%s::text[] IS NULL OR log.scope = ANY(%s))
        LIMIT %s) AS found)
FROM unnest(%s::text[], %s::text[]) AS asked (token, query)

-- name: beside
SELECT log.seq, (
    SELECT other.seq FROM log AS other
    WHERE other.scope = log.scope AND other.session = log.session AND other.seq < log.seq AND other.kind = log.kind AND other.live
    ORDER BY other.seq DESC LIMIT 1), (
    SELECT other.seq FROM log AS other
    WHERE other.scope = log.scope AND other.session = log.session AND other.seq > log.seq AND other.kind = log.kind AND other.live
    ORDER BY other.seq LIMIT 1)
FROM log
WHERE log.seq = ANY(%s) AND log.session IS NOT NULL AND (%s::text[] IS NULL OR log.scope = ANY(%s))

-- name: texts_of_seqs
SELECT log.seq, coalesce(log.line::json ->> 'text', '') FROM log
WHERE log.seq = ANY(%s) AND (%s::text[] IS NULL OR log.scope = ANY(%s))
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)

-- name: authors
-- Of the latest records of each scope and kind.
SELECT DISTINCT late.author FROM unnest(%s::text[], %s::text[]) AS pair (scope, kind)
CROSS JOIN LATERAL (
    SELECT log.author FROM log WHERE log.scope = pair.scope AND log.kind = pair.kind ORDER BY log.seq DESC LIMIT %s) AS late
WHERE late.author <> '' ORDER BY late.author

-- name: bearing
-- All that bear any of the marks, by the marks' index. Scope and kind are spelled so that no index of theirs is
-- taken: before the server has counted its rows, it would rather read the whole kind.
WITH bearers AS MATERIALIZED (
    SELECT seq, id, line, marks FROM log
    WHERE log.scope || '' = %s AND log.kind || '' = %s AND log.live AND log.marks <> '{}' AND log.marks && %s::integer[]),
places AS (
    SELECT bearers.seq, mark, row_number() OVER (PARTITION BY mark ORDER BY bearers.seq DESC) AS place
    FROM bearers CROSS JOIN LATERAL unnest(bearers.marks) AS mark WHERE mark = ANY(%s::integer[]))
SELECT bearers.id, coalesce(bearers.line::json ->> 'text', ''), borne.marks FROM bearers JOIN (
    SELECT seq, array_agg(mark) AS marks FROM places GROUP BY seq HAVING min(place) <= %s OR count(*) > 1) AS borne
    ON borne.seq = bearers.seq
ORDER BY bearers.seq DESC
