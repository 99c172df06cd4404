-- Plain names for tables, columns, indexes and functions; the rows stay as they are.
ALTER TABLE veil RENAME TO quarantine;         -- authors in quarantine
ALTER INDEX veil_pkey RENAME TO quarantine_pkey;
ALTER TABLE answered RENAME TO idempotency;    -- stored answers to idempotency keys
ALTER INDEX answered_pkey RENAME TO idempotency_pkey;
ALTER TABLE fact RENAME TO meta;               -- facts about this store
ALTER INDEX fact_pkey RENAME TO meta_pkey;
ALTER TABLE log RENAME COLUMN marks TO pair_keys;         -- near-duplicate keys of the text
ALTER INDEX log_by_mark RENAME TO log_by_pair_key;
ALTER TABLE log RENAME COLUMN session TO group_label;     -- the label that groups records for adjacent_turns
ALTER INDEX log_by_session RENAME TO log_by_group;

DROP FUNCTION any_veil(), veil_of(text), enter(text[], boolean, integer),
    keep_books(text, text, bigint, bigint, bigint, bigint, bigint, bigint, bigint),
    add_sole(text, text, text, text, bigint, bigint, integer, tsvector, bytea, text, bigint);

-- Roles may not list the authors in quarantine. A writer may learn whether there is any, and whether one author is.
CREATE FUNCTION has_quarantines() RETURNS boolean LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = lukasa, pg_temp
    AS $$ SELECT EXISTS (SELECT 1 FROM lukasa.quarantine) $$;
CREATE FUNCTION quarantine_start(author text) RETURNS bigint LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = lukasa, pg_temp
    AS $$ SELECT since FROM lukasa.quarantine AS q WHERE q.author = $1 $$;

-- A writer locks the store and its scopes in shared mode. A conditional append locks the scopes it can read exclusively;
-- without scopes it locks the whole store. Locks are taken in one order, so that writers never deadlock.
CREATE FUNCTION begin_write(scopes text[], exclusive boolean, wanted integer, OUT has_quarantines boolean, OUT positions bigint[])
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    scope_lock integer;
BEGIN
    IF scopes IS NULL THEN
        PERFORM pg_advisory_xact_lock(19531, 0);
    ELSE
        PERFORM pg_advisory_xact_lock_shared(19531, 0);
        FOR scope_lock IN SELECT DISTINCT hashtext(scope) FROM unnest(scopes) AS scope ORDER BY 1 LOOP
            IF exclusive THEN
                PERFORM pg_advisory_xact_lock(19532, scope_lock);
            ELSE
                PERFORM pg_advisory_xact_lock_shared(19532, scope_lock);
            END IF;
        END LOOP;
    END IF;
    PERFORM pg_advisory_xact_lock_shared((19531::bigint << 48) | lukasa.newest_position());
    has_quarantines := lukasa.has_quarantines();
    positions := ARRAY(SELECT nextval('lukasa.position') FROM generate_series(1, wanted));
END $$;

CREATE FUNCTION add_to_tally(scope text, kind text, live bigint, versions bigint, checksum bigint,
        texts bigint, tokens bigint, past_texts bigint, past_tokens bigint)
    RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO lukasa.tally AS t (scope, kind, slot, live, versions, checksum, texts, tokens, past_texts, past_tokens)
    VALUES ($1, $2, pg_backend_pid() & 255, $3, $4, $5, $6, $7, $8, $9)
    ON CONFLICT ON CONSTRAINT tally_pkey DO UPDATE SET live = t.live + excluded.live, versions = t.versions + excluded.versions,
        checksum = (t.checksum + excluded.checksum) & 4611686018427387903,
        texts = t.texts + excluded.texts, tokens = t.tokens + excluded.tokens,
        past_texts = t.past_texts + excluded.past_texts, past_tokens = t.past_tokens + excluded.past_tokens
$$;

-- Insert one new record without labels or links. Null when any author is in quarantine: the full append must decide.
CREATE FUNCTION insert_single(scope text, kind text, id text, author text, at bigint, moment bigint, tokens integer, words tsvector,
        digest bytea, line text, checksum bigint)
    RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    inserted bigint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(19531, 0), pg_advisory_xact_lock_shared(19532, hashtext($1)),
        pg_advisory_xact_lock_shared((19531::bigint << 48) | coalesce(pg_sequence_last_value('lukasa.position'), 0));
    INSERT INTO lukasa.tally AS t (scope, kind, slot, live, versions, checksum, texts, tokens, past_texts, past_tokens)
    SELECT $1, $2, pg_backend_pid() & 255, 1, 1, $11, CASE WHEN $7 IS NULL THEN 0 ELSE 1 END, coalesce($7, 0), 0, 0
    WHERE NOT lukasa.has_quarantines()
    ON CONFLICT ON CONSTRAINT tally_pkey DO UPDATE SET live = t.live + 1, versions = t.versions + 1,
        checksum = (t.checksum + excluded.checksum) & 4611686018427387903,
        texts = t.texts + excluded.texts, tokens = t.tokens + excluded.tokens;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO lukasa.log (seq, scope, kind, id, version, author, at, moment, deleted, live, tokens, labels, words, digest, line)
    VALUES (nextval('lukasa.position'), $1, $2, $3, 1, $4, $5, $6, false, true, $7, '{}', $8, $9, $10)
    RETURNING seq INTO inserted;
    RETURN inserted;
END $$;
