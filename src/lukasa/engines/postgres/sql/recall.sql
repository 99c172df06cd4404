-- name: frequency
-- Counted one by one, so only so far.
SELECT asked.token, (
    SELECT count(*) FROM (
        SELECT 1 FROM log WHERE log.words @@ asked.query::tsquery AND log.live AND (%s::text[] IS NULL OR log.scope = ANY(%s))
        LIMIT %s) AS found)
FROM unnest(%s::text[], %s::text[]) AS asked (token, query)

-- name: beside
SELECT log.seq, before.seq, before.line, before.digest, after.seq, after.line, after.digest
FROM log
LEFT JOIN LATERAL (
    SELECT seq, line, digest FROM log AS other
    WHERE other.scope = log.scope AND other.session = log.session AND other.seq < log.seq AND other.kind = log.kind AND other.live
    ORDER BY other.seq DESC LIMIT 1) AS before ON true
LEFT JOIN LATERAL (
    SELECT seq, line, digest FROM log AS other
    WHERE other.scope = log.scope AND other.session = log.session AND other.seq > log.seq AND other.kind = log.kind AND other.live
    ORDER BY other.seq LIMIT 1) AS after ON true
WHERE log.seq = ANY(%s) AND log.session IS NOT NULL AND (%s::text[] IS NULL OR log.scope = ANY(%s))

-- name: bearing
SELECT DISTINCT ON (found.seq) found.seq, found.line, found.digest
FROM unnest(%s::text[]) AS wanted (label) CROSS JOIN LATERAL (
    SELECT seq, line, digest FROM log
    WHERE log.scope = %s AND log.kind = %s AND log.live AND log.labels <> '{}' AND log.labels @> ARRAY[wanted.label]
    ORDER BY seq DESC LIMIT %s) AS found
ORDER BY found.seq DESC
