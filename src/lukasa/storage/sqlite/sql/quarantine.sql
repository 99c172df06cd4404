-- name: quarantine_start
-- Return from when an author is in quarantine.
SELECT since FROM quarantine WHERE author = ?

-- name: entries_of_key
-- Select the entries of a key.
SELECT line FROM log WHERE scope = ? AND kind = ? AND id = ?

-- name: put_quarantine
-- Start an author's quarantine.
INSERT INTO quarantine (author, since) VALUES (?, ?) ON CONFLICT (author) DO UPDATE SET since = excluded.since

-- name: delete_quarantine
-- End an author's quarantine.
DELETE FROM quarantine WHERE author = ?

-- name: versions_by_author
-- Select the versions that an author wrote since a time and before a position.
SELECT seq FROM log WHERE author = ?1 AND at >= ?2 AND seq < ?3 AND scope <> '_lukasa'

-- name: hide_version
-- Hide a version by an author's quarantine.
INSERT OR IGNORE INTO hidden (seq, author) VALUES (?, ?)

-- name: hidden_by_author
-- Select the versions that an author's quarantine hides.
SELECT seq FROM hidden WHERE author = ?

-- name: unhide_by_author
-- Show the versions that an author's quarantine hides.
DELETE FROM hidden WHERE author = ?

-- name: key_at
-- Select the key at a position.
SELECT scope, kind, id FROM log WHERE seq = ?

-- name: versions_derived_from
-- Select the versions derived from a key while its newest version was the given one.
SELECT link.seq FROM link JOIN log AS source ON source.seq = ?1
WHERE link.to_scope = source.scope AND link.to_kind = source.kind AND link.to_id = source.id
    AND link.relation = 'derived_from' AND link.seq > ?1 AND link.seq < ?2
    AND NOT EXISTS (SELECT 1 FROM log AS made WHERE made.seq = link.seq AND made.scope = '_lukasa')
    AND NOT EXISTS (
        SELECT 1 FROM log AS newer
        WHERE newer.scope = source.scope AND newer.kind = source.kind AND newer.id = source.id
            AND newer.version > source.version AND newer.seq < link.seq)

-- name: authors_hiding_key
-- Select the authors whose quarantines hide every version of a key; none if a version is visible.
SELECT DISTINCT hidden.author FROM log JOIN hidden ON hidden.seq = log.seq
WHERE log.scope = ?1 AND log.kind = ?2 AND log.id = ?3 AND log.seq < ?4
    AND NOT EXISTS (
        SELECT 1 FROM log AS open WHERE open.scope = ?1 AND open.kind = ?2 AND open.id = ?3 AND open.seq < ?4
            AND NOT EXISTS (SELECT 1 FROM hidden AS h WHERE h.seq = open.seq))

-- name: versions_of_key
-- Select a key's versions: deleted, hidden, not current.
SELECT seq, line ->> 'deleted' IS NOT NULL,
       EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq),
       EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = log.seq)
FROM log WHERE scope = ? AND kind = ? AND id = ? ORDER BY version

-- name: drop_shadow_quarantine
-- Drop the temporary table of quarantines.
DROP TABLE temp.quarantine

-- name: drop_shadow_hidden
-- Drop the temporary table of hidden versions.
DROP TABLE temp.hidden
