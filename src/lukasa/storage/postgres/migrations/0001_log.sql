-- The log. ``line`` is the record; the other columns repeat parts of it so that they can be searched.
-- Everything that belongs to a scope carries it and is partitioned by it, so that scopes can live on different servers.
CREATE SEQUENCE position;

CREATE TABLE log (
    seq     bigint NOT NULL,
    scope   text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    author  text COLLATE "C" NOT NULL,
    at      bigint NOT NULL,             -- recorded, microseconds since 1970
    moment  bigint NOT NULL,             -- happened, likewise
    deleted boolean NOT NULL,
    live    boolean NOT NULL,            -- derived: the newest version that can be seen, and no tombstone
    tokens  integer,                     -- how many words the text has; null without a text
    labels  text[] COLLATE "C" NOT NULL,
    session text COLLATE "C",            -- derived: the label session=…, if there is one
    words   tsvector,
    digest  bytea NOT NULL,              -- SHA-256 of line
    line    text COLLATE "C" NOT NULL,
    PRIMARY KEY (seq, scope),
    UNIQUE (scope, kind, id, version)
) PARTITION BY HASH (scope);
CREATE INDEX log_by_kind ON log (scope, kind, seq);
CREATE INDEX log_by_session ON log (scope, session, seq) WHERE session IS NOT NULL;
CREATE INDEX log_by_words ON log USING gin (words) WHERE words IS NOT NULL;
CREATE INDEX log_by_label ON log USING gin (labels) WHERE labels <> '{}';

-- Three long names together are more than an index takes, so a target is found by a hash of them.
CREATE FUNCTION target_of(scope text, kind text, id text) RETURNS uuid LANGUAGE sql IMMUTABLE
    AS $$ SELECT md5(scope || E'\x1f' || kind || E'\x1f' || id)::uuid $$;
CREATE TABLE link (
    scope text COLLATE "C" NOT NULL, seq bigint NOT NULL, relation text COLLATE "C" NOT NULL,
    to_scope text COLLATE "C" NOT NULL, to_kind text COLLATE "C" NOT NULL, to_id text COLLATE "C" NOT NULL,
    target uuid GENERATED ALWAYS AS (md5(to_scope || E'\x1f' || to_kind || E'\x1f' || to_id)::uuid) STORED,
    PRIMARY KEY (target, relation, seq, scope)
) PARTITION BY HASH (scope);
CREATE INDEX link_by_seq ON link (seq);

-- Versions that a quarantine hides.
CREATE TABLE hidden (
    scope text COLLATE "C" NOT NULL, seq bigint NOT NULL, author text COLLATE "C" NOT NULL,
    PRIMARY KEY (seq, author, scope)
) PARTITION BY HASH (scope);
CREATE INDEX hidden_by_author ON hidden (author);

DO $$ BEGIN
    FOR n IN 0..7 LOOP
        EXECUTE format('CREATE TABLE log_%s PARTITION OF log FOR VALUES WITH (MODULUS 8, REMAINDER %s) WITH (fillfactor = 90)', n, n);
        EXECUTE format('CREATE TABLE link_%s PARTITION OF link FOR VALUES WITH (MODULUS 8, REMAINDER %s)', n, n);
        EXECUTE format('CREATE TABLE hidden_%s PARTITION OF hidden FOR VALUES WITH (MODULUS 8, REMAINDER %s)', n, n);
    END LOOP;
END $$;

CREATE TABLE veil (author text COLLATE "C" PRIMARY KEY, since bigint NOT NULL);

-- Counts, and the sum of all digests modulo 2^62: a line that is lost or altered shows here. Each connection counts
-- in a slot of its own, so that writers of one kind do not wait for each other; what counts is the sum of the slots.
CREATE TABLE tally (
    scope text COLLATE "C" NOT NULL, kind text COLLATE "C" NOT NULL, slot smallint NOT NULL,
    live bigint NOT NULL, versions bigint NOT NULL, checksum bigint NOT NULL,
    texts bigint NOT NULL, tokens bigint NOT NULL,              -- of what is live, for the ranking of matches
    past_texts bigint NOT NULL, past_tokens bigint NOT NULL,    -- of what is not
    PRIMARY KEY (scope, kind, slot)
) WITH (fillfactor = 50);

-- One table of vectors per model and length, made when it is first needed.
CREATE TABLE model (number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" NOT NULL, length integer NOT NULL, UNIQUE (name, length));

-- Not derived: answers to idempotency keys, who may reach what, and facts about this store.
CREATE TABLE answered (
    key text PRIMARY KEY, fingerprint bytea NOT NULL, seqs bigint[] NOT NULL, at bigint NOT NULL, role name NOT NULL DEFAULT current_user);
CREATE TABLE admission (
    role name NOT NULL, scope text COLLATE "C" NOT NULL, writes boolean NOT NULL, PRIMARY KEY (role, scope));
CREATE TABLE fact (name text PRIMARY KEY, value text NOT NULL);

-- Positions are drawn from a sequence, so a later position can be committed before an earlier one. Every writer holds,
-- until its end is visible, a lock that names the newest position there was before it drew its own. What lies at or
-- below the lowest of those is settled: nothing can come before it any more.
CREATE FUNCTION newest_position() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT coalesce(pg_sequence_last_value('lukasa.position'), 0) $$;

-- Roles may not list who is in quarantine; writing, they may learn whether anybody is, and whether one author is.
CREATE FUNCTION any_veil() RETURNS boolean LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = lukasa, pg_temp
    AS $$ SELECT EXISTS (SELECT 1 FROM lukasa.veil) $$;
CREATE FUNCTION veil_of(author text) RETURNS bigint LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = lukasa, pg_temp
    AS $$ SELECT since FROM lukasa.veil AS v WHERE v.author = $1 $$;

CREATE FUNCTION settled(OUT settled bigint, OUT newest bigint) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    newest := lukasa.newest_position();  -- before the locks: who locks later draws later
    SELECT least(newest, min(((classid::bigint & 65535) << 32) | objid::bigint)) INTO settled FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> 16 = 19531 AND pid <> pg_backend_pid()
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
END $$;

-- A writer shares the store and the scopes it writes to; a decision has the scopes it can see to itself, and without
-- scopes the whole store. Locks are taken in one order, so that nobody waits in a circle.
CREATE FUNCTION enter(scopes text[], alone boolean, wanted integer, OUT veiled boolean, OUT positions bigint[])
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    place integer;
BEGIN
    IF scopes IS NULL THEN
        PERFORM pg_advisory_xact_lock(19531, 0);
    ELSE
        PERFORM pg_advisory_xact_lock_shared(19531, 0);
        FOR place IN SELECT DISTINCT hashtext(scope) FROM unnest(scopes) AS scope ORDER BY 1 LOOP
            IF alone THEN
                PERFORM pg_advisory_xact_lock(19532, place);
            ELSE
                PERFORM pg_advisory_xact_lock_shared(19532, place);
            END IF;
        END LOOP;
    END IF;
    PERFORM pg_advisory_xact_lock_shared((19531::bigint << 48) | lukasa.newest_position());
    veiled := lukasa.any_veil();
    positions := ARRAY(SELECT nextval('lukasa.position') FROM generate_series(1, wanted));
END $$;

CREATE FUNCTION keep_books(scope text, kind text, live bigint, versions bigint, checksum bigint,
        texts bigint, tokens bigint, past_texts bigint, past_tokens bigint)
    RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO lukasa.tally AS t (scope, kind, slot, live, versions, checksum, texts, tokens, past_texts, past_tokens)
    VALUES ($1, $2, pg_backend_pid() & 255, $3, $4, $5, $6, $7, $8, $9)
    ON CONFLICT ON CONSTRAINT tally_pkey DO UPDATE SET live = t.live + excluded.live, versions = t.versions + excluded.versions,
        checksum = (t.checksum + excluded.checksum) & 4611686018427387903,
        texts = t.texts + excluded.texts, tokens = t.tokens + excluded.tokens,
        past_texts = t.past_texts + excluded.past_texts, past_tokens = t.past_tokens + excluded.past_tokens
$$;

-- One new record in one step: the short way. Null when an author is quarantined, which takes a closer look.
CREATE FUNCTION add_sole(scope text, kind text, id text, author text, at bigint, moment bigint, tokens integer, words tsvector,
        digest bytea, line text, checksum bigint)
    RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    place bigint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(19531, 0), pg_advisory_xact_lock_shared(19532, hashtext($1)),
        pg_advisory_xact_lock_shared((19531::bigint << 48) | coalesce(pg_sequence_last_value('lukasa.position'), 0));
    INSERT INTO lukasa.tally AS t (scope, kind, slot, live, versions, checksum, texts, tokens, past_texts, past_tokens)
    SELECT $1, $2, pg_backend_pid() & 255, 1, 1, $11, CASE WHEN $7 IS NULL THEN 0 ELSE 1 END, coalesce($7, 0), 0, 0
    WHERE NOT lukasa.any_veil()
    ON CONFLICT ON CONSTRAINT tally_pkey DO UPDATE SET live = t.live + 1, versions = t.versions + 1,
        checksum = (t.checksum + excluded.checksum) & 4611686018427387903,
        texts = t.texts + excluded.texts, tokens = t.tokens + excluded.tokens;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO lukasa.log (seq, scope, kind, id, version, author, at, moment, deleted, live, tokens, labels, words, digest, line)
    VALUES (nextval('lukasa.position'), $1, $2, $3, 1, $4, $5, $6, false, true, $7, '{}', $8, $9, $10)
    RETURNING seq INTO place;
    RETURN place;
END $$;

-- The wall. Whoever owns the store reaches everything; any other role sees and writes what it was admitted to, whatever
-- statements it writes by hand. Roles get rights on the partitioned tables alone, never on a partition.
DO $$
DECLARE
    walled text;
BEGIN
    FOREACH walled IN ARRAY ARRAY['log', 'link', 'hidden', 'tally'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', walled);
        EXECUTE format('CREATE POLICY reads ON %I FOR SELECT USING (scope IN (SELECT a.scope FROM admission AS a WHERE a.role = current_user))', walled);
        EXECUTE format('CREATE POLICY adds ON %I FOR INSERT WITH CHECK (scope IN (SELECT a.scope FROM admission AS a WHERE a.role = current_user AND a.writes))', walled);
        EXECUTE format('CREATE POLICY changes ON %I FOR UPDATE USING (scope IN (SELECT a.scope FROM admission AS a WHERE a.role = current_user AND a.writes))', walled);
    END LOOP;
END $$;
ALTER TABLE veil ENABLE ROW LEVEL SECURITY;
ALTER TABLE admission ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON admission FOR SELECT USING (role = current_user);
ALTER TABLE answered ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON answered USING (role = current_user) WITH CHECK (role = current_user);
