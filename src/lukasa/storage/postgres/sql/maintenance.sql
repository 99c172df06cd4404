-- name: count_entries
-- Count the entries.
SELECT count(*) FROM log

-- name: all_entries
-- Select a page of entries.
SELECT seq, scope, kind, id, version, author, at, moment, digest, convert_to(line, 'UTF8'), deleted, tokens, labels, group_label, pair_keys FROM log
WHERE seq > %s ORDER BY seq LIMIT %s

-- name: wrong_words
-- Select the positions whose text index entry differs from the given one.
SELECT log.seq FROM unnest(%s::bigint[], %s::text[]) AS given (seq, words) JOIN log ON log.seq = given.seq
WHERE log.words IS DISTINCT FROM given.words::tsvector

-- name: links_between
-- Select the links of the entries between two positions.
SELECT scope, seq, relation, to_scope, to_kind, to_id FROM link WHERE seq > %s AND seq <= %s

-- name: all_tallies
-- Select the counts and checksums of all scopes and kinds.
SELECT scope, kind, sum(live)::bigint, sum(versions)::bigint, sum(checksum)::numeric, sum(texts)::bigint, sum(tokens)::bigint,
    sum(past_texts)::bigint, sum(past_tokens)::bigint
FROM tally GROUP BY scope, kind

-- name: text_counts
-- Count current versions, and texts and tokens of current and not current versions.
SELECT scope, kind, count(*) FILTER (WHERE live), count(tokens) FILTER (WHERE live),
    coalesce(sum(tokens) FILTER (WHERE live), 0)::bigint, count(tokens) FILTER (WHERE NOT live),
    coalesce(sum(tokens) FILTER (WHERE NOT live), 0)::bigint
FROM log GROUP BY scope, kind

-- name: wrongly_live
-- Select versions whose live column is wrong: live is the newest visible version, unless it is a tombstone.
SELECT scope, kind, id, version, live FROM log
WHERE live <> (NOT deleted
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)
    AND NOT EXISTS (SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind
        AND newer.id = log.id AND newer.version > log.version
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = newer.scope AND hidden.seq = newer.seq)))

-- name: correct_live
-- Correct every wrong live column.
UPDATE log SET live = NOT live
WHERE live <> (NOT deleted
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)
    AND NOT EXISTS (SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind
        AND newer.id = log.id AND newer.version > log.version
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = newer.scope AND hidden.seq = newer.seq)))

-- name: derive_columns
-- Correct the derived columns of one entry.
UPDATE log SET deleted = given.deleted, tokens = given.tokens, labels = given.labels, group_label = given.group_label,
    pair_keys = given.pair_keys, words = given.words::tsvector
FROM (VALUES (%s::bigint, %s::text, %s::boolean, %s::integer, %s::text[], %s::text, %s::integer[], %s::text))
    AS given (seq, scope, deleted, tokens, labels, group_label, pair_keys, words)
WHERE log.seq = given.seq AND log.scope = given.scope
    AND (log.deleted, log.tokens, log.labels, log.group_label, log.pair_keys, log.words)
        IS DISTINCT FROM (given.deleted, given.tokens, given.labels, given.group_label, given.pair_keys, given.words::tsvector)

-- name: delete_all_links
-- Delete all links.
DELETE FROM link

-- name: reset_counts
-- Set all counts to zero.
UPDATE tally SET live = 0, texts = 0, tokens = 0, past_texts = 0, past_tokens = 0

-- name: shadow_quarantine
-- Create a temporary table that hides the stored quarantines.
CREATE TEMPORARY TABLE quarantine (LIKE lukasa.quarantine INCLUDING INDEXES) ON COMMIT DROP

-- name: shadow_hidden
-- Create a temporary table that hides the stored marks of quarantines.
CREATE TEMPORARY TABLE hidden (scope text COLLATE "C" NOT NULL, seq bigint NOT NULL, author text COLLATE "C" NOT NULL,
    PRIMARY KEY (seq, author, scope)) ON COMMIT DROP

-- name: wrong_quarantines
-- Count the stored quarantines that differ from the rebuilt ones.
SELECT count(*) FROM (
    (SELECT author, since FROM lukasa.quarantine EXCEPT SELECT author, since FROM pg_temp.quarantine)
    UNION ALL (SELECT author, since FROM pg_temp.quarantine EXCEPT SELECT author, since FROM lukasa.quarantine)) AS wrong

-- name: wrong_hidden
-- Count the stored marks of quarantines that differ from the rebuilt ones.
SELECT count(*) FROM (
    (SELECT scope, seq, author FROM lukasa.hidden EXCEPT SELECT scope, seq, author FROM pg_temp.hidden)
    UNION ALL (SELECT scope, seq, author FROM pg_temp.hidden EXCEPT SELECT scope, seq, author FROM lukasa.hidden)) AS wrong

-- name: superseded
-- Select the versions that compaction may drop; a key with hidden versions keeps all, because they decide what is hidden.
SELECT log.seq, log.scope, log.kind, log.digest, log.tokens FROM log
WHERE NOT log.live AND log.scope <> '_lukasa' AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)
    AND EXISTS (SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind
        AND newer.id = log.id AND newer.version > log.version AND newer.at < %s
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = newer.scope AND hidden.seq = newer.seq))
    AND NOT EXISTS (SELECT 1 FROM log AS quarantined JOIN hidden ON hidden.scope = quarantined.scope AND hidden.seq = quarantined.seq
        WHERE quarantined.scope = log.scope AND quarantined.kind = log.kind AND quarantined.id = log.id)

-- name: versions_to_erase
-- Select all versions of a key.
SELECT seq, digest, tokens, live FROM log WHERE scope = %s AND kind = %s AND id = %s

-- name: delete_entry
-- Delete one log entry.
DELETE FROM log WHERE scope = %s AND seq = %s

-- name: delete_links
-- Delete the links of a version.
DELETE FROM link WHERE scope = %s AND seq = %s

-- name: delete_hidden
-- Delete the marks of quarantines on a version.
DELETE FROM hidden WHERE scope = %s AND seq = %s

-- name: clear_idempotency
-- Remove a position from stored answers. The key stays known, so that a late repetition does not write erased content again.
UPDATE idempotency SET fingerprint = '', seqs = array_remove(seqs, %s::bigint) WHERE seqs @> ARRAY[%s::bigint]

-- name: delete_empty_tallies
-- Delete the counts of scopes and kinds without versions.
DELETE FROM tally AS t USING (SELECT scope, kind FROM tally GROUP BY scope, kind HAVING sum(versions) = 0) AS empty
WHERE t.scope = empty.scope AND t.kind = empty.kind

-- name: note_high_water
-- Store the newest position ever used.
INSERT INTO meta (name, value) SELECT 'high_water', coalesce(max(seq), 0)::text FROM log
ON CONFLICT (name) DO UPDATE SET value = greatest(meta.value::bigint, excluded.value::bigint)::text

-- name: store_size
-- Return the size of all tables and indexes in bytes.
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c
WHERE c.relnamespace = 'lukasa'::regnamespace AND c.relkind IN ('r', 'S')

-- name: delete_zero_tallies
-- Delete the rows of counts that are all zero.
DELETE FROM tally WHERE (live, versions, checksum, texts, tokens, past_texts, past_tokens) = (0, 0, 0, 0, 0, 0, 0)

-- name: add_to_counter
-- Add to a counter that begins at 0 with each period; return its value and the seconds until the next period.
WITH period AS (SELECT floor(extract(epoch FROM clock_timestamp()) / %(seconds)s)::bigint AS number)
INSERT INTO meta AS counter (name, value) SELECT %(name)s, number || ' ' || %(amount)s::bigint FROM period
ON CONFLICT (name) DO UPDATE SET value = CASE
    WHEN split_part(counter.value, ' ', 1) = split_part(excluded.value, ' ', 1)
    THEN split_part(counter.value, ' ', 1) || ' ' || split_part(counter.value, ' ', 2)::bigint + %(amount)s::bigint
    ELSE excluded.value END
RETURNING split_part(value, ' ', 2)::bigint,
    ceil((split_part(value, ' ', 1)::bigint + 1) * %(seconds)s - extract(epoch FROM clock_timestamp()))

-- name: wrong_duplicate_keys
-- Count the near-duplicate keys that differ from those of the current versions.
SELECT count(*) FROM (
    (SELECT seq, pair_key, scope FROM duplicate_key
        EXCEPT SELECT seq, unnest(pair_keys), scope FROM log WHERE live)
    UNION ALL (SELECT seq, unnest(pair_keys), scope FROM log WHERE live
        EXCEPT SELECT seq, pair_key, scope FROM duplicate_key)) AS wrong

-- name: derive_duplicate_keys
-- Insert the near-duplicate keys of all current versions.
INSERT INTO duplicate_key (seq, pair_key, scope) SELECT seq, unnest(pair_keys), scope FROM log WHERE live ON CONFLICT DO NOTHING
