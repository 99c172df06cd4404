-- name: frequency
SELECT term, doc FROM json_each(?) AS wanted JOIN word_counts ON word_counts.term = wanted.value

-- name: frequency_within
-- Counted one by one, so only so far: who reaches little of a large store cannot be told what the rest of it holds.
SELECT count(*) FROM (
    SELECT 1 FROM words JOIN log ON log.seq = words.rowid
    WHERE words MATCH ?1 AND log.scope IN (SELECT value FROM json_each(?2)) LIMIT ?3)

-- name: beside
SELECT wanted.value,
    (SELECT l.seq FROM label AS l JOIN log AS other ON other.seq = l.seq
        WHERE l.label = session.label AND l.scope = session.scope AND l.seq < wanted.value AND other.kind = log.kind
            AND NOT EXISTS (SELECT 1 FROM past WHERE past.seq = l.seq) ORDER BY l.seq DESC LIMIT 1),
    (SELECT l.seq FROM label AS l JOIN log AS other ON other.seq = l.seq
        WHERE l.label = session.label AND l.scope = session.scope AND l.seq > wanted.value AND other.kind = log.kind
            AND NOT EXISTS (SELECT 1 FROM past WHERE past.seq = l.seq) ORDER BY l.seq LIMIT 1)
FROM json_each(?) AS wanted JOIN log ON log.seq = wanted.value
JOIN (SELECT each.value AS label, carrier.scope AS scope, carrier.seq AS seq
    FROM json_each(?) AS chosen JOIN log AS carrier ON carrier.seq = chosen.value, json_each(carrier.line, '$.labels') AS each
    WHERE each.value LIKE 'session=%') AS session ON session.seq = log.seq

-- name: bearing
SELECT l.label, l.seq FROM json_each(?1) AS wanted CROSS JOIN label AS l ON l.label = wanted.value AND l.scope = ?2 LIMIT ?3

-- name: bearing_each
-- One list of positions for each label, so that each can have its own limit.
SELECT (SELECT json_group_array(seq) FROM (
    SELECT l.seq AS seq FROM label AS l CROSS JOIN log ON log.seq = l.seq
    WHERE l.label = wanted.value AND l.scope = ?2 AND log.kind = ?3
        AND NOT EXISTS (SELECT 1 FROM past WHERE past.seq = l.seq)
    ORDER BY l.seq DESC LIMIT ?4)) AS found
FROM json_each(?1) AS wanted WHERE found <> '[]'

-- name: live_of_kind
SELECT log.seq, line, digest FROM json_each(?1) AS wanted CROSS JOIN log ON log.seq = wanted.value
WHERE log.kind = ?2 AND NOT EXISTS (SELECT 1 FROM past WHERE past.seq = log.seq) ORDER BY log.seq DESC
