-- name: sketches
SELECT seq, sketch FROM vector INDEXED BY vector_sketches WHERE model = ? AND seq > ? ORDER BY seq

-- name: vectors_from
SELECT EXISTS (SELECT 1 FROM vector WHERE model = ? AND seq >= ?)

-- name: edition
-- Counts how often vectors came out of order: whoever keeps sketches in memory then reads them anew.
SELECT CAST(value AS INTEGER) FROM fact WHERE name = 'vectors ' || ?

-- name: new_edition
INSERT INTO fact (name, value) VALUES ('vectors ' || ?, '1') ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1

-- name: vectors_of_seqs
SELECT vector.seq, vector.vector, log.scope FROM json_each(?2) AS wanted
JOIN vector ON vector.model = ?1 AND vector.seq = wanted.value
JOIN log ON log.seq = vector.seq
WHERE NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)

-- name: without_vectors
SELECT seq, line, digest, scope FROM log
WHERE seq > coalesce((SELECT max(seq) FROM vector WHERE model = ?1), 0) AND line ->> 'text' IS NOT NULL
ORDER BY seq LIMIT ?2
