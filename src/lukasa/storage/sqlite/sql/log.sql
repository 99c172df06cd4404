-- name: tip
-- Return the newest position; compaction and erasure do not lower it.
SELECT max(coalesce((SELECT max(seq) FROM log), 0), coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'high_water'), 0))

-- name: tip_of_kind
-- Return the newest position of a scope and kind.
SELECT max(seq) FROM log WHERE scope = ? AND kind = ?

-- name: start_of_write
-- Return the newest position, whether any author is in quarantine, and the first position whose text is not indexed.
SELECT max(coalesce((SELECT max(seq) FROM log), 0), coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'high_water'), 0)),
    EXISTS (SELECT 1 FROM quarantine), (SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'unindexed_from')

-- name: has_key
-- Return a row when a key has any version.
SELECT 1 FROM log WHERE scope = ? AND kind = ? AND id = ? LIMIT 1

-- name: has_any_key
-- Return a row when any of some ids of a scope and kind has any version.
SELECT 1 FROM json_each(?3) AS wanted CROSS JOIN log ON log.scope = ?1 AND log.kind = ?2 AND log.id = wanted.value LIMIT 1

-- name: newest_of_key
-- Select a key's newest version, hidden or not: a hidden version's number is taken too.
SELECT seq, version, line ->> 'created_at', line ->> 'deleted' IS NOT NULL,
       EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
FROM log WHERE scope = ? AND kind = ? AND id = ? ORDER BY version DESC LIMIT 1

-- name: newest_visible_of_key
-- Select a key's newest version that no quarantine hides.
SELECT seq, version, line ->> 'created_at', line ->> 'deleted' IS NOT NULL
FROM log WHERE scope = ? AND kind = ? AND id = ?
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
ORDER BY version DESC LIMIT 1

-- name: insert_entry
-- Insert one log entry.
INSERT INTO log (seq, scope, kind, id, version, author, at, moment, digest, line) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_not_current
-- Mark a version as not current.
INSERT OR IGNORE INTO not_current (seq) VALUES (?)

-- name: delete_not_current
-- Mark a version as current.
DELETE FROM not_current WHERE seq = ?

-- name: digest_of_version
-- Return the digest of one version.
SELECT digest FROM log WHERE scope = ? AND kind = ? AND id = ? AND version = ?

-- name: entries_at
-- Select the entries at some positions, in the order in which they are given.
SELECT log.seq, CAST(line AS BLOB), digest FROM json_each(?) AS wanted CROSS JOIN log ON log.seq = wanted.value

-- name: get_version
-- Select one visible version of a key by number.
SELECT seq, CAST(line AS BLOB), digest FROM log WHERE scope = ? AND kind = ? AND id = ? AND version = ?
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)

-- name: get_newest
-- Select a key's newest visible version.
SELECT seq, CAST(line AS BLOB), digest FROM log WHERE scope = ? AND kind = ? AND id = ?
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
ORDER BY version DESC LIMIT 1

-- name: find_newest
-- Return the position of a key's newest visible version.
SELECT seq FROM log WHERE scope = ? AND kind = ? AND id = ?
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
ORDER BY version DESC LIMIT 1

-- name: entry_size
-- Return the bytes of an entry.
SELECT octet_length(line) FROM log WHERE seq = ?

-- name: get_as_of_time
-- Select the newest visible version recorded up to a time.
SELECT seq, CAST(line AS BLOB), digest FROM log WHERE scope = ? AND kind = ? AND id = ? AND at <= ?
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
ORDER BY version DESC LIMIT 1

-- name: get_as_of_seq
-- Select the newest visible version up to a position.
SELECT seq, CAST(line AS BLOB), digest FROM log WHERE scope = ? AND kind = ? AND id = ? AND seq <= ?
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
ORDER BY version DESC LIMIT 1

-- name: history
-- Select a key's visible versions, oldest first.
SELECT seq, CAST(line AS BLOB), digest FROM log WHERE scope = ? AND kind = ? AND id = ?
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
ORDER BY version

-- name: whole_history
-- Select all versions of a key, hidden ones included, oldest first.
SELECT seq, CAST(line AS BLOB), digest FROM log WHERE scope = ? AND kind = ? AND id = ? ORDER BY version

-- name: find_idempotency
-- Select the stored answer to an idempotency key.
SELECT fingerprint, seqs FROM idempotency WHERE key = ?

-- name: insert_idempotency
-- Store the answer to an idempotency key.
INSERT INTO idempotency (key, fingerprint, seqs, at) VALUES (?, ?, ?, ?)

-- name: names_at
-- Select key and version of the entries at some positions.
SELECT log.seq, log.scope, log.kind, log.id, log.version FROM json_each(?) AS wanted CROSS JOIN log ON log.seq = wanted.value

-- name: head_token
-- Return the token that ties the store to its head.
SELECT value FROM meta WHERE name = 'head_token'

-- name: make_head_token
-- Give the store a token for its head, if it has none.
INSERT OR IGNORE INTO meta (name, value) VALUES ('head_token', lower(hex(randomblob(16))))

-- name: renew_head_token
-- Give a copy of a store a token of its own.
UPDATE meta SET value = lower(hex(randomblob(16))) WHERE name = 'head_token'

-- name: raise_high_water
-- Store a position as the newest ever used.
INSERT OR REPLACE INTO meta (name, value) VALUES ('high_water', ?)

-- name: tally
-- Return the counts of every scope and kind.
SELECT scope, kind, live, versions FROM tally ORDER BY scope, kind
