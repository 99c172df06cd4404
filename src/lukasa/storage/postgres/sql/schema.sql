-- name: has_meta
-- Return whether the database has the table of facts about a store.
SELECT EXISTS (
    SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = 'lukasa' AND relname = 'meta')

-- name: schema_version
-- Return the number of the newest migration.
SELECT value FROM lukasa.meta WHERE name = 'schema'

-- name: set_schema_version
-- Note the number of the newest migration.
INSERT INTO meta (name, value) VALUES ('schema', %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: server_encoding
-- Return the encoding of the database.
SHOW server_encoding

-- name: lock_migration
-- Wait for another process that makes a store in the database.
SELECT pg_advisory_xact_lock(19531, 1)

-- name: count_foreign
-- Count what the schema ``lukasa`` holds.
SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('lukasa')

-- name: is_owner
-- Return whether the role may act as the owner of the store.
SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'lukasa'

-- name: revoke_scopes
-- Take all scopes from a role.
DELETE FROM admission WHERE role = %s

-- name: grant_scope
-- Admit a role to a scope.
INSERT INTO admission (role, scope, writes, agent) VALUES (%s, %s, %s, %s)

-- name: grant_reading
-- Give a role the rights it needs to read.
SELECT grant_reading(%s)

-- name: lock_version
-- Wait for another process that migrates the store. No role but the owner's can lock this table.
LOCK TABLE lukasa.meta IN SHARE ROW EXCLUSIVE MODE

-- name: create_schema
-- Create the schema of a store.
CREATE SCHEMA IF NOT EXISTS lukasa

-- name: create_pgvector
-- Install pgvector.
CREATE EXTENSION IF NOT EXISTS vector SCHEMA public
