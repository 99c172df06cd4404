-- name: settled
SELECT settled, newest FROM settled()

-- name: enter
SELECT veiled, positions FROM enter(%s, %s, %s)

-- name: positions
SELECT ARRAY(SELECT nextval('position') FROM generate_series(1, %s))

-- name: add_sole
SELECT add_sole(%s, %s, %s, %s, %s, %s, %s, %s::tsvector, %s, %s, %s)

-- name: tip
SELECT greatest(
    coalesce((SELECT max(seq) FROM log WHERE seq <= %s), 0),
    coalesce((SELECT value::bigint FROM fact WHERE name = 'high_water'), 0))

-- name: tip_of_scopes
SELECT coalesce(max(seq), 0) FROM log WHERE scope = ANY(%s) AND seq <= %s

-- name: standing
-- What stands under each key: the newest version that can be seen, and the newest number taken (hidden ones count).
SELECT wanted.scope, wanted.kind, wanted.id, seen.seq, seen.version, newest.version, seen.line, seen.deleted, seen.tokens,
    newest.line
FROM unnest(%s::text[], %s::text[], %s::text[]) AS wanted (scope, kind, id)
CROSS JOIN LATERAL (
    SELECT version, line FROM log
    WHERE log.scope = wanted.scope AND log.kind = wanted.kind AND log.id = wanted.id
    ORDER BY version DESC LIMIT 1) AS newest
LEFT JOIN LATERAL (
    SELECT seq, version, line, deleted, tokens FROM log
    WHERE log.scope = wanted.scope AND log.kind = wanted.kind AND log.id = wanted.id
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)
    ORDER BY version DESC LIMIT 1) AS seen ON true

-- name: insert_line
INSERT INTO log (seq, scope, kind, id, version, author, at, moment, deleted, live, tokens, labels, session, marks, words, digest, line)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s::integer[], %s::tsvector, %s, %s)

-- name: copy_lines
COPY log (seq, scope, kind, id, version, author, at, moment, deleted, live, tokens, labels, session, marks, words, digest, line) FROM STDIN

-- name: insert_link
INSERT INTO link (scope, seq, relation, to_scope, to_kind, to_id) VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING

-- name: copy_links
COPY link (scope, seq, relation, to_scope, to_kind, to_id) FROM STDIN

-- name: supersede
UPDATE log SET live = false WHERE scope = %s AND seq = %s

-- name: keep_books
SELECT keep_books(%s, %s, %s, %s, %s, %s, %s, %s, %s)

-- name: digests_of_versions
-- One by one by the key: joined at once, the whole kind might be read for them.
SELECT wanted.scope, wanted.kind, wanted.id, wanted.version, found.digest
FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[]) AS wanted (scope, kind, id, version)
CROSS JOIN LATERAL (
    SELECT version, digest FROM log
    WHERE log.scope = wanted.scope AND log.kind = wanted.kind AND log.id = wanted.id AND log.version <= wanted.version
    ORDER BY version DESC LIMIT 1) AS found
WHERE found.version = wanted.version

-- name: lines_of_seqs
SELECT seq, line, digest FROM log WHERE seq = ANY(%s) ORDER BY seq

-- name: get_version
SELECT seq, line, digest FROM log WHERE scope = %s AND kind = %s AND id = %s AND version = %s
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)

-- name: get_now
SELECT seq, line, digest FROM log WHERE scope = %s AND kind = %s AND id = %s
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)
ORDER BY version DESC LIMIT 1

-- name: get_as_of_time
SELECT seq, line, digest FROM log WHERE scope = %s AND kind = %s AND id = %s AND at <= %s
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)
ORDER BY version DESC LIMIT 1

-- name: get_as_of_seq
SELECT seq, line, digest FROM log WHERE scope = %s AND kind = %s AND id = %s AND seq <= %s
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)
ORDER BY version DESC LIMIT 1

-- name: history
SELECT seq, line, digest FROM log WHERE scope = %s AND kind = %s AND id = %s
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)
ORDER BY version

-- name: whole_history
SELECT seq, line, digest FROM log WHERE scope = %s AND kind = %s AND id = %s ORDER BY version

-- name: tally
SELECT scope, kind, sum(live)::bigint, sum(versions)::bigint FROM tally
WHERE %s::text[] IS NULL OR scope = ANY(%s)
GROUP BY scope, kind ORDER BY scope, kind

-- name: answered
SELECT fingerprint, seqs FROM answered WHERE key = %s

-- name: insert_answered
INSERT INTO answered (key, fingerprint, seqs, at) VALUES (%s, %s, %s, %s)

-- name: position_of_version
SELECT seq, digest FROM log WHERE scope = %s AND kind = %s AND id = %s AND version = %s

-- name: receipts
SELECT line FROM log WHERE scope = '_lukasa' AND kind = 'erasure' ORDER BY seq
