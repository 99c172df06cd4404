-- name: frequency
SELECT term, doc FROM json_each(?) AS wanted JOIN word_counts ON word_counts.term = wanted.value

-- name: frequency_within
-- Counted one by one, so only so far: who reaches little of a large store cannot be told what the rest of it holds.
SELECT count(*) FROM (
    SELECT 1 FROM words JOIN log ON log.seq = words.rowid
    WHERE words MATCH ?1 AND log.scope IN (SELECT value FROM json_each(?2)) LIMIT ?3)

-- name: beside
-- The live records of the same kind next to each in its session; each comes with the label of its session.
SELECT log.seq,
    (SELECT l.seq FROM label AS l CROSS JOIN log AS other ON other.seq = l.seq
        WHERE l.label = wanted.value AND l.scope = log.scope AND l.seq < log.seq AND other.kind = log.kind
            AND NOT EXISTS (SELECT 1 FROM past WHERE past.seq = l.seq) ORDER BY l.seq DESC LIMIT 1),
    (SELECT l.seq FROM label AS l CROSS JOIN log AS other ON other.seq = l.seq
        WHERE l.label = wanted.value AND l.scope = log.scope AND l.seq > log.seq AND other.kind = log.kind
            AND NOT EXISTS (SELECT 1 FROM past WHERE past.seq = l.seq) ORDER BY l.seq LIMIT 1)
FROM json_each(?) AS wanted CROSS JOIN log ON log.seq = CAST(wanted.key AS INTEGER)

-- name: texts_of_seqs
SELECT log.seq, log.line ->> 'text', log.scope FROM json_each(?) AS wanted CROSS JOIN log ON log.seq = wanted.value
WHERE NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)

-- name: labelled
SELECT count(*) FROM (
    SELECT 1 FROM json_each(?2) AS place CROSS JOIN label ON label.label = ?1 AND label.scope = place.value LIMIT ?3)

-- name: authors
-- Of the latest records of a scope and kind, from the index alone.
SELECT DISTINCT author FROM (
    SELECT author FROM log INDEXED BY log_by_kind WHERE scope = ? AND kind = ? ORDER BY seq DESC LIMIT ?)
WHERE author <> ''

-- name: bearing
SELECT near.mark, near.seq FROM json_each(?1) AS wanted CROSS JOIN near ON near.mark = wanted.value LIMIT ?2

-- name: newest_bearing
-- One list of positions for each mark, so that each can have its own limit.
SELECT wanted.value, (SELECT json_group_array(seq) FROM (
    SELECT seq FROM near WHERE near.mark = wanted.value ORDER BY seq DESC LIMIT ?2))
FROM json_each(?1) AS wanted

-- name: newest_live_bearing
SELECT wanted.value, (SELECT json_group_array(seq) FROM (
    SELECT near.seq AS seq FROM near CROSS JOIN log ON log.seq = near.seq
    WHERE near.mark = wanted.value AND log.scope = ?3 AND log.kind = ?4
        AND NOT EXISTS (SELECT 1 FROM past WHERE past.seq = near.seq)
    ORDER BY near.seq DESC LIMIT ?2))
FROM json_each(?1) AS wanted

-- name: live_texts
SELECT log.seq, log.id, line ->> 'text' FROM json_each(?1) AS wanted CROSS JOIN log ON log.seq = wanted.value
WHERE log.scope = ?2 AND log.kind = ?3 AND NOT EXISTS (SELECT 1 FROM past WHERE past.seq = log.seq)
