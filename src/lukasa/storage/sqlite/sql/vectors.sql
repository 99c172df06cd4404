-- name: sketch_blocks
-- Select the blocks of a model's sketches that end after a position. Bytes are asked for, because a damaged row may name another type.
SELECT last_seq, CAST(coalesce(seqs, '') AS BLOB), CAST(coalesce(sketches, '') AS BLOB) FROM sketch_block
WHERE model = (SELECT number FROM model WHERE name = ?) AND last_seq > ? ORDER BY last_seq

-- name: count_sketches
-- Count the sketches in the blocks of a model that end after a position.
SELECT coalesce(sum(length(seqs)), 0) / 8 FROM sketch_block WHERE model = (SELECT number FROM model WHERE name = ?) AND last_seq > ?

-- name: end_of_blocks
-- Return the position at which the last block of a model ends.
SELECT coalesce(max(last_seq), 0) FROM sketch_block WHERE model = (SELECT number FROM model WHERE name = ?)

-- name: blocks_at
-- Select start and end of the blocks of a model in which some positions are.
SELECT DISTINCT coalesce((SELECT max(last_seq) FROM sketch_block AS earlier WHERE earlier.model = block.model AND earlier.last_seq < block.last_seq), 0), block.last_seq
FROM json_each(?2) AS wanted CROSS JOIN sketch_block AS block
WHERE block.model = (SELECT number FROM model WHERE name = ?1) AND block.last_seq = (
    SELECT min(later.last_seq) FROM sketch_block AS later WHERE later.model = block.model AND later.last_seq >= wanted.value)

-- name: put_sketch_block
-- Store one block of a model's sketches.
INSERT OR REPLACE INTO sketch_block (model, last_seq, seqs, sketches) SELECT number, ?2, ?3, ?4 FROM model WHERE name = ?1

-- name: delete_sketch_blocks
-- Delete all blocks of a model's sketches.
DELETE FROM sketch_block WHERE model = (SELECT number FROM model WHERE name = ?)

-- name: first_place
-- Return the first place of a model's vectors.
SELECT first_place FROM model WHERE name = ?

-- name: missing_positions
-- Select those of some positions at which there is no entry.
SELECT wanted.value FROM json_each(?) AS wanted WHERE NOT EXISTS (SELECT 1 FROM log WHERE log.seq = wanted.value)

-- name: put_model
-- Register a model.
INSERT OR IGNORE INTO model (name) VALUES (?)

-- name: vectors_between
-- Select the vectors of a model after a position and up to another one.
SELECT vector.seq, CAST(coalesce(vector.vector, '') AS BLOB) FROM model
CROSS JOIN vector ON vector.place > model.first_place + (?2 << 12 | 0xfff) AND vector.place <= model.first_place + (?3 << 12 | 0xfff)
WHERE model.name = ?1 ORDER BY vector.place

-- name: count_vectors
-- Count the vectors of a model, up to a limit.
SELECT count(*) FROM (
    SELECT 1 FROM model CROSS JOIN vector ON vector.place BETWEEN model.first_place AND model.first_place + 0xfffffffffffff
    WHERE model.name = ? LIMIT ?)

-- name: vectors_after
-- Select the vectors of a model after a position.
SELECT vector.seq, CAST(coalesce(vector.vector, '') AS BLOB) FROM model
CROSS JOIN vector ON vector.place > model.first_place + (?2 << 12 | 0xfff) AND vector.place <= model.first_place + 0xfffffffffffff
WHERE model.name = ?1 ORDER BY vector.place

-- name: newest_vector
-- Return the newest position with a vector of a model.
SELECT seq FROM newest_vector WHERE model = ?

-- name: vectors_at
-- Select the vectors of one version.
SELECT vector.seq, vector.chunk, CAST(coalesce(vector.vector, '') AS BLOB) FROM model
CROSS JOIN vector ON vector.place BETWEEN model.first_place + (?2 << 12) AND model.first_place + (?2 << 12 | 0xfff)
WHERE model.name = ?1 ORDER BY vector.place

-- name: vector_edition
-- Return how often vectors of a model were written out of order; a changed number makes cached sketches stale.
SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'vectors ' || ?

-- name: raise_vector_edition
-- Note that vectors of a model were written out of order.
INSERT INTO meta (name, value) VALUES ('vectors ' || ?, '1') ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1

-- name: vectors_of_positions
-- Select the vectors of a model at some positions.
SELECT vector.seq, CAST(coalesce(vector.vector, '') AS BLOB), log.scope FROM model CROSS JOIN json_each(?2) AS wanted
CROSS JOIN log ON log.seq = wanted.value
CROSS JOIN vector ON vector.place BETWEEN model.first_place + (wanted.value << 12) AND model.first_place + (wanted.value << 12 | 0xfff)
WHERE model.name = ?1 AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)

-- name: vectors_of_matches
-- Select the vectors of a model at positions whose entries were read before.
SELECT vector.seq, CAST(coalesce(vector.vector, '') AS BLOB) FROM model CROSS JOIN json_each(?2) AS wanted
CROSS JOIN vector ON vector.place BETWEEN model.first_place + (wanted.value << 12) AND model.first_place + (wanted.value << 12 | 0xfff)
WHERE model.name = ?1

-- name: current_vectors
-- Select the vectors of a model at some positions, current versions only.
SELECT vector.seq, CAST(coalesce(vector.vector, '') AS BLOB) FROM model CROSS JOIN json_each(?2) AS wanted
CROSS JOIN vector ON vector.place BETWEEN model.first_place + (wanted.value << 12) AND model.first_place + (wanted.value << 12 | 0xfff)
WHERE model.name = ?1 AND NOT EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = wanted.value)

-- name: current_texts_at
-- Select those of some positions at which the text index has a current text.
SELECT words_docsize.id FROM json_each(?) AS wanted CROSS JOIN words_docsize ON words_docsize.id = wanted.value
WHERE NOT EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = words_docsize.id)

-- name: without_vectors
-- Select the next versions without a vector of a model; the text index, and the log after it, name those that have a text.
SELECT log.seq, CAST(line AS BLOB), digest, scope FROM (
    SELECT id FROM words_docsize WHERE id > coalesce((SELECT seq FROM newest_vector WHERE model = ?1), 0)
    UNION ALL
    SELECT id FROM past_words_docsize WHERE id > coalesce((SELECT seq FROM newest_vector WHERE model = ?1), 0)
    UNION ALL
    SELECT seq FROM unindexed_text WHERE seq > coalesce((SELECT seq FROM newest_vector WHERE model = ?1), 0)
    ORDER BY id LIMIT ?2) AS missing
CROSS JOIN log ON log.seq = missing.id

-- name: count_without_vectors
-- Count the versions without a vector of a model.
SELECT (SELECT count(*) FROM words_docsize WHERE id > known.seq) + (SELECT count(*) FROM past_words_docsize WHERE id > known.seq)
    + (SELECT count(*) FROM unindexed_text WHERE unindexed_text.seq > known.seq)
FROM (SELECT coalesce((SELECT seq FROM newest_vector WHERE model = ?), 0) AS seq) AS known

-- name: count_without_vectors_within
-- Count the versions of some scopes without a vector of a model.
SELECT count(*) FROM (SELECT coalesce((SELECT seq FROM newest_vector WHERE model = ?), 0) AS seq) AS known
CROSS JOIN log ON log.seq > known.seq AND log.scope IN (SELECT value FROM json_each(?))
    AND (EXISTS (SELECT 1 FROM words_docsize WHERE id = log.seq) OR EXISTS (SELECT 1 FROM past_words_docsize WHERE id = log.seq)
        OR EXISTS (SELECT 1 FROM unindexed_text WHERE unindexed_text.seq = log.seq))

-- name: delete_vectors_from
-- Delete the vectors of a model from a position on; recall makes them again.
DELETE FROM vector WHERE place BETWEEN (SELECT first_place + (?2 << 12) FROM model WHERE name = ?1)
    AND (SELECT first_place + 0xfffffffffffff FROM model WHERE name = ?1)
