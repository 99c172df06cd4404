-- Each statement derives one index from a range of the log. An append runs it over the new entries, a rebuild over all
-- entries, so each index has one definition. An entry that is not valid JSON has no text, labels or links.

-- name: index_text
-- Add the index form of a text to the index of current versions.
INSERT INTO words (rowid, text) VALUES (?, ?)

-- name: index_past_text
-- Add the index form of a text to the index of versions that are not current.
INSERT INTO past_words (rowid, text) VALUES (?, ?)

-- name: open_text_index
-- Read the structure of the text index, which fails if it is damaged; after a failed insert the transaction could not write on.
SELECT rowid FROM words WHERE words MATCH 'a' LIMIT 1

-- name: note_unindexed
-- Note that the texts from a position on are not indexed.
INSERT INTO meta (name, value) VALUES ('unindexed_from', ?)

-- name: clear_unindexed
-- Note that all texts are indexed.
DELETE FROM meta WHERE name = 'unindexed_from'

-- name: unindexed_texts
-- Select the texts that are not indexed, as bytes, because damaged text need not be valid.
SELECT seq, scope, CAST(text AS BLOB) FROM unindexed_text

-- name: derive_labels
-- Insert the labels of the entries between two positions.
INSERT OR IGNORE INTO label (label, scope, seq)
SELECT item.value, log.scope, log.seq FROM log, json_each(CASE WHEN json_valid(log.line) THEN log.line END, '$.labels') AS item
WHERE log.seq BETWEEN ? AND ?

-- name: insert_label
-- Insert one label of an entry.
INSERT OR IGNORE INTO label (label, scope, seq) VALUES (?, ?, ?)

-- name: insert_duplicate_key
-- Insert one near-duplicate key of a text.
INSERT OR IGNORE INTO duplicate_key (pair_key, seq) VALUES (?, ?)

-- name: near_duplicate_texts
-- Select the texts between two positions whose kinds have near-duplicate keys.
SELECT seq, scope, kind, line ->> 'text' FROM log
WHERE seq BETWEEN ? AND ? AND kind IN (SELECT value FROM json_each(?)) AND CASE WHEN json_valid(line) THEN line ->> 'text' IS NOT NULL END

-- name: derive_links
-- Insert the links of the entries between two positions.
INSERT OR IGNORE INTO link (to_scope, to_kind, to_id, relation, seq)
SELECT item.value ->> 'scope', item.value ->> 'kind', item.value ->> 'id', item.value ->> 'relation', log.seq
FROM log, json_each(CASE WHEN json_valid(log.line) THEN log.line END, '$.links') AS item
WHERE log.seq BETWEEN ? AND ?

-- name: unindex_text
-- Remove a version's text from the index of current versions.
INSERT INTO words (words, rowid, text)
SELECT 'delete', seq, index_form(line ->> 'text') FROM log WHERE seq = ? AND CASE WHEN json_valid(line) THEN line ->> 'text' IS NOT NULL END

-- name: unindex_past_text
-- Remove a version's text from the index of versions that are not current.
INSERT INTO past_words (past_words, rowid, text)
SELECT 'delete', seq, index_form(line ->> 'text') FROM log WHERE seq = ? AND CASE WHEN json_valid(line) THEN line ->> 'text' IS NOT NULL END

-- name: index_text_of_version
-- Add a stored version's text to the index of current versions.
INSERT INTO words (rowid, text) SELECT seq, index_form(line ->> 'text') FROM log WHERE seq = ? AND CASE WHEN json_valid(line) THEN line ->> 'text' IS NOT NULL END

-- name: index_past_text_of_version
-- Add a stored version's text to the index of versions that are not current.
INSERT INTO past_words (rowid, text) SELECT seq, index_form(line ->> 'text') FROM log WHERE seq = ? AND CASE WHEN json_valid(line) THEN line ->> 'text' IS NOT NULL END

-- name: add_to_tally
-- Add changes to the counts and the checksum of a scope and kind.
INSERT INTO tally (scope, kind, live, versions, checksum) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (scope, kind) DO UPDATE SET live = live + excluded.live, versions = versions + excluded.versions,
    checksum = (checksum + excluded.checksum) & 0x3fffffffffffffff

-- name: delete_empty_tallies
-- Delete the counts of scopes and kinds without versions.
DELETE FROM tally WHERE versions = 0

-- name: note_residue
-- Note that the text index may hold words of removed texts.
INSERT OR IGNORE INTO meta (name, value) VALUES ('word_residue', 'yes')

-- name: clear_residue
-- Note that the text index holds no words of removed texts.
DELETE FROM meta WHERE name = 'word_residue'

-- name: has_residue
-- Return a row when the text index may hold words of removed texts.
SELECT 1 FROM meta WHERE name = 'word_residue'
