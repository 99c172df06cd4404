-- name: sketches
-- Select the sketches of a model after a position. Bytes are asked for, because a damaged row may name another type.
SELECT seq, CAST(coalesce(sketch, '') AS BLOB) FROM vector INDEXED BY vector_sketches WHERE model = ? AND seq > ? ORDER BY seq

-- name: count_vectors
-- Count the vectors of a model, up to a limit.
SELECT count(*) FROM (SELECT 1 FROM vector INDEXED BY vector_sketches WHERE model = ? LIMIT ?)

-- name: vectors_after
-- Select the vectors of a model after a position.
SELECT seq, CAST(coalesce(vector, '') AS BLOB) FROM vector WHERE model = ? AND seq > ? ORDER BY seq, chunk

-- name: newest_vector
-- Return the newest position with a vector of a model.
SELECT max(seq) FROM vector WHERE model = ?

-- name: vectors_at
-- Select the vectors of one version.
SELECT model, seq, chunk, CAST(coalesce(sketch, '') AS BLOB), CAST(coalesce(vector, '') AS BLOB) FROM vector WHERE model = ? AND seq = ? ORDER BY chunk

-- name: has_vectors_from
-- Return whether a model has vectors at or after a position.
SELECT EXISTS (SELECT 1 FROM vector WHERE model = ? AND seq >= ?)

-- name: vector_edition
-- Return how often vectors of a model were written out of order; a changed number makes cached sketches stale.
SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'vectors ' || ?

-- name: raise_vector_edition
-- Note that vectors of a model were written out of order.
INSERT INTO meta (name, value) VALUES ('vectors ' || ?, '1') ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1

-- name: vectors_of_positions
-- Select the vectors of a model at some positions.
SELECT vector.seq, CAST(coalesce(vector.vector, '') AS BLOB), log.scope FROM json_each(?2) AS wanted
CROSS JOIN log ON log.seq = wanted.value
CROSS JOIN vector ON vector.model = ?1 AND vector.seq = log.seq
WHERE NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)

-- name: current_vectors
-- Select the vectors of a model at some positions, current versions only.
SELECT vector.seq, CAST(coalesce(vector.vector, '') AS BLOB) FROM json_each(?) AS wanted CROSS JOIN vector ON vector.model = ? AND vector.seq = wanted.value
WHERE NOT EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = vector.seq)

-- name: without_vectors
-- Select the next versions without a vector of a model; the text index names the versions that have a text.
SELECT log.seq, CAST(line AS BLOB), digest, scope FROM (
    SELECT id FROM words_docsize WHERE id > coalesce((SELECT max(seq) FROM vector WHERE model = ?1), 0)
    UNION ALL
    SELECT id FROM past_words_docsize WHERE id > coalesce((SELECT max(seq) FROM vector WHERE model = ?1), 0)
    ORDER BY id LIMIT ?2) AS missing
CROSS JOIN log ON log.seq = missing.id

-- name: count_without_vectors
-- Count the versions without a vector of a model.
SELECT (SELECT count(*) FROM words_docsize WHERE id > known.seq) + (SELECT count(*) FROM past_words_docsize WHERE id > known.seq)
FROM (SELECT coalesce(max(seq), 0) AS seq FROM vector WHERE model = ?) AS known

-- name: count_without_vectors_within
-- Count the versions of some scopes without a vector of a model.
SELECT count(*) FROM (SELECT coalesce(max(seq), 0) AS seq FROM vector WHERE model = ?) AS known
CROSS JOIN log ON log.seq > known.seq AND log.scope IN (SELECT value FROM json_each(?))
    AND (EXISTS (SELECT 1 FROM words_docsize WHERE id = log.seq) OR EXISTS (SELECT 1 FROM past_words_docsize WHERE id = log.seq))

-- name: all_vectors
-- Select position, sketch and vector of all vectors of a model.
SELECT seq, CAST(coalesce(sketch, '') AS BLOB), CAST(coalesce(vector, '') AS BLOB) FROM vector WHERE model = ? ORDER BY seq

-- name: delete_vectors_from
-- Delete the vectors of a model from a position on; recall makes them again.
DELETE FROM vector WHERE model = ? AND seq >= ?
