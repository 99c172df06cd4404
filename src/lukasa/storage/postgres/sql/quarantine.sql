-- name: quarantine_start
-- Return from when an author is in quarantine. A role without access to the table asks the function instead;
-- while verify runs, the temporary table of the same name counts.
WITH asked (author) AS (VALUES (%s::text))
SELECT quarantine.since FROM asked JOIN quarantine ON quarantine.author = asked.author
UNION SELECT since FROM asked, quarantine_start(asked.author) AS since WHERE since IS NOT NULL AND to_regclass('pg_temp.quarantine') IS NULL

-- name: entries_of_key
-- Select the entries of a key.
SELECT line FROM log WHERE scope = %s AND kind = %s AND id = %s

-- name: put_quarantine
-- Start an author's quarantine.
INSERT INTO quarantine (author, since) VALUES (%s, %s) ON CONFLICT (author) DO UPDATE SET since = excluded.since

-- name: delete_quarantine
-- End an author's quarantine.
DELETE FROM quarantine WHERE author = %s

-- name: versions_by_author
-- Select the versions that an author wrote since a time and before a position.
WITH asked (author, since, position) AS (VALUES (%s::text, %s::bigint, %s::bigint))
SELECT log.seq FROM asked JOIN log ON log.author = asked.author
WHERE log.at >= asked.since AND log.seq < asked.position AND log.scope <> '_lukasa'

-- name: hide_version
-- Hide a version by an author's quarantine.
INSERT INTO hidden (scope, seq, author) SELECT log.scope, log.seq, given.author
FROM (VALUES (%s::bigint, %s::text)) AS given (seq, author) JOIN log ON log.seq = given.seq
ON CONFLICT DO NOTHING

-- name: hidden_by_author
-- Select the versions that an author's quarantine hides.
SELECT seq FROM hidden WHERE author = %s

-- name: unhide_by_author
-- Show the versions that an author's quarantine hides.
DELETE FROM hidden WHERE author = %s

-- name: key_at
-- Select the key at a position.
SELECT scope, kind, id FROM log WHERE seq = %s

-- name: versions_derived_from
-- Select the versions derived from a key while its newest version was the given one.
SELECT link.seq FROM (VALUES (%s::bigint, %s::bigint)) AS given (seq, until)
JOIN log AS source ON source.seq = given.seq
JOIN link ON link.target = target_of(source.scope, source.kind, source.id)
WHERE link.relation = 'derived_from' AND link.seq > given.seq AND link.seq < given.until AND link.scope <> '_lukasa'
    AND NOT EXISTS (
        SELECT 1 FROM log AS newer
        WHERE newer.scope = source.scope AND newer.kind = source.kind AND newer.id = source.id
            AND newer.version > source.version AND newer.seq < link.seq)

-- name: authors_hiding_key
-- Select the authors whose quarantines hide every version of a key; none if a version is visible.
WITH given (scope, kind, id, until) AS (VALUES (%s::text, %s::text, %s::text, %s::bigint)),
versions AS (
    SELECT log.scope, log.seq FROM given JOIN log ON log.scope = given.scope AND log.kind = given.kind AND log.id = given.id AND log.seq < given.until)
SELECT DISTINCT hidden.author FROM versions JOIN hidden ON hidden.scope = versions.scope AND hidden.seq = versions.seq
WHERE NOT EXISTS (
    SELECT 1 FROM versions AS open WHERE NOT EXISTS (SELECT 1 FROM hidden AS h WHERE h.scope = open.scope AND h.seq = open.seq))

-- name: versions_of_key
-- Select a key's versions: deleted, hidden, not current.
SELECT seq, deleted, EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq), NOT live
FROM log WHERE scope = %s AND kind = %s AND id = %s ORDER BY version

-- name: quarantine_records
-- Select the records that start and end quarantines, in log order.
SELECT seq, id, version, line FROM log WHERE scope = '_lukasa' AND kind = 'quarantine' ORDER BY seq

-- name: maybe_hidden
-- Select the versions between two positions that a quarantine in force could hide.
SELECT seq, line, digest, at FROM log
WHERE seq > %s AND seq < %s
    AND (author IN (SELECT author FROM quarantine)
        OR seq IN (SELECT link.seq FROM link WHERE link.relation = 'derived_from'))
ORDER BY seq

-- name: set_live
-- Set whether a version is current.
UPDATE log SET live = %s WHERE seq = %s RETURNING scope, kind, tokens
