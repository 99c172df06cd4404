-- name: veil_of
SELECT since FROM veil WHERE author = ?

-- name: lines_of_key
SELECT line FROM log WHERE scope = ? AND kind = ? AND id = ?

-- name: put_veil
INSERT INTO veil (author, since) VALUES (?, ?) ON CONFLICT (author) DO UPDATE SET since = excluded.since

-- name: drop_veil
DELETE FROM veil WHERE author = ?

-- name: written_by
SELECT seq FROM log WHERE author = ? AND at >= ? AND seq < ? AND scope <> '_lukasa'

-- name: hide
INSERT OR IGNORE INTO hidden (seq, author) VALUES (?, ?)

-- name: hidden_by
SELECT seq FROM hidden WHERE author = ?

-- name: reveal
DELETE FROM hidden WHERE author = ?

-- name: key_of_seq
SELECT scope, kind, id FROM log WHERE seq = ?

-- name: made_from
-- Versions derived from a key while its newest version was the given one.
SELECT link.seq FROM link JOIN log AS source ON source.seq = ?1
WHERE link.to_scope = source.scope AND link.to_kind = source.kind AND link.to_id = source.id
    AND link.relation = 'derived_from' AND link.seq > ?1 AND link.seq < ?2
    AND NOT EXISTS (SELECT 1 FROM log AS made WHERE made.seq = link.seq AND made.scope = '_lukasa')
    AND NOT EXISTS (
        SELECT 1 FROM log AS newer
        WHERE newer.scope = source.scope AND newer.kind = source.kind AND newer.id = source.id
            AND newer.version > source.version AND newer.seq < link.seq)

-- name: key_is_only_hidden
-- The quarantines that hide every version of a key, if every version is hidden.
SELECT DISTINCT hidden.author FROM log JOIN hidden ON hidden.seq = log.seq
WHERE log.scope = ?1 AND log.kind = ?2 AND log.id = ?3 AND log.seq < ?4
    AND NOT EXISTS (
        SELECT 1 FROM log AS open WHERE open.scope = ?1 AND open.kind = ?2 AND open.id = ?3 AND open.seq < ?4
            AND NOT EXISTS (SELECT 1 FROM hidden AS h WHERE h.seq = open.seq))

-- name: versions_of_key
SELECT seq, line ->> 'deleted' IS NOT NULL,
       EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq),
       EXISTS (SELECT 1 FROM past WHERE past.seq = log.seq)
FROM log WHERE scope = ? AND kind = ? AND id = ? ORDER BY version
