-- name: chosen_entries
-- Return columns of the positions that a selection chose. Names in braces are conditions and other fragments that the caller composes.
SELECT {columns} FROM ({selection}) AS chosen JOIN log ON log.seq = chosen.seq ORDER BY log.seq {direction}

-- name: stream
-- Return columns of one sorted stream of an index.
SELECT {columns} FROM {head} AND {conditions} ORDER BY {order} {direction}{limit}

-- name: label_stream
-- The positions of a label in a scope.
SELECT label.seq AS seq FROM label JOIN log ON log.seq = label.seq WHERE label.label = ? AND label.scope = ?{bounds}

-- name: kind_stream
-- The positions of a kind in a scope.
SELECT log.seq AS seq FROM log WHERE log.scope = ? AND log.kind = ?

-- name: whole_stream
-- All positions.
SELECT log.seq AS seq FROM log WHERE TRUE

-- name: match_indexed
-- Return scores of matches. They are scored and sorted before the log is read: as many as are wanted, not all that match.
SELECT log.seq, found.score FROM (
    SELECT rowid AS seq, -bm25({table}) AS score FROM {table} WHERE {table} MATCH ? ORDER BY score DESC LIMIT {best}
) AS found CROSS JOIN log ON log.seq = found.seq WHERE {conditions} LIMIT {limit}

-- name: wanted_positions
-- Return those of some positions that meet a condition.
SELECT log.seq FROM json_each(?) AS wanted CROSS JOIN log ON log.seq = wanted.value WHERE {conditions}

-- name: vectors_of_model
-- Return the vectors of a model whose versions meet a condition.
SELECT vector.seq, CAST(coalesce(vector.vector, '') AS BLOB) FROM model
CROSS JOIN vector ON vector.place BETWEEN model.first_place AND model.first_place + 0xfffffffffffff
CROSS JOIN log ON log.seq = vector.seq WHERE model.name = ? AND {conditions}

-- name: vectors_of_selection
-- Return the vectors of a model at the positions that a selection chose.
SELECT vector.seq, CAST(coalesce(vector.vector, '') AS BLOB) FROM model CROSS JOIN ({selection}) AS chosen
CROSS JOIN vector ON vector.place BETWEEN model.first_place + (chosen.seq << 12) AND model.first_place + (chosen.seq << 12 | 0xfff)
WHERE model.name = ?

-- name: vectors_of_nearest
-- Return the vectors of a model at some positions that meet a condition, in the order of the positions.
SELECT vector.seq, CAST(coalesce(vector.vector, '') AS BLOB) FROM model
CROSS JOIN json_each(?) AS nearest CROSS JOIN log ON log.seq = nearest.value
CROSS JOIN vector ON vector.place
    BETWEEN model.first_place + (nearest.value << 12) AND model.first_place + (nearest.value << 12 | 0xfff)
WHERE model.name = ? AND {conditions} LIMIT {limit}

-- name: texts_with_word
-- How often each text holds a word.
SELECT doc, count(*) AS times FROM temp.{places} WHERE term = ? GROUP BY doc

-- name: texts_with_phrase
-- How often each text holds a phrase.
SELECT rowid AS doc, phrase_count({table}) AS times FROM {table} WHERE {table} MATCH ?

-- name: texts_within_reach
-- Return those of the texts that the caller may read.
SELECT found.doc, found.times FROM ({found}) AS found CROSS JOIN log ON log.seq = found.doc WHERE {reach}

-- name: sizes_of_texts
-- Return the number of tokens of some texts, and whether the query wants them.
SELECT log.seq, size.sz, {conditions} FROM json_each(?) AS found CROSS JOIN log ON log.seq = found.value
LEFT JOIN {table}_docsize AS size ON size.id = log.seq

-- name: create_word_places
-- Create the table that lists the places of words, which holds nothing itself.
CREATE VIRTUAL TABLE IF NOT EXISTS temp.{places} USING fts5vocab('main', '{table}', 'instance')

-- name: delete_all
-- Empty a table.
DELETE FROM {table}

-- name: schema_of_derived
-- Return the statements that made what is derived from the log.
SELECT sql FROM sqlite_schema WHERE (name IN ('log_by_key', 'log_by_kind') OR tbl_name IN ({tables})) AND sql IS NOT NULL

-- name: forget_derived
-- Remove what is derived from the log from the schema.
DELETE FROM sqlite_schema WHERE name IN ('log_by_key', 'log_by_kind') OR tbl_name IN ({tables})

-- name: secure_deletes
-- Say whether the text index overwrites what it deletes.
INSERT INTO {table} ({table}, rank) VALUES ('secure-delete', {on})
