-- name: all_entries
-- Select a page of entries. Text comes as bytes, because damaged text need not be valid.
SELECT seq, CAST(scope AS BLOB), CAST(kind AS BLOB), CAST(id AS BLOB), version, CAST(author AS BLOB), at, moment,
    digest, CAST(line AS BLOB)
FROM log WHERE seq > ? ORDER BY seq LIMIT ?

-- name: all_tallies
-- Select the counts and checksums of all scopes and kinds.
SELECT scope, kind, live, versions, checksum FROM tally

-- name: count_entries
-- Count the entries.
SELECT count(*) FROM log

-- name: live_counts
-- Count the current versions of each scope and kind.
SELECT scope, kind, count(*) FROM log WHERE NOT EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = log.seq) GROUP BY scope, kind

-- name: wrongly_current
-- Select versions that count as current but are not.
SELECT scope, kind, id, version FROM log
WHERE NOT EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = log.seq)
    AND (CASE WHEN json_valid(line) THEN line ->> 'deleted' IS NOT NULL END
        OR EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
        OR EXISTS (SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind
            AND newer.id = log.id AND newer.version > log.version
            AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = newer.seq)))

-- name: wrongly_not_current
-- Select versions that count as not current but are.
SELECT log.scope, log.kind, log.id, log.version FROM not_current JOIN log ON log.seq = not_current.seq
WHERE CASE WHEN json_valid(line) THEN line ->> 'deleted' IS NULL ELSE TRUE END
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
    AND NOT EXISTS (SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind
        AND newer.id = log.id AND newer.version > log.version
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = newer.seq))

-- name: stray_not_current
-- Count not-current marks without a version.
SELECT count(*) FROM not_current WHERE NOT EXISTS (SELECT 1 FROM log WHERE log.seq = not_current.seq)

-- name: wrong_labels
-- Count the label rows that differ from the log.
SELECT count(*) FROM (
    SELECT * FROM (SELECT label, scope, seq FROM label
        EXCEPT SELECT item.value, log.scope, log.seq FROM log, json_each(CASE WHEN json_valid(log.line) THEN log.line END, '$.labels') AS item)
    UNION ALL
    SELECT * FROM (SELECT item.value, log.scope, log.seq FROM log, json_each(CASE WHEN json_valid(log.line) THEN log.line END, '$.labels') AS item
        EXCEPT SELECT label, scope, seq FROM label))

-- name: wrong_links
-- Count the link rows that differ from the log.
SELECT count(*) FROM (
    SELECT * FROM (SELECT to_scope, to_kind, to_id, relation, seq FROM link
        EXCEPT SELECT item.value ->> 'scope', item.value ->> 'kind', item.value ->> 'id', item.value ->> 'relation', log.seq
        FROM log, json_each(CASE WHEN json_valid(log.line) THEN log.line END, '$.links') AS item)
    UNION ALL
    SELECT * FROM (
        SELECT item.value ->> 'scope', item.value ->> 'kind', item.value ->> 'id', item.value ->> 'relation', log.seq
        FROM log, json_each(CASE WHEN json_valid(log.line) THEN log.line END, '$.links') AS item
        EXCEPT SELECT to_scope, to_kind, to_id, relation, seq FROM link))

-- name: check_words
-- Compare the text index of current versions with the log.
INSERT INTO words (words, rank) VALUES ('integrity-check', 1)

-- name: check_past_words
-- Compare the text index of versions that are not current with the log.
INSERT INTO past_words (past_words, rank) VALUES ('integrity-check', 1)

-- name: rebuild_words
-- Rebuild the text index of current versions.
INSERT INTO words (words) VALUES ('rebuild')

-- name: rebuild_past_words
-- Rebuild the text index of versions that are not current.
INSERT INTO past_words (past_words) VALUES ('rebuild')

-- name: derive_not_current
-- Mark every version that is not current: tombstones, hidden and superseded versions.
INSERT INTO not_current (seq)
SELECT seq FROM log
WHERE CASE WHEN json_valid(line) THEN line ->> 'deleted' IS NOT NULL END
    OR EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
    OR EXISTS (SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind
        AND newer.id = log.id AND newer.version > log.version
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = newer.seq))

-- name: quarantine_records
-- Select the records that start and end quarantines, in log order.
SELECT seq, id, version, line FROM log WHERE scope = '_lukasa' AND kind = 'quarantine' ORDER BY seq

-- name: maybe_hidden
-- Select the versions between two positions that a quarantine in force could hide.
SELECT seq, line, digest, at FROM log
WHERE seq > ?1 AND seq < ?2
    AND (author IN (SELECT author FROM quarantine)
        OR CASE WHEN json_valid(line) THEN line ->> 'links' LIKE '%"derived_from"%' END)
ORDER BY seq

-- name: superseded
-- Select the versions that compaction may drop; a key with hidden versions keeps all, because they decide what is hidden.
SELECT log.seq, log.scope, log.kind, log.digest FROM not_current JOIN log ON log.seq = not_current.seq
WHERE log.scope <> '_lukasa' AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
    AND EXISTS (SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind
        AND newer.id = log.id AND newer.version > log.version AND newer.at < ?
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = newer.seq))
    AND NOT EXISTS (SELECT 1 FROM log AS quarantined JOIN hidden ON hidden.seq = quarantined.seq
        WHERE quarantined.scope = log.scope AND quarantined.kind = log.kind AND quarantined.id = log.id)

-- name: versions_to_erase
-- Select all versions of a key.
SELECT seq, digest, EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = log.seq)
FROM log WHERE scope = ? AND kind = ? AND id = ?

-- name: delete_labels
-- Delete the labels of a version.
DELETE FROM label WHERE seq = ?1 AND scope = ?2 AND label IN (SELECT item.value FROM log, json_each(CASE WHEN json_valid(log.line) THEN log.line END, '$.labels') AS item WHERE log.seq = ?1)

-- name: all_duplicate_keys
-- Select all near-duplicate keys.
SELECT pair_key, seq FROM duplicate_key

-- name: delete_duplicate_key
-- Delete one near-duplicate key of a text.
DELETE FROM duplicate_key WHERE pair_key = ? AND seq = ?

-- name: delete_links
-- Delete the links of a version.
DELETE FROM link WHERE seq = ?1 AND (to_scope, to_kind, to_id, relation) IN (
    SELECT item.value ->> 'scope', item.value ->> 'kind', item.value ->> 'id', item.value ->> 'relation'
    FROM log, json_each(CASE WHEN json_valid(log.line) THEN log.line END, '$.links') AS item WHERE log.seq = ?1)

-- name: delete_vectors
-- Delete the vectors of a version.
DELETE FROM vector WHERE place BETWEEN (SELECT first_place + (?2 << 12) FROM model WHERE name = ?1)
    AND (SELECT first_place + (?2 << 12 | 0xfff) FROM model WHERE name = ?1)

-- name: vector_models
-- Select the models that have or had vectors.
SELECT name FROM model

-- name: delete_hidden
-- Delete the marks of quarantines on a version.
DELETE FROM hidden WHERE seq = ?

-- name: delete_entry
-- Delete one log entry.
DELETE FROM log WHERE seq = ?

-- name: clear_idempotency
-- Remove a position from stored answers. The key stays known, so that a late repetition does not write erased content again.
UPDATE idempotency SET fingerprint = x'',
    seqs = (SELECT json_group_array(item.value) FROM json_each(idempotency.seqs) AS item WHERE item.value <> ?1)
WHERE EXISTS (SELECT 1 FROM json_each(idempotency.seqs) AS item WHERE item.value = ?1)

-- name: erasure_receipts
-- Select the receipts of erasures.
SELECT line FROM log WHERE scope = '_lukasa' AND kind = 'erasure' ORDER BY seq

-- name: put_vector
-- Store one vector by its place.
INSERT OR REPLACE INTO vector (place, vector) VALUES (?, ?)

-- name: note_high_water
-- Store the newest position ever used.
INSERT OR REPLACE INTO meta (name, value)
SELECT 'high_water', max(coalesce((SELECT max(seq) FROM log), 0), coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'high_water'), 0))

-- name: shadow_quarantine
-- Create a temporary table that hides the stored quarantines.
CREATE TEMP TABLE quarantine (author TEXT PRIMARY KEY, since INTEGER NOT NULL) WITHOUT ROWID

-- name: shadow_hidden
-- Create a temporary table that hides the stored marks of quarantines.
CREATE TEMP TABLE hidden (seq INTEGER NOT NULL, author TEXT NOT NULL, PRIMARY KEY (seq, author)) WITHOUT ROWID

-- name: wrong_quarantines
-- Count the stored quarantines that differ from the rebuilt ones.
SELECT count(*) FROM (
    SELECT * FROM (SELECT author, since FROM main.quarantine EXCEPT SELECT author, since FROM temp.quarantine)
    UNION ALL SELECT * FROM (SELECT author, since FROM temp.quarantine EXCEPT SELECT author, since FROM main.quarantine))

-- name: wrong_hidden
-- Count the stored marks of quarantines that differ from the rebuilt ones.
SELECT count(*) FROM (
    SELECT * FROM (SELECT seq, author FROM main.hidden EXCEPT SELECT seq, author FROM temp.hidden)
    UNION ALL SELECT * FROM (SELECT seq, author FROM temp.hidden EXCEPT SELECT seq, author FROM main.hidden))

-- name: reset_live
-- Count the current versions again.
UPDATE tally SET live = (SELECT count(*) FROM log WHERE log.scope = tally.scope AND log.kind = tally.kind
    AND NOT EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = log.seq))

-- name: select_schema
-- Return all tables, indexes and views.
SELECT type, name, sql FROM sqlite_schema

-- name: count_schema
-- Count the tables, indexes and views.
SELECT count(*) FROM sqlite_schema

-- name: copy_database
-- Write a copy of the database to a new file.
VACUUM INTO ?
