-- name: all_lines
-- Text comes as bytes: what damage left need not be text any more.
SELECT seq, CAST(scope AS BLOB), CAST(kind AS BLOB), CAST(id AS BLOB), version, CAST(author AS BLOB), at, moment,
    digest, CAST(line AS BLOB)
FROM log WHERE seq > ? ORDER BY seq LIMIT ?

-- name: all_tallies
SELECT scope, kind, live, versions, checksum FROM tally

-- name: count_lines
SELECT count(*) FROM log

-- name: live_counts
SELECT scope, kind, count(*) FROM log WHERE NOT EXISTS (SELECT 1 FROM past WHERE past.seq = log.seq) GROUP BY scope, kind

-- name: wrongly_present
SELECT scope, kind, id, version FROM log
WHERE NOT EXISTS (SELECT 1 FROM past WHERE past.seq = log.seq)
    AND (line ->> 'deleted' IS NOT NULL
        OR EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
        OR EXISTS (SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind
            AND newer.id = log.id AND newer.version > log.version
            AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = newer.seq)))

-- name: wrongly_past
SELECT log.scope, log.kind, log.id, log.version FROM past JOIN log ON log.seq = past.seq
WHERE line ->> 'deleted' IS NULL
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
    AND NOT EXISTS (SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind
        AND newer.id = log.id AND newer.version > log.version
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = newer.seq))

-- name: stray_past
SELECT count(*) FROM past WHERE NOT EXISTS (SELECT 1 FROM log WHERE log.seq = past.seq)

-- name: wrong_labels
SELECT count(*) FROM (
    SELECT * FROM (SELECT label, scope, seq FROM label
        EXCEPT SELECT each.value, log.scope, log.seq FROM log, json_each(log.line, '$.labels') AS each)
    UNION ALL
    SELECT * FROM (SELECT each.value, log.scope, log.seq FROM log, json_each(log.line, '$.labels') AS each
        EXCEPT SELECT label, scope, seq FROM label))

-- name: wrong_links
SELECT count(*) FROM (
    SELECT * FROM (SELECT to_scope, to_kind, to_id, relation, seq FROM link
        EXCEPT SELECT each.value ->> 'scope', each.value ->> 'kind', each.value ->> 'id', each.value ->> 'relation', log.seq
        FROM log, json_each(log.line, '$.links') AS each)
    UNION ALL
    SELECT * FROM (
        SELECT each.value ->> 'scope', each.value ->> 'kind', each.value ->> 'id', each.value ->> 'relation', log.seq
        FROM log, json_each(log.line, '$.links') AS each
        EXCEPT SELECT to_scope, to_kind, to_id, relation, seq FROM link))

-- name: check_words
INSERT INTO words (words, rank) VALUES ('integrity-check', 1)

-- name: check_past_words
INSERT INTO past_words (past_words, rank) VALUES ('integrity-check', 1)

-- name: rebuild_words
INSERT INTO words (words) VALUES ('rebuild')

-- name: rebuild_past_words
INSERT INTO past_words (past_words) VALUES ('rebuild')

-- name: derive_past
INSERT INTO past (seq)
SELECT seq FROM log
WHERE line ->> 'deleted' IS NOT NULL
    OR EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
    OR EXISTS (SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind
        AND newer.id = log.id AND newer.version > log.version
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = newer.seq))

-- name: quarantines
SELECT seq, id, version, line FROM log WHERE scope = '_lukasa' AND kind = 'quarantine' ORDER BY seq

-- name: maybe_hidden
-- Versions that a quarantine in force while they were written could have hidden.
SELECT seq, line, digest, at FROM log
WHERE seq > ?1 AND seq < ?2
    AND (author IN (SELECT author FROM veil)
        OR (line ->> 'links' IS NOT NULL AND line ->> 'links' LIKE '%"derived_from"%'))
ORDER BY seq

-- name: superseded
SELECT log.seq, log.scope, log.kind, log.digest FROM past JOIN log ON log.seq = past.seq
WHERE log.scope <> '_lukasa' AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)
    AND EXISTS (SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind
        AND newer.id = log.id AND newer.version > log.version AND newer.at < ?
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = newer.seq))
    -- What was derived from a record in quarantine is judged by the versions there were, so those all stay.
    AND NOT EXISTS (SELECT 1 FROM log AS veiled JOIN hidden ON hidden.seq = veiled.seq
        WHERE veiled.scope = log.scope AND veiled.kind = log.kind AND veiled.id = log.id)

-- name: rows_of_key
SELECT seq, digest, EXISTS (SELECT 1 FROM past WHERE past.seq = log.seq)
FROM log WHERE scope = ? AND kind = ? AND id = ?

-- name: forget_labels
DELETE FROM label WHERE seq = ?1 AND scope = ?2 AND label IN (SELECT each.value FROM log, json_each(log.line, '$.labels') AS each WHERE log.seq = ?1)

-- name: all_marks
SELECT mark, seq FROM near

-- name: forget_mark
DELETE FROM near WHERE mark = ? AND seq = ?

-- name: forget_links
DELETE FROM link WHERE seq = ?1 AND (to_scope, to_kind, to_id, relation) IN (
    SELECT each.value ->> 'scope', each.value ->> 'kind', each.value ->> 'id', each.value ->> 'relation'
    FROM log, json_each(log.line, '$.links') AS each WHERE log.seq = ?1)

-- name: forget_vectors
DELETE FROM vector WHERE model = ? AND seq = ?

-- name: vector_models
SELECT DISTINCT model FROM vector

-- name: forget_hidden
DELETE FROM hidden WHERE seq = ?

-- name: forget_line
DELETE FROM log WHERE seq = ?

-- name: forget_answers
-- The key stays answered, so that a late repetition does not write again what was erased.
UPDATE answered SET fingerprint = x'',
    seqs = (SELECT json_group_array(each.value) FROM json_each(answered.seqs) AS each WHERE each.value <> ?1)
WHERE EXISTS (SELECT 1 FROM json_each(answered.seqs) AS each WHERE each.value = ?1)

-- name: receipts
SELECT line FROM log WHERE scope = '_lukasa' AND kind = 'erasure' ORDER BY seq

-- name: put_vector
INSERT OR REPLACE INTO vector (model, seq, chunk, sketch, vector)
SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS (SELECT 1 FROM log WHERE seq = ?2)

-- name: note_high_water
INSERT OR REPLACE INTO fact (name, value)
SELECT 'high_water', max(coalesce((SELECT max(seq) FROM log), 0), coalesce((SELECT CAST(value AS INTEGER) FROM fact WHERE name = 'high_water'), 0))

-- name: shadow_veil
CREATE TEMP TABLE veil (author TEXT PRIMARY KEY, since INTEGER NOT NULL) WITHOUT ROWID

-- name: shadow_hidden
CREATE TEMP TABLE hidden (seq INTEGER NOT NULL, author TEXT NOT NULL, PRIMARY KEY (seq, author)) WITHOUT ROWID

-- name: wrong_veils
SELECT count(*) FROM (
    SELECT * FROM (SELECT author, since FROM main.veil EXCEPT SELECT author, since FROM temp.veil)
    UNION ALL SELECT * FROM (SELECT author, since FROM temp.veil EXCEPT SELECT author, since FROM main.veil))

-- name: wrong_hidden
SELECT count(*) FROM (
    SELECT * FROM (SELECT seq, author FROM main.hidden EXCEPT SELECT seq, author FROM temp.hidden)
    UNION ALL SELECT * FROM (SELECT seq, author FROM temp.hidden EXCEPT SELECT seq, author FROM main.hidden))

-- name: reset_live
UPDATE tally SET live = (SELECT count(*) FROM log WHERE log.scope = tally.scope AND log.kind = tally.kind
    AND NOT EXISTS (SELECT 1 FROM past WHERE past.seq = log.seq))
