-- name: find_model
-- Return the table number of a model and vector length.
SELECT number FROM model WHERE name = %s AND length = %s

-- name: model_numbers
-- Select the table numbers of all models.
SELECT number FROM model ORDER BY number

-- name: insert_model
-- Register a model and vector length.
INSERT INTO model (name, length) VALUES (%s, %s) ON CONFLICT DO NOTHING

-- name: has_pgvector
-- Return a row when the extension pgvector is installed.
SELECT 1 FROM pg_extension WHERE extname = 'vector'

-- name: scopes_at
-- Select the scopes of some positions.
SELECT seq, scope FROM log WHERE seq = ANY(%s)

-- name: estimated_rows
-- Estimate the rows of a table from the server's own statistics.
SELECT coalesce(sum(greatest(reltuples, 0)), 0)::bigint FROM pg_class
WHERE relkind = 'r' AND oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = %s::regclass UNION ALL SELECT %s::regclass)

-- name: numbers_of_model
-- Select the table numbers of a model, one for each vector length.
SELECT number FROM model WHERE name = %s
