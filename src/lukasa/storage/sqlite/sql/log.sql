-- name: tip
SELECT max(coalesce((SELECT max(seq) FROM log), 0), coalesce((SELECT CAST(value AS INTEGER) FROM fact WHERE name = 'high_water'), 0))

-- name: tip_of_kind
SELECT max(seq) FROM log WHERE scope = ? AND kind = ?

-- name: tip_and_veils
SELECT max(coalesce((SELECT max(seq) FROM log), 0), coalesce((SELECT CAST(value AS INTEGER) FROM fact WHERE name = 'high_water'), 0)),
    EXISTS (SELECT 1 FROM veil)

-- name: newest_of_key
-- The newest version of a key and whether it is hidden; hidden or not, its number is taken.
SELECT seq, version, line ->> 'created_at', line ->> 'deleted' IS NOT NULL,
       EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
FROM log WHERE scope = ? AND kind = ? AND id = ? ORDER BY version DESC LIMIT 1

-- name: newest_visible_of_key
SELECT seq, version, line ->> 'created_at', line ->> 'deleted' IS NOT NULL
FROM log WHERE scope = ? AND kind = ? AND id = ?
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
ORDER BY version DESC LIMIT 1

-- name: insert_line
INSERT INTO log (seq, scope, kind, id, version, author, at, moment, digest, line) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_past
INSERT OR IGNORE INTO past (seq) VALUES (?)

-- name: delete_past
DELETE FROM past WHERE seq = ?

-- name: digest_of_version
SELECT digest FROM log WHERE scope = ? AND kind = ? AND id = ? AND version = ?

-- name: lines_of_seqs
SELECT log.seq, line, digest FROM json_each(?) AS wanted CROSS JOIN log ON log.seq = wanted.value ORDER BY log.seq

-- name: get_version
SELECT seq, line, digest FROM log WHERE scope = ? AND kind = ? AND id = ? AND version = ?
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)

-- name: get_now
SELECT seq, line, digest FROM log WHERE scope = ? AND kind = ? AND id = ?
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
ORDER BY version DESC LIMIT 1

-- name: get_as_of_time
SELECT seq, line, digest FROM log WHERE scope = ? AND kind = ? AND id = ? AND at <= ?
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
ORDER BY version DESC LIMIT 1

-- name: get_as_of_seq
SELECT seq, line, digest FROM log WHERE scope = ? AND kind = ? AND id = ? AND seq <= ?
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
ORDER BY version DESC LIMIT 1

-- name: history
SELECT seq, line, digest FROM log WHERE scope = ? AND kind = ? AND id = ?
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
ORDER BY version

-- name: whole_history
SELECT seq, line, digest FROM log WHERE scope = ? AND kind = ? AND id = ? ORDER BY version

-- name: answered
SELECT fingerprint, seqs FROM answered WHERE key = ?

-- name: insert_answered
INSERT INTO answered (key, fingerprint, seqs, at) VALUES (?, ?, ?, ?)
