-- name: model
SELECT number FROM model WHERE name = %s AND length = %s

-- name: models
SELECT number FROM model ORDER BY number

-- name: add_model
INSERT INTO model (name, length) VALUES (%s, %s) ON CONFLICT DO NOTHING

-- name: has_vectors
SELECT 1 FROM pg_extension WHERE extname = 'vector'

-- name: scopes_of_seqs
SELECT seq, scope FROM log WHERE seq = ANY(%s)

-- name: size_of_partitions
-- About how many rows there are, as the server last counted them.
SELECT coalesce(sum(greatest(part.reltuples, 0)), 0)::bigint
FROM pg_inherits JOIN pg_class AS part ON part.oid = pg_inherits.inhrelid WHERE pg_inherits.inhparent = %s::regclass

-- name: models_named
SELECT number FROM model WHERE name = %s
