-- Each statement derives one index from a stretch of the log. Appending runs them over the new lines,
-- rebuilding runs them over all of it, so there is one definition of each.

-- name: add_words
INSERT INTO words (rowid, text) VALUES (?, ?)

-- name: add_past_words
INSERT INTO past_words (rowid, text) VALUES (?, ?)

-- name: derive_labels
INSERT OR IGNORE INTO label (label, scope, seq)
SELECT each.value, log.scope, log.seq FROM log, json_each(log.line, '$.labels') AS each
WHERE log.seq BETWEEN ? AND ?

-- name: add_mark
INSERT OR IGNORE INTO near (mark, seq) VALUES (?, ?)

-- name: marked_texts
-- The texts of those kinds that are marked.
SELECT seq, scope, kind, line ->> 'text' FROM log
WHERE seq BETWEEN ? AND ? AND kind IN (SELECT value FROM json_each(?)) AND line ->> 'text' IS NOT NULL

-- name: derive_links
INSERT OR IGNORE INTO link (to_scope, to_kind, to_id, relation, seq)
SELECT each.value ->> 'scope', each.value ->> 'kind', each.value ->> 'id', each.value ->> 'relation', log.seq
FROM log, json_each(log.line, '$.links') AS each
WHERE log.seq BETWEEN ? AND ?

-- name: forget_words
INSERT INTO words (words, rowid, text)
SELECT 'delete', seq, line ->> 'text' FROM log WHERE seq = ? AND line ->> 'text' IS NOT NULL

-- name: forget_past_words
INSERT INTO past_words (past_words, rowid, text)
SELECT 'delete', seq, line ->> 'text' FROM log WHERE seq = ? AND line ->> 'text' IS NOT NULL

-- name: remember_words
INSERT INTO words (rowid, text) SELECT seq, line ->> 'text' FROM log WHERE seq = ? AND line ->> 'text' IS NOT NULL

-- name: remember_past_words
INSERT INTO past_words (rowid, text) SELECT seq, line ->> 'text' FROM log WHERE seq = ? AND line ->> 'text' IS NOT NULL

-- name: add_to_tally
INSERT INTO tally (scope, kind, live, versions, checksum) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (scope, kind) DO UPDATE SET live = live + excluded.live, versions = versions + excluded.versions,
    checksum = (checksum + excluded.checksum) & 0x3fffffffffffffff

-- name: drop_empty_tallies
DELETE FROM tally WHERE versions = 0

-- name: note_residue
INSERT OR IGNORE INTO fact (name, value) VALUES ('word_residue', 'yes')

-- name: clear_residue
DELETE FROM fact WHERE name = 'word_residue'

-- name: residue
SELECT 1 FROM fact WHERE name = 'word_residue'
