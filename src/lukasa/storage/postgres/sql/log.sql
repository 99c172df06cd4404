-- name: settled_position
-- Return the settled position, the newest one, and the connections of roles that write; some of them may be ignored.
SELECT settled, newest, holders FROM settled(%s)

-- name: begin_write
-- Lock scopes and draw positions; without scopes, lock the whole store.
SELECT has_quarantines, positions FROM begin_write(%s, %s, %s)

-- name: begin_role_write
-- Lock those of the scopes that the role may write; without scopes, all of them.
SELECT begin_role_write(%s::text[], %s)

-- name: append_entries
-- Append entries as a role; return their positions.
SELECT append_entries(%s::text[], %s::integer[], %s::text[], %s::text[], %s::text[])

-- name: draw_positions
-- Draw the next positions.
SELECT ARRAY(SELECT nextval('position') FROM generate_series(1, %s))

-- name: insert_single
-- Insert one new record without labels or links.
SELECT insert_single(%s, %s, %s, %s, %s, %s, %s, %s::tsvector, %s, %s, %s)

-- name: insert_group
-- Insert new records of one scope without labels or links; return their positions.
SELECT insert_group(%s, %b::text[], %b::text[], %b::text[], %b::bigint[], %b::bigint[], %b::integer[], %b::text[], %b::bytea[], %b::text[], %b::bigint[])

-- name: tip
-- Return the newest position; compaction and erasure do not lower it.
SELECT greatest(
    coalesce((SELECT max(seq) FROM log WHERE seq <= %s), 0),
    coalesce((SELECT value::bigint FROM meta WHERE name = 'high_water'), 0))

-- name: tip_of_scopes
-- Return the newest position of some scopes.
SELECT coalesce(max(seq), 0) FROM log WHERE scope = ANY(%s) AND seq <= %s

-- name: key_states
-- Select the newest visible version of each key of one scope and the highest number taken, hidden versions included.
SELECT %(scope)s::text, kind, id, seq, version, highest, line, deleted, tokens, newest_line
FROM key_states(%(scope)s, %(kinds)s::text[], %(ids)s::text[])

-- name: key_state
-- Select the same of one key, in a third of the time: the server plans the statement once.
SELECT %(scope)s::text, %(kind)s::text, %(id)s::text, seen.seq, seen.version, newest.version, seen.line, seen.deleted, seen.tokens, newest.line
FROM (
    SELECT version, line FROM log WHERE scope = %(scope)s AND (kind, id) >= (%(kind)s, %(id)s) AND (kind, id) <= (%(kind)s, %(id)s)
    ORDER BY kind DESC, id DESC, version DESC LIMIT 1) AS newest
LEFT JOIN LATERAL (
    SELECT seq, version, line, deleted, tokens FROM log
    WHERE scope = %(scope)s AND (kind, id) >= (%(kind)s, %(id)s) AND (kind, id) <= (%(kind)s, %(id)s)
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = %(scope)s AND hidden.seq = log.seq)
    ORDER BY kind DESC, id DESC, version DESC LIMIT 1) AS seen ON true

-- name: insert_entry
-- Insert one log entry.
INSERT INTO log (seq, scope, kind, id, version, author, at, moment, deleted, live, tokens, labels, group_label, pair_keys, words, digest, line)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s::integer[], %s::tsvector, %s, %s)

-- name: copy_entries
-- Insert many log entries.
COPY log (seq, scope, kind, id, version, author, at, moment, deleted, live, tokens, labels, group_label, pair_keys, words, digest, line) FROM STDIN

-- name: insert_pair_keys
-- Insert the near-duplicate keys of many entries of one scope, in the order of their index.
INSERT INTO duplicate_key (seq, pair_key, scope)
SELECT log.seq, pair_key, log.scope FROM log CROSS JOIN LATERAL unnest(log.pair_keys) AS pair_key
WHERE log.scope = %s AND log.seq = ANY(%s) AND log.live ORDER BY pair_key, log.seq

-- name: insert_link
-- Insert one link.
INSERT INTO link (scope, seq, relation, to_scope, to_kind, to_id) VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING

-- name: copy_links
-- Insert many links.
COPY link (scope, seq, relation, to_scope, to_kind, to_id) FROM STDIN

-- name: supersede
-- Mark a version as not current.
UPDATE log SET live = false WHERE scope = %s AND seq = %s

-- name: add_to_tally
-- Add changes to the counts and the checksum of a scope and kind.
SELECT add_to_tally(%s, %s, %s, %s, %s, %s, %s, %s, %s)

-- name: digests_of_versions
-- Select the digests of some versions of one scope, one key lookup each: one join might read the whole kind.
SELECT %(scope)s::text, wanted.kind, wanted.id, wanted.version, found.digest
FROM unnest(%(kinds)s::text[], %(ids)s::text[], %(versions)s::bigint[]) AS wanted (kind, id, version)
CROSS JOIN LATERAL (
    SELECT version, digest FROM log
    WHERE log.scope = %(scope)s AND log.kind = wanted.kind AND log.id = wanted.id AND log.version <= wanted.version
    ORDER BY version DESC LIMIT 1) AS found
WHERE found.version = wanted.version

-- name: entries_at
-- Select the entries at some positions.
SELECT seq, line, digest FROM log WHERE seq = ANY(%s) AND WITHIN_REACH(scope) ORDER BY seq

-- name: get_version
-- Select one visible version of a key by number. The key is compared as a row, and the order names its columns, so that the server
-- takes the index of keys. Compared one by one, without statistics, it prefers the smaller index of kinds and reads a whole kind.
SELECT seq, line, digest FROM log WHERE scope = %(scope)s AND (kind, id) >= (%(kind)s, %(id)s) AND (kind, id) <= (%(kind)s, %(id)s)
    AND version = %(bound)s AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)
ORDER BY kind DESC, id DESC, version DESC LIMIT 1

-- name: get_newest
-- Select a key's newest visible version; see get_version.
SELECT seq, line, digest FROM log WHERE scope = %(scope)s AND (kind, id) >= (%(kind)s, %(id)s) AND (kind, id) <= (%(kind)s, %(id)s)
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)
ORDER BY kind DESC, id DESC, version DESC LIMIT 1

-- name: get_as_of_time
-- Select the newest visible version recorded up to a time.
SELECT seq, line, digest FROM log WHERE scope = %s AND kind = %s AND id = %s AND at <= %s
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)
ORDER BY version DESC LIMIT 1

-- name: get_as_of_seq
-- Select the newest visible version up to a position.
SELECT seq, line, digest FROM log WHERE scope = %s AND kind = %s AND id = %s AND seq <= %s
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)
ORDER BY version DESC LIMIT 1

-- name: history
-- Select a key's visible versions, oldest first.
SELECT seq, line, digest FROM log WHERE scope = %s AND kind = %s AND id = %s
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)
ORDER BY version

-- name: whole_history
-- Select all versions of a key, hidden ones included, oldest first.
SELECT seq, line, digest FROM log WHERE scope = %s AND kind = %s AND id = %s ORDER BY version

-- name: tally
-- Select the counts of each scope and kind.
SELECT scope, kind, sum(live)::bigint, sum(versions)::bigint FROM tally
WHERE WITHIN_REACH(scope)
GROUP BY scope, kind ORDER BY scope, kind

-- name: find_idempotency
-- Select the stored answer to an idempotency key.
SELECT fingerprint, seqs FROM idempotency WHERE key = %s AND role = current_user

-- name: insert_idempotency
-- Store the answer to an idempotency key.
INSERT INTO idempotency (key, fingerprint, seqs, at) VALUES (%s, %s, %s, %s)

-- name: position_of_version
-- Select the position and digest of one version.
SELECT seq, digest FROM log WHERE scope = %(scope)s AND (kind, id) >= (%(kind)s, %(id)s) AND (kind, id) <= (%(kind)s, %(id)s)
    AND version = %(bound)s ORDER BY kind DESC, id DESC, version DESC LIMIT 1

-- name: erasure_receipts
-- Select the receipts of erasures.
SELECT line FROM log WHERE scope = '_lukasa' AND kind = 'erasure' ORDER BY seq

-- name: names_at
-- Select key and version of the entries at some positions, given as a JSON list.
SELECT seq, scope, kind, id, version FROM log
WHERE seq IN (SELECT value::bigint FROM json_array_elements_text(%s::json)) AND WITHIN_REACH(scope) ORDER BY seq

-- name: roles_at_work
-- Select the roles behind some connections.
SELECT pid, usename FROM pg_stat_activity WHERE pid = ANY(%s) ORDER BY backend_start LIMIT 1
