-- The single new records of several threads in one statement and one commit: `insert_single` for many records of one scope.
-- Null, and nothing written, when an author is in quarantine.
CREATE FUNCTION insert_group(scope text, kinds text[], ids text[], authors text[], ats bigint[], moments bigint[], token_counts integer[],
        vectors text[], digests bytea[], lines text[], checksums bigint[])
    RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    positions bigint[];
BEGIN
    CASE hashtext($1) & 7
        WHEN 0 THEN LOCK TABLE lukasa.write_lock_0 IN ROW SHARE MODE;
        WHEN 1 THEN LOCK TABLE lukasa.write_lock_1 IN ROW SHARE MODE;
        WHEN 2 THEN LOCK TABLE lukasa.write_lock_2 IN ROW SHARE MODE;
        WHEN 3 THEN LOCK TABLE lukasa.write_lock_3 IN ROW SHARE MODE;
        WHEN 4 THEN LOCK TABLE lukasa.write_lock_4 IN ROW SHARE MODE;
        WHEN 5 THEN LOCK TABLE lukasa.write_lock_5 IN ROW SHARE MODE;
        WHEN 6 THEN LOCK TABLE lukasa.write_lock_6 IN ROW SHARE MODE;
        WHEN 7 THEN LOCK TABLE lukasa.write_lock_7 IN ROW SHARE MODE;
    END CASE;
    PERFORM lukasa.hold_position();
    IF EXISTS (SELECT 1 FROM lukasa.quarantine) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT 1 FROM lukasa.admission AS a WHERE a.writes AND a.scope = $1) THEN
        PERFORM lukasa.lock_beside_roles(ARRAY[hashtext($1)], false);
    END IF;
    positions := ARRAY(SELECT nextval('lukasa.position') FROM generate_series(1, cardinality(ids)));
    INSERT INTO lukasa.tally AS t (scope, kind, slot, live, versions, checksum, texts, tokens, past_texts, past_tokens)
    SELECT $1, e.kind, pg_backend_pid() & 255, count(*), count(*), (sum(e.checksum) % 4611686018427387904)::bigint,
        count(e.tokens), coalesce(sum(e.tokens), 0), 0, 0
    FROM unnest(kinds, checksums, token_counts) AS e (kind, checksum, tokens) GROUP BY e.kind ORDER BY e.kind
    ON CONFLICT ON CONSTRAINT tally_pkey DO UPDATE SET live = t.live + excluded.live, versions = t.versions + excluded.versions,
        checksum = (t.checksum + excluded.checksum) & 4611686018427387903,
        texts = t.texts + excluded.texts, tokens = t.tokens + excluded.tokens;
    INSERT INTO lukasa.log (seq, scope, kind, id, version, author, at, moment, deleted, live, tokens, labels, words, digest, line)
    SELECT positions[n], $1, e.kind, e.id, 1, e.author, e.at, e.moment, false, true, e.tokens, '{}', e.words::tsvector, e.digest, e.line
    FROM unnest(kinds, ids, authors, ats, moments, token_counts, vectors, digests, lines) WITH ORDINALITY
        AS e (kind, id, author, at, moment, tokens, words, digest, line, n);
    RETURN positions;
END $$;
