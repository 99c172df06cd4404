-- A batch that is copied into the log adds the near-duplicate keys of all its texts in one sorted statement, and says so by
-- this setting of its transaction; for anyone else the trigger goes on to add them row by row, which takes longer.
DROP TRIGGER pair_keys_added ON log;
CREATE TRIGGER pair_keys_added AFTER INSERT ON log FOR EACH ROW
    WHEN (new.live AND new.pair_keys <> '{}' AND current_setting('lukasa.adds_pair_keys', true) IS DISTINCT FROM 'yes')
    EXECUTE FUNCTION index_pair_keys();

-- Has a value once any author was in quarantine or any role could write, and keeps it: until then a single insert has neither to
-- look for. A sequence, because its value is read without a query. It is drawn in the transaction that makes it necessary,
-- and is visible before that ends.
CREATE SEQUENCE exception;
CREATE FUNCTION note_exception() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM nextval('lukasa.exception');
    RETURN NULL;
END $$;
CREATE TRIGGER noted AFTER INSERT OR UPDATE ON quarantine FOR EACH STATEMENT EXECUTE FUNCTION note_exception();
CREATE TRIGGER noted AFTER INSERT OR UPDATE ON admission FOR EACH STATEMENT EXECUTE FUNCTION note_exception();
SELECT nextval('exception') WHERE EXISTS (SELECT 1 FROM quarantine) OR EXISTS (SELECT 1 FROM admission);

CREATE OR REPLACE FUNCTION insert_single(scope text, kind text, id text, author text, at bigint, moment bigint, tokens integer,
        words tsvector, digest bytea, line text, checksum bigint)
    RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    inserted bigint;
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
    IF NOT pg_try_advisory_xact_lock_shared((76::bigint << 56) | (floor(random() * 65536)::bigint << 40)
            | coalesce(pg_sequence_last_value('lukasa.position'), 0)) THEN
        PERFORM lukasa.hold_position();
    END IF;
    IF pg_sequence_last_value('lukasa.exception') IS NOT NULL THEN
        IF EXISTS (SELECT 1 FROM lukasa.quarantine) THEN
            RETURN NULL;
        END IF;
        IF EXISTS (SELECT 1 FROM lukasa.admission AS a WHERE a.writes AND a.scope = $1) THEN
            PERFORM lukasa.lock_beside_roles(ARRAY[hashtext($1)], false);
        END IF;
    END IF;
    INSERT INTO lukasa.tally AS t (scope, kind, slot, live, versions, checksum, texts, tokens, past_texts, past_tokens)
    VALUES ($1, $2, pg_backend_pid() & 255, 1, 1, $11, CASE WHEN $7 IS NULL THEN 0 ELSE 1 END, coalesce($7, 0), 0, 0)
    ON CONFLICT ON CONSTRAINT tally_pkey DO UPDATE SET live = t.live + 1, versions = t.versions + 1,
        checksum = (t.checksum + excluded.checksum) & 4611686018427387903,
        texts = t.texts + excluded.texts, tokens = t.tokens + excluded.tokens;
    INSERT INTO lukasa.log (seq, scope, kind, id, version, author, at, moment, deleted, live, tokens, labels, words, digest, line)
    VALUES (nextval('lukasa.position'), $1, $2, $3, 1, $4, $5, $6, false, true, $7, '{}', $8, $9, $10)
    RETURNING seq INTO inserted;
    RETURN inserted;
END $$;

-- The positions of a group are drawn as its rows are inserted, in the order of the arrays.
CREATE OR REPLACE FUNCTION insert_group(scope text, kinds text[], ids text[], authors text[], ats bigint[], moments bigint[], token_counts integer[],
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
    IF NOT pg_try_advisory_xact_lock_shared((76::bigint << 56) | (floor(random() * 65536)::bigint << 40)
            | coalesce(pg_sequence_last_value('lukasa.position'), 0)) THEN
        PERFORM lukasa.hold_position();
    END IF;
    IF pg_sequence_last_value('lukasa.exception') IS NOT NULL THEN
        IF EXISTS (SELECT 1 FROM lukasa.quarantine) THEN
            RETURN NULL;
        END IF;
        IF EXISTS (SELECT 1 FROM lukasa.admission AS a WHERE a.writes AND a.scope = $1) THEN
            PERFORM lukasa.lock_beside_roles(ARRAY[hashtext($1)], false);
        END IF;
    END IF;
    INSERT INTO lukasa.tally AS t (scope, kind, slot, live, versions, checksum, texts, tokens, past_texts, past_tokens)
    SELECT $1, e.kind, pg_backend_pid() & 255, count(*), count(*), (sum(e.checksum) % 4611686018427387904)::bigint,
        count(e.tokens), coalesce(sum(e.tokens), 0), 0, 0
    FROM unnest(kinds, checksums, token_counts) AS e (kind, checksum, tokens) GROUP BY e.kind ORDER BY e.kind
    ON CONFLICT ON CONSTRAINT tally_pkey DO UPDATE SET live = t.live + excluded.live, versions = t.versions + excluded.versions,
        checksum = (t.checksum + excluded.checksum) & 4611686018427387903,
        texts = t.texts + excluded.texts, tokens = t.tokens + excluded.tokens;
    WITH inserted AS (
        INSERT INTO lukasa.log (seq, scope, kind, id, version, author, at, moment, deleted, live, tokens, labels, words, digest, line)
        SELECT nextval('lukasa.position'), $1, e.kind, e.id, 1, e.author, e.at, e.moment, false, true, e.tokens, '{}', e.words::tsvector, e.digest, e.line
        FROM unnest(kinds, ids, authors, ats, moments, token_counts, vectors, digests, lines)
            AS e (kind, id, author, at, moment, tokens, words, digest, line)
        RETURNING seq)
    SELECT array_agg(inserted.seq ORDER BY inserted.seq) INTO positions FROM inserted;
    RETURN positions;
END $$;
