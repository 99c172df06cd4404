-- name: sketches
SELECT seq, sketch FROM vector INDEXED BY vector_sketches WHERE model = ? AND seq > ? ORDER BY seq

-- name: newest_vector
SELECT max(seq) FROM vector WHERE model = ?

-- name: vectors_at
SELECT model, seq, chunk, sketch, vector FROM vector WHERE model = ? AND seq = ? ORDER BY chunk

-- name: vectors_from
SELECT EXISTS (SELECT 1 FROM vector WHERE model = ? AND seq >= ?)

-- name: edition
-- Counts how often vectors came out of order: whoever keeps sketches in memory then reads them anew.
SELECT CAST(value AS INTEGER) FROM fact WHERE name = 'vectors ' || ?

-- name: new_edition
INSERT INTO fact (name, value) VALUES ('vectors ' || ?, '1') ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1

-- name: vectors_of_seqs
SELECT vector.seq, vector.vector, log.scope FROM json_each(?2) AS wanted
CROSS JOIN log ON log.seq = wanted.value
CROSS JOIN vector ON vector.model = ?1 AND vector.seq = log.seq
WHERE NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)

-- name: live_vectors
SELECT vector.seq, vector.vector FROM json_each(?) AS near CROSS JOIN vector ON vector.model = ? AND vector.seq = near.value
WHERE NOT EXISTS (SELECT 1 FROM past WHERE past.seq = vector.seq)

-- name: without_vectors
-- The text index knows which positions have a text; records without one are not even looked at.
SELECT log.seq, line, digest, scope FROM (
    SELECT id FROM words_docsize WHERE id > coalesce((SELECT max(seq) FROM vector WHERE model = ?1), 0)
    UNION ALL
    SELECT id FROM past_words_docsize WHERE id > coalesce((SELECT max(seq) FROM vector WHERE model = ?1), 0)
    ORDER BY id LIMIT ?2) AS missing
CROSS JOIN log ON log.seq = missing.id

-- name: lacking_vectors
SELECT (SELECT count(*) FROM words_docsize WHERE id > known.seq) + (SELECT count(*) FROM past_words_docsize WHERE id > known.seq)
FROM (SELECT coalesce(max(seq), 0) AS seq FROM vector WHERE model = ?) AS known
