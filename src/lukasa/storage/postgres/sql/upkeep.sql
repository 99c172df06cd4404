-- name: count_lines
SELECT count(*) FROM log

-- name: all_lines
SELECT seq, scope, kind, id, version, author, at, moment, digest, convert_to(line, 'UTF8'), deleted, tokens, labels, session, marks FROM log
WHERE seq > %s ORDER BY seq LIMIT %s

-- name: wrong_words
SELECT log.seq FROM unnest(%s::bigint[], %s::text[]) AS given (seq, words) JOIN log ON log.seq = given.seq
WHERE log.words IS DISTINCT FROM given.words::tsvector

-- name: links_between
SELECT scope, seq, relation, to_scope, to_kind, to_id FROM link WHERE seq > %s AND seq <= %s

-- name: all_tallies
SELECT scope, kind, sum(live)::bigint, sum(versions)::bigint, sum(checksum)::numeric, sum(texts)::bigint, sum(tokens)::bigint,
    sum(past_texts)::bigint, sum(past_tokens)::bigint
FROM tally GROUP BY scope, kind

-- name: counts
SELECT scope, kind, count(*) FILTER (WHERE live), count(tokens) FILTER (WHERE live),
    coalesce(sum(tokens) FILTER (WHERE live), 0)::bigint, count(tokens) FILTER (WHERE NOT live),
    coalesce(sum(tokens) FILTER (WHERE NOT live), 0)::bigint
FROM log GROUP BY scope, kind

-- name: wrongly_live
-- What is live differs from what should be: the newest version that can be seen, unless it is a tombstone.
SELECT scope, kind, id, version, live FROM log
WHERE live <> (NOT deleted
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)
    AND NOT EXISTS (SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind
        AND newer.id = log.id AND newer.version > log.version
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = newer.scope AND hidden.seq = newer.seq)))

-- name: set_all_live
UPDATE log SET live = NOT live
WHERE live <> (NOT deleted
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)
    AND NOT EXISTS (SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind
        AND newer.id = log.id AND newer.version > log.version
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = newer.scope AND hidden.seq = newer.seq)))

-- name: derive_columns
UPDATE log SET deleted = given.deleted, tokens = given.tokens, labels = given.labels, session = given.session,
    marks = given.marks, words = given.words::tsvector
FROM (VALUES (%s::bigint, %s::text, %s::boolean, %s::integer, %s::text[], %s::text, %s::integer[], %s::text))
    AS given (seq, scope, deleted, tokens, labels, session, marks, words)
WHERE log.seq = given.seq AND log.scope = given.scope
    AND (log.deleted, log.tokens, log.labels, log.session, log.marks, log.words)
        IS DISTINCT FROM (given.deleted, given.tokens, given.labels, given.session, given.marks, given.words::tsvector)

-- name: forget_all_links
DELETE FROM link

-- name: reset_counts
UPDATE tally SET live = 0, texts = 0, tokens = 0, past_texts = 0, past_tokens = 0

-- name: shadow_veil
CREATE TEMPORARY TABLE veil (LIKE lukasa.veil INCLUDING INDEXES) ON COMMIT DROP

-- name: shadow_hidden
CREATE TEMPORARY TABLE hidden (scope text COLLATE "C" NOT NULL, seq bigint NOT NULL, author text COLLATE "C" NOT NULL,
    PRIMARY KEY (seq, author, scope)) ON COMMIT DROP

-- name: wrong_veils
SELECT count(*) FROM (
    (SELECT author, since FROM lukasa.veil EXCEPT SELECT author, since FROM pg_temp.veil)
    UNION ALL (SELECT author, since FROM pg_temp.veil EXCEPT SELECT author, since FROM lukasa.veil)) AS wrong

-- name: wrong_hidden
SELECT count(*) FROM (
    (SELECT scope, seq, author FROM lukasa.hidden EXCEPT SELECT scope, seq, author FROM pg_temp.hidden)
    UNION ALL (SELECT scope, seq, author FROM pg_temp.hidden EXCEPT SELECT scope, seq, author FROM lukasa.hidden)) AS wrong

-- name: superseded
SELECT log.seq, log.scope, log.kind, log.digest, log.tokens FROM log
WHERE NOT log.live AND log.scope <> '_lukasa' AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)
    AND EXISTS (SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind
        AND newer.id = log.id AND newer.version > log.version AND newer.at < %s
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = newer.scope AND hidden.seq = newer.seq))
    -- What was derived from a record in quarantine is judged by the versions there were, so those all stay.
    AND NOT EXISTS (SELECT 1 FROM log AS veiled JOIN hidden ON hidden.scope = veiled.scope AND hidden.seq = veiled.seq
        WHERE veiled.scope = log.scope AND veiled.kind = log.kind AND veiled.id = log.id)

-- name: rows_of_key
SELECT seq, digest, tokens, live FROM log WHERE scope = %s AND kind = %s AND id = %s

-- name: forget_line
DELETE FROM log WHERE scope = %s AND seq = %s

-- name: forget_links
DELETE FROM link WHERE scope = %s AND seq = %s

-- name: forget_hidden
DELETE FROM hidden WHERE scope = %s AND seq = %s

-- name: forget_answers
-- The key stays answered, so that a late repetition does not write again what was erased.
UPDATE answered SET fingerprint = '', seqs = array_remove(seqs, %s::bigint) WHERE seqs @> ARRAY[%s::bigint]

-- name: drop_empty_tallies
DELETE FROM tally AS t USING (SELECT scope, kind FROM tally GROUP BY scope, kind HAVING sum(versions) = 0) AS empty
WHERE t.scope = empty.scope AND t.kind = empty.kind

-- name: note_high_water
INSERT INTO fact (name, value) SELECT 'high_water', coalesce(max(seq), 0)::text FROM log
ON CONFLICT (name) DO UPDATE SET value = greatest(fact.value::bigint, excluded.value::bigint)::text

-- name: bytes
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c
WHERE c.relnamespace = 'lukasa'::regnamespace AND c.relkind IN ('r', 'S')

-- name: drop_uncounted
DELETE FROM tally WHERE (live, versions, checksum, texts, tokens, past_texts, past_tokens) = (0, 0, 0, 0, 0, 0, 0)
