-- name: configure_connection
-- Set how a connection finds tables, waits for locks, plans and commits.
SELECT set_config('search_path', 'lukasa, public', false), set_config('lock_timeout', %s, false),
    set_config('jit', 'off', false), set_config('random_page_cost', '1.1', false), set_config('timezone', 'UTC', false),
    set_config('synchronous_commit',
        CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' WHEN 'local' THEN 'on'
            ELSE current_setting('synchronous_commit') END, false),
    set_config('default_transaction_read_only',
        CASE WHEN %s THEN 'on' ELSE current_setting('default_transaction_read_only') END, false)

-- name: transaction_number
-- Return the number of the transaction, by which its outcome can be asked for.
SELECT pg_current_xact_id_if_assigned()::text

-- name: transaction_status
-- Return the outcome of a transaction.
SELECT pg_xact_status(%s::xid8)

-- name: log_position
-- Return the position of a primary in its write-ahead log, and the number of its history, which each failover raises.
SELECT pg_current_wal_flush_lsn()::text,
    ('x' || left(pg_walfile_name(pg_current_wal_flush_lsn()), 8))::bit(32)::int

-- name: has_replayed
-- Return whether a server has reached a position, and in which history. A standby knows a new history from its next restart point on.
SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END
        >= %s::pg_lsn,
    CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint())
        ELSE ('x' || left(pg_walfile_name(pg_current_wal_flush_lsn()), 8))::bit(32)::int END

-- name: server_facts
-- Return what `describe` says about a server.
SELECT current_setting('server_version'), current_setting('synchronous_commit'), current_user,
    (SELECT extversion FROM pg_extension WHERE extname = 'vector'), current_setting('transaction_read_only') = 'on'

-- name: configure_vector_search
-- Let an index of vectors return more candidates.
SELECT set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', %s, true)

-- name: lock_models
-- Wait for another process that makes a table of vectors.
LOCK TABLE model IN SHARE ROW EXCLUSIVE MODE

-- name: create_vector_table
-- Create the table of one model's vectors.
SELECT create_vector_table(%s, %s)

-- name: vacuum
-- Remove dead rows from tables and indexes.
VACUUM log, link, hidden, tally, duplicate_key

-- name: drop_shadows
-- Drop the temporary tables in which quarantines were rebuilt.
DROP TABLE pg_temp.quarantine, pg_temp.hidden

-- name: delete_all_hidden
-- Forget which versions quarantines hide.
DELETE FROM hidden

-- name: delete_all_quarantines
-- Forget the authors in quarantine.
DELETE FROM quarantine

-- name: delete_all_duplicate_keys
-- Forget all near-duplicate keys.
DELETE FROM duplicate_key
