-- name: veil_of
-- Who may not read the table may still ask for one author. While a proof is made, a shadow stands before the table.
WITH asked (author) AS (VALUES (%s::text))
SELECT veil.since FROM asked JOIN veil ON veil.author = asked.author
UNION SELECT since FROM asked, veil_of(asked.author) AS since WHERE since IS NOT NULL AND to_regclass('pg_temp.veil') IS NULL

-- name: lines_of_key
SELECT line FROM log WHERE scope = %s AND kind = %s AND id = %s

-- name: put_veil
INSERT INTO veil (author, since) VALUES (%s, %s) ON CONFLICT (author) DO UPDATE SET since = excluded.since

-- name: drop_veil
DELETE FROM veil WHERE author = %s

-- name: written_by
SELECT seq FROM log WHERE author = %s AND at >= %s AND seq < %s AND scope <> '_lukasa'

-- name: hide
INSERT INTO hidden (scope, seq, author) SELECT log.scope, log.seq, given.author
FROM (VALUES (%s::bigint, %s::text)) AS given (seq, author) JOIN log ON log.seq = given.seq
ON CONFLICT DO NOTHING

-- name: hidden_by
SELECT seq FROM hidden WHERE author = %s

-- name: reveal
DELETE FROM hidden WHERE author = %s

-- name: key_of_seq
SELECT scope, kind, id FROM log WHERE seq = %s

-- name: made_from
-- Versions derived from a key while its newest version was the given one.
SELECT link.seq FROM (VALUES (%s::bigint, %s::bigint)) AS given (seq, until)
JOIN log AS source ON source.seq = given.seq
JOIN link ON link.target = target_of(source.scope, source.kind, source.id)
WHERE link.relation = 'derived_from' AND link.seq > given.seq AND link.seq < given.until AND link.scope <> '_lukasa'
    AND NOT EXISTS (
        SELECT 1 FROM log AS newer
        WHERE newer.scope = source.scope AND newer.kind = source.kind AND newer.id = source.id
            AND newer.version > source.version AND newer.seq < link.seq)

-- name: key_is_only_hidden
-- The quarantines that hide every version of a key, if every version is hidden.
WITH given (scope, kind, id, until) AS (VALUES (%s::text, %s::text, %s::text, %s::bigint)),
versions AS (
    SELECT log.scope, log.seq FROM given JOIN log ON log.scope = given.scope AND log.kind = given.kind AND log.id = given.id AND log.seq < given.until)
SELECT DISTINCT hidden.author FROM versions JOIN hidden ON hidden.scope = versions.scope AND hidden.seq = versions.seq
WHERE NOT EXISTS (
    SELECT 1 FROM versions AS open WHERE NOT EXISTS (SELECT 1 FROM hidden AS h WHERE h.scope = open.scope AND h.seq = open.seq))

-- name: versions_of_key
SELECT seq, deleted, EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq), NOT live
FROM log WHERE scope = %s AND kind = %s AND id = %s ORDER BY version

-- name: quarantines
SELECT seq, id, version, line FROM log WHERE scope = '_lukasa' AND kind = 'quarantine' ORDER BY seq

-- name: maybe_hidden
-- Versions that a quarantine in force while they were written could have hidden.
SELECT seq, line, digest, at FROM log
WHERE seq > %s AND seq < %s
    AND (author IN (SELECT author FROM veil)
        OR seq IN (SELECT link.seq FROM link WHERE link.relation = 'derived_from'))
ORDER BY seq

-- name: set_live
UPDATE log SET live = %s WHERE seq = %s RETURNING scope, kind, tokens
