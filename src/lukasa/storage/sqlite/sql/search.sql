-- name: frequency
-- Count the texts that hold each token.
SELECT term, doc FROM json_each(?) AS wanted JOIN word_counts ON word_counts.term = wanted.value

-- name: frequency_of_prefix
-- Count the tokens that begin alike by the texts that hold them; a text with two of them counts twice.
SELECT coalesce(sum(doc), 0) FROM word_counts WHERE term >= ?1 AND term < ?1 || char(0x10ffff)

-- name: frequency_within
-- Count the texts in some scopes that match, up to a limit: texts are counted one by one.
SELECT count(*) FROM (
    SELECT 1 FROM words JOIN log ON log.seq = words.rowid
    WHERE words MATCH ?1 AND log.scope IN (SELECT value FROM json_each(?2)) LIMIT ?3)

-- name: adjacent_records
-- Select the current records of the same kind and group label just before and just after each position.
SELECT log.seq,
    (SELECT l.seq FROM label AS l CROSS JOIN log AS other ON other.seq = l.seq
        WHERE l.label = wanted.value AND l.scope = log.scope AND l.seq < log.seq AND other.kind = log.kind
            AND NOT EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = l.seq) ORDER BY l.seq DESC LIMIT 1),
    (SELECT l.seq FROM label AS l CROSS JOIN log AS other ON other.seq = l.seq
        WHERE l.label = wanted.value AND l.scope = log.scope AND l.seq > log.seq AND other.kind = log.kind
            AND NOT EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = l.seq) ORDER BY l.seq LIMIT 1)
FROM json_each(?) AS wanted CROSS JOIN log ON log.seq = CAST(wanted.key AS INTEGER)

-- name: texts_at
-- Select the texts at some positions.
SELECT log.seq, CAST(log.line AS BLOB), log.digest, log.scope FROM json_each(?) AS wanted CROSS JOIN log ON log.seq = wanted.value
WHERE NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)

-- name: has_hidden
-- Return whether a quarantine hides any version.
SELECT EXISTS (SELECT 1 FROM hidden)

-- name: count_labelled
-- Count the records of some scopes with a label, up to a limit.
SELECT count(*) FROM (
    SELECT 1 FROM json_each(?2) AS wanted CROSS JOIN label ON label.label = ?1 AND label.scope = wanted.value LIMIT ?3)

-- name: authors
-- Select the authors of the latest records of a scope and kind, from the index alone.
SELECT DISTINCT author FROM (
    SELECT author FROM log INDEXED BY log_by_kind WHERE scope = ? AND kind = ? ORDER BY seq DESC LIMIT ?)
WHERE author <> ''

-- name: find_duplicate_keys
-- Select the positions that share any of the near-duplicate keys, up to a limit.
SELECT pair_key, seq FROM json_each(?1) AS wanted CROSS JOIN duplicate_key ON pair_key = wanted.value LIMIT ?2

-- name: newest_with_key
-- Select the newest positions of each near-duplicate key; each key has its own limit.
SELECT wanted.value, (SELECT json_group_array(seq) FROM (
    SELECT seq FROM duplicate_key WHERE duplicate_key.pair_key = wanted.value ORDER BY seq DESC LIMIT ?2))
FROM json_each(?1) AS wanted

-- name: newest_current_with_key
-- Select the newest current positions of each near-duplicate key in a scope and kind.
SELECT wanted.value, (SELECT json_group_array(seq) FROM (
    SELECT duplicate_key.seq AS seq FROM duplicate_key CROSS JOIN log ON log.seq = duplicate_key.seq
    WHERE duplicate_key.pair_key = wanted.value AND log.scope = ?3 AND log.kind = ?4
        AND NOT EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = duplicate_key.seq)
    ORDER BY duplicate_key.seq DESC LIMIT ?2))
FROM json_each(?1) AS wanted

-- name: current_texts
-- Select id and text of the current versions at some positions in a scope and kind.
SELECT log.seq, log.id, CASE WHEN json_valid(line) THEN line ->> 'text' END FROM json_each(?1) AS wanted CROSS JOIN log ON log.seq = wanted.value
WHERE log.scope = ?2 AND log.kind = ?3 AND NOT EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = log.seq)

-- name: text_counts
-- Return the block in which the text index counts its texts and tokens.
SELECT block FROM words_data WHERE id = 1

-- name: count_texts_with
-- Count the indexed texts that hold a phrase.
SELECT count(*) FROM words WHERE words MATCH ?
