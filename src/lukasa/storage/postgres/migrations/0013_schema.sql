-- The schema of a store. Its tables hold the log, what is derived from it, and what a role of the database may do.

-- The log. ``line`` is the record; the other columns repeat parts of it so that they can be searched.
-- Everything that belongs to a scope carries it and is partitioned by it, so that scopes can live on different servers.
CREATE SEQUENCE position;

-- A store has as many partitions as the setting ``lukasa.partitions`` says when it is created; 0 makes plain tables, which an
-- engine that distributes tables can distribute by scope.
CREATE FUNCTION create_by_scope(name text, columns text, partitions integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE lukasa.%I (%s)', name, columns) || CASE WHEN partitions > 0 THEN ' PARTITION BY HASH (scope)' ELSE '' END;
    FOR n IN 0 .. partitions - 1 LOOP
        EXECUTE format('CREATE TABLE lukasa.%I PARTITION OF lukasa.%I FOR VALUES WITH (MODULUS %s, REMAINDER %s)', name || '_' || n, name, partitions, n);
    END LOOP;
END $$;

DO $$
DECLARE
    wanted integer := coalesce(nullif(current_setting('lukasa.partitions', true), ''), '8')::integer;
    leaf name;
BEGIN
    IF wanted NOT BETWEEN 0 AND 256 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'lukasa.partitions is ' || wanted || '; it can be 0 to 256';
    END IF;
    PERFORM lukasa.create_by_scope('log', $columns$
        seq         bigint NOT NULL,
        scope       text COLLATE "C" NOT NULL,
        kind        text COLLATE "C" NOT NULL,
        id          text COLLATE "C" NOT NULL,
        version     bigint NOT NULL,
        author      text COLLATE "C" NOT NULL,
        at          bigint NOT NULL,             -- recorded, microseconds since 1970
        moment      bigint NOT NULL,             -- happened, likewise
        deleted     boolean NOT NULL,
        live        boolean NOT NULL,            -- derived: the newest version that can be seen, and no tombstone
        tokens      integer,                     -- how many words the text has; null without a text
        labels      text[] COLLATE "C" NOT NULL,
        group_label text COLLATE "C",            -- derived: the label that groups records for adjacent_turns
        words       tsvector,                    -- the tokens of lukasa.text.terms with their positions
        digest      bytea NOT NULL,              -- SHA-256 of line
        line        text COLLATE "C" NOT NULL,
        pair_keys   integer[] NOT NULL DEFAULT '{}', -- derived: near-duplicate keys of the text
        PRIMARY KEY (seq, scope),
        UNIQUE (scope, kind, id, version)$columns$, wanted);
    FOR leaf IN SELECT relname FROM pg_class
            WHERE relnamespace = 'lukasa'::regnamespace AND relkind = 'r' AND relname ~ '^log(_[0-9]+)?$' LOOP
        EXECUTE format('ALTER TABLE lukasa.%I SET (fillfactor = 90)', leaf);
    END LOOP;
    PERFORM lukasa.create_by_scope('link', $columns$
        scope text COLLATE "C" NOT NULL, seq bigint NOT NULL, relation text COLLATE "C" NOT NULL,
        to_scope text COLLATE "C" NOT NULL, to_kind text COLLATE "C" NOT NULL, to_id text COLLATE "C" NOT NULL,
        target uuid GENERATED ALWAYS AS (md5(to_scope || E'\x1f' || to_kind || E'\x1f' || to_id)::uuid) STORED,
        PRIMARY KEY (target, relation, seq, scope)$columns$, wanted);
    -- Versions that a quarantine hides.
    PERFORM lukasa.create_by_scope('hidden', $columns$
        scope text COLLATE "C" NOT NULL, seq bigint NOT NULL, author text COLLATE "C" NOT NULL,
        PRIMARY KEY (seq, author, scope)$columns$, wanted);
    -- Near-duplicate keys of current versions, sorted by key and position, so that the newest few texts of a key are found
    -- however many share it. An index of arrays returns all of them, and the planner does not take it for thousands of keys.
    PERFORM lukasa.create_by_scope('duplicate_key', $columns$
        seq bigint NOT NULL, pair_key integer NOT NULL, scope text COLLATE "C" NOT NULL,
        PRIMARY KEY (scope, pair_key, seq)$columns$, wanted);
END $$;
CREATE INDEX log_by_kind ON log (scope, kind, seq);
CREATE INDEX log_by_group ON log (scope, group_label, seq) WHERE group_label IS NOT NULL;
CREATE INDEX log_by_words ON log USING gin (words) WHERE words IS NOT NULL;
CREATE INDEX log_by_label ON log USING gin (labels) WHERE labels <> '{}';
CREATE INDEX link_by_seq ON link (seq);
CREATE INDEX hidden_by_author ON hidden (author);

-- Three long names together are more than an index takes, so a target is found by a hash of them.
CREATE FUNCTION target_of(scope text, kind text, id text) RETURNS uuid LANGUAGE sql IMMUTABLE
    AS $$ SELECT md5(scope || E'\x1f' || kind || E'\x1f' || id)::uuid $$;

-- A trigger keeps ``duplicate_key`` like the column ``pair_keys``, whoever writes. A batch that is copied into the log adds the
-- keys of all its texts in one sorted statement, and says so by a setting of its transaction; row by row takes longer.
CREATE FUNCTION index_pair_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM lukasa.duplicate_key AS d WHERE d.scope = old.scope AND d.pair_key = ANY (old.pair_keys) AND d.seq = old.seq;
    END IF;
    IF TG_OP <> 'DELETE' AND new.live THEN
        INSERT INTO lukasa.duplicate_key (seq, pair_key, scope)
        SELECT new.seq, pair_key, new.scope FROM unnest(new.pair_keys) AS pair_key ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER pair_keys_added AFTER INSERT ON log FOR EACH ROW
    WHEN (new.live AND new.pair_keys <> '{}' AND current_setting('lukasa.adds_pair_keys', true) IS DISTINCT FROM 'yes')
    EXECUTE FUNCTION index_pair_keys();
CREATE TRIGGER pair_keys_changed AFTER UPDATE ON log FOR EACH ROW
    WHEN (old.live <> new.live AND old.pair_keys <> '{}' OR old.pair_keys <> new.pair_keys) EXECUTE FUNCTION index_pair_keys();
CREATE TRIGGER pair_keys_removed AFTER DELETE ON log FOR EACH ROW WHEN (old.live AND old.pair_keys <> '{}')
    EXECUTE FUNCTION index_pair_keys();

-- Counts, and the sum of all digests modulo 2^62: a line that is lost or altered shows here. Each connection counts
-- in a slot of its own, so that writers of one kind do not wait for each other; what counts is the sum of the slots.
CREATE TABLE tally (
    scope text COLLATE "C" NOT NULL, kind text COLLATE "C" NOT NULL, slot smallint NOT NULL,
    live bigint NOT NULL, versions bigint NOT NULL, checksum bigint NOT NULL,
    texts bigint NOT NULL, tokens bigint NOT NULL,              -- of what is live, for the ranking of matches
    past_texts bigint NOT NULL, past_tokens bigint NOT NULL,    -- of what is not
    PRIMARY KEY (scope, kind, slot)
) WITH (fillfactor = 50);
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

-- One table of vectors per model and length, made when it is first needed.
CREATE TABLE model (number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" NOT NULL, length integer NOT NULL, UNIQUE (name, length));

-- Not derived: authors in quarantine, stored answers to idempotency keys, and facts about this store.
CREATE TABLE quarantine (author text COLLATE "C" PRIMARY KEY, since bigint NOT NULL);
-- A role's own answers to idempotency keys: a key that another role used stays free.
CREATE TABLE idempotency (
    key text NOT NULL, fingerprint bytea NOT NULL, seqs bigint[] NOT NULL, at bigint NOT NULL, role name NOT NULL DEFAULT current_user,
    PRIMARY KEY (role, key));
CREATE TABLE meta (name text PRIMARY KEY, value text NOT NULL);

-- Who may reach what, and the agent that every entry of a role must name as its author or writer; null for any.
CREATE TABLE admission (
    role name NOT NULL, scope text COLLATE "C" NOT NULL, writes boolean NOT NULL, agent text COLLATE "C", PRIMARY KEY (role, scope));

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

-- Roles may not list the authors in quarantine. A writer may learn whether one author is.
CREATE FUNCTION quarantine_start(author text) RETURNS bigint LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = lukasa, pg_temp
    AS $$ SELECT since FROM lukasa.quarantine AS q WHERE q.author = $1 $$;

-- Create the table of one model's vectors. The only place where vector tables are made.
CREATE FUNCTION create_vector_table(number integer, length integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    vectors text := 'vector_' || number;
    reader name;
BEGIN
    PERFORM lukasa.create_by_scope(vectors, format('scope text COLLATE "C" NOT NULL, seq bigint NOT NULL, chunk integer NOT NULL, '
        'vector halfvec(%s) NOT NULL, checksum bytea, PRIMARY KEY (scope, seq, chunk)', length),
        (SELECT count(*) FROM pg_inherits WHERE inhparent = 'lukasa.log'::regclass)::integer);
    EXECUTE format('CREATE INDEX %I ON lukasa.%I USING hnsw (vector halfvec_cosine_ops)', vectors || '_near', vectors);
    EXECUTE format('ALTER TABLE lukasa.%I ENABLE ROW LEVEL SECURITY', vectors);
    EXECUTE format('CREATE POLICY reads ON lukasa.%I FOR SELECT USING (scope IN (SELECT a.scope FROM lukasa.admission AS a WHERE a.role = current_user))', vectors);
    FOR reader IN SELECT DISTINCT role FROM lukasa.admission JOIN pg_roles ON rolname = role LOOP
        EXECUTE format('GRANT SELECT ON lukasa.%I TO %I', vectors, reader);
    END LOOP;
END $$;

-- How the owner writes. Positions are drawn from a sequence, so a later position can be committed before an earlier one. Every
-- writer holds, until its end is visible, a lock whose number is the newest position before it drew its own, with random bits
-- above: a role cannot hold all of these numbers in advance. What lies at or below the lowest of them is settled: nothing can
-- come before it any more. See docs/decisions/0007-postgresql.md.
CREATE FUNCTION hold_position() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    WHILE NOT pg_try_advisory_xact_lock_shared((76::bigint << 56) | (floor(random() * 65536)::bigint << 40)
            | coalesce(pg_sequence_last_value('lukasa.position'), 0)) LOOP
    END LOOP;
END $$;
CREATE FUNCTION may_write(role oid) RETURNS boolean LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = lukasa, pg_temp
    AS $$ SELECT EXISTS (SELECT 1 FROM admission JOIN pg_roles ON rolname = admission.role WHERE pg_roles.oid = $1 AND writes) $$;

-- The settled position. A lock counts if its holder may act as the owner of the store, or is a role that may write; the
-- caller names the roles' connections that it has waited for long enough. ``holders`` are all connections of roles.
CREATE FUNCTION settled(ignored integer[], OUT settled bigint, OUT newest bigint, OUT holders integer[])
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    newest := coalesce(pg_sequence_last_value('lukasa.position'), 0);  -- before the locks: later writers draw later
    SELECT least(newest, min(held.position) FILTER (WHERE held.is_owner OR held.pid <> ALL (ignored))),
        coalesce(array_agg(held.pid) FILTER (WHERE NOT held.is_owner), '{}')
    INTO settled, holders
    FROM (
        SELECT l.pid, l.position, a.usesysid,
            pg_has_role(a.usesysid, (SELECT nspowner FROM pg_namespace WHERE nspname = 'lukasa'), 'USAGE') AS is_owner
        FROM (
            SELECT pid, min(((classid::bigint & 255) << 32) | objid::bigint) AS position FROM pg_lock_status()
            WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> 24 = 76 AND pid <> pg_backend_pid()
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            GROUP BY pid) AS l
        CROSS JOIN LATERAL pg_stat_get_activity(l.pid) AS a) AS held
    WHERE held.is_owner OR lukasa.may_write(held.usesysid);
END $$;

-- Every role of a server can hold any advisory lock. Writers of the owner therefore exclude each other by locks of these
-- empty tables, which no other role may touch: a plain append shares the slots of its scopes, a conditional append has
-- its slots to itself, and maintenance has all of them.
DO $$ BEGIN
    FOR n IN 0..7 LOOP
        EXECUTE format('CREATE TABLE write_lock_%s ()', n);
    END LOOP;
END $$;

-- Lock scopes that roles may write, and wait for roles at most a second in all: a role that keeps a lock stops nobody.
CREATE FUNCTION lock_beside_roles(scope_locks integer[], exclusive boolean) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    usual_timeout text := current_setting('lock_timeout');
    began timestamptz; left_over integer; scope_lock integer;
BEGIN
    FOREACH scope_lock IN ARRAY scope_locks LOOP
        CONTINUE WHEN CASE WHEN exclusive THEN pg_try_advisory_xact_lock(19532, scope_lock)
            ELSE pg_try_advisory_xact_lock_shared(19532, scope_lock) END;
        began := coalesce(began, clock_timestamp());
        left_over := 1000 - extract(milliseconds FROM clock_timestamp() - began);
        CONTINUE WHEN left_over < 1;
        PERFORM set_config('lock_timeout', left_over::text, true);
        BEGIN
            IF exclusive THEN
                PERFORM pg_advisory_xact_lock(19532, scope_lock);
            ELSE
                PERFORM pg_advisory_xact_lock_shared(19532, scope_lock);
            END IF;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            NULL;
        END;
        PERFORM set_config('lock_timeout', usual_timeout, true);
    END LOOP;
END $$;

-- Locks are taken in one order, so that writers never deadlock. Without scopes the whole store is locked.
CREATE FUNCTION begin_write(scopes text[], exclusive boolean, wanted integer, OUT has_quarantines boolean, OUT positions bigint[])
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    EXECUTE (SELECT 'LOCK TABLE ' || string_agg('lukasa.write_lock_' || slot, ', ' ORDER BY slot)
        || CASE WHEN exclusive OR scopes IS NULL THEN ' IN EXCLUSIVE MODE' ELSE ' IN ROW SHARE MODE' END
        FROM (SELECT hashtext(scope) & 7 FROM unnest(scopes) AS scope
            UNION SELECT generate_series(0, 7) WHERE scopes IS NULL UNION SELECT 0 WHERE scopes = '{}') AS locked (slot));
    PERFORM lukasa.lock_beside_roles(ARRAY(SELECT DISTINCT hashtext(a.scope) FROM lukasa.admission AS a
        WHERE a.writes AND (scopes IS NULL OR a.scope = ANY (scopes)) ORDER BY 1), exclusive OR scopes IS NULL);
    PERFORM lukasa.hold_position();
    has_quarantines := EXISTS (SELECT 1 FROM lukasa.quarantine);
    positions := ARRAY(SELECT nextval('lukasa.position') FROM generate_series(1, wanted));
END $$;

-- Insert one new record without labels or links. Null when any author is in quarantine: the full append must decide.
CREATE FUNCTION insert_single(scope text, kind text, id text, author text, at bigint, moment bigint, tokens integer,
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

-- The single new records of several threads in one statement and one commit: ``insert_single`` for many records of one scope.
-- Their positions are drawn as the rows are inserted, in the order of the arrays. Null, and nothing written, when an author is
-- in quarantine.
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

-- The newest visible version of each key of one scope and the highest number taken, hidden versions included. A function, because
-- the server planned this statement each time, which took longer than a few lookups: it overestimates what a plan for any scope
-- costs. Each lookup is one index search, whatever the statistics say.
CREATE FUNCTION key_states(scope text, kinds text[], ids text[])
    RETURNS TABLE (kind text, id text, seq bigint, version bigint, highest bigint, line text, deleted boolean, tokens integer, newest_line text)
    LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT wanted.kind, wanted.id, seen.seq, seen.version, newest.version, seen.line, seen.deleted, seen.tokens, newest.line
    FROM unnest($2, $3) AS wanted (kind, id)
    CROSS JOIN LATERAL (
        SELECT log.version, log.line FROM lukasa.log
        WHERE log.scope = $1 AND log.kind = wanted.kind AND log.id = wanted.id
        ORDER BY log.version DESC LIMIT 1) AS newest
    LEFT JOIN LATERAL (
        SELECT log.seq, log.version, log.line, log.deleted, log.tokens FROM lukasa.log
        WHERE log.scope = $1 AND log.kind = wanted.kind AND log.id = wanted.id
            AND NOT EXISTS (SELECT 1 FROM lukasa.hidden WHERE hidden.scope = $1 AND hidden.seq = log.seq)
        ORDER BY log.version DESC LIMIT 1) AS seen ON true;
END $$;

-- What a role of the database can do. Whoever owns the store reaches everything; any other role sees and writes what it was
-- admitted to, whatever statements it writes by hand. Roles get rights on the partitioned tables alone, never on a partition.
DO $$
DECLARE
    by_scope text;
BEGIN
    FOREACH by_scope IN ARRAY ARRAY['log', 'link', 'hidden', 'tally', 'duplicate_key'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', by_scope);
        EXECUTE format('CREATE POLICY reads ON %I FOR SELECT USING (scope IN (SELECT a.scope FROM admission AS a WHERE a.role = current_user))', by_scope);
    END LOOP;
END $$;
CREATE POLICY embedder ON log FOR SELECT USING (scope = '_lukasa' AND kind = 'setting' AND id = 'embedder');
ALTER TABLE quarantine ENABLE ROW LEVEL SECURITY;
ALTER TABLE admission ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON admission FOR SELECT USING (role = current_user);
ALTER TABLE idempotency ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON idempotency USING (role = current_user) WITH CHECK (role = current_user);

-- Give a role what it needs to read, and to store its own answers to idempotency keys.
CREATE FUNCTION grant_reading(role name) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    number integer;
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA lukasa TO %I', role);
    EXECUTE format('GRANT SELECT ON TABLE lukasa.log, lukasa.link, lukasa.hidden, lukasa.tally, lukasa.quarantine, lukasa.model, '
        'lukasa.admission, lukasa.idempotency, lukasa.meta, lukasa.duplicate_key TO %I', role);
    EXECUTE format('GRANT INSERT ON TABLE lukasa.idempotency TO %I', role);
    EXECUTE format('GRANT SELECT ON SEQUENCE lukasa.position TO %I', role);
    FOR number IN SELECT model.number FROM lukasa.model LOOP
        EXECUTE format('GRANT SELECT ON TABLE lukasa.vector_%s TO %I', number, role);
    END LOOP;
END $$;

-- The role that called: inside a function that runs as the owner, current_user is the owner.
CREATE FUNCTION calling_role() RETURNS name LANGUAGE sql STABLE
    AS $$ SELECT CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END $$;

-- What follows is how a role writes: functions that run as the owner and check everything. A role has no right to change
-- a table, so that it can neither hide nor show a record, nor write a row that others cannot read.
CREATE FUNCTION begin_role_write(scopes text[], exclusive boolean) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = lukasa, pg_temp AS $$
BEGIN
    PERFORM lock_beside_roles(ARRAY(SELECT DISTINCT hashtext(a.scope) FROM admission AS a
        WHERE a.role = calling_role() AND a.writes AND (scopes IS NULL OR a.scope = ANY (scopes)) ORDER BY 1), exclusive);
END $$;

-- Refuse an entry that a Lukasa would not have written.
CREATE FUNCTION check_entry(entry json) RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = lukasa, pg_temp AS $$
DECLARE
    fault text;
BEGIN
    SELECT 'the field ' || left(field.key, 60) INTO fault FROM json_each(entry) AS field
    WHERE json_typeof(field.value) IS DISTINCT FROM CASE
        WHEN field.key IN ('id', 'kind', 'origin', 'scope', 'author', 'text', 'created_at', 'recorded_at', 'happened_at') THEN 'string'
        WHEN field.key = 'version' THEN 'number' WHEN field.key = 'deleted' THEN 'boolean' WHEN field.key = 'body' THEN 'object'
        WHEN field.key IN ('labels', 'links') THEN 'array' END
    OR (field.key IN ('created_at', 'recorded_at', 'happened_at')
        AND field.value::text !~ '^"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z"$')
    OR (field.key IN ('id', 'kind', 'origin', 'scope') AND field.value::text = '""')
    OR (field.key NOT IN ('text', 'body') AND strpos(field.value::text, '\ufffe') > 0)
    OR (field.key = 'labels' AND EXISTS (SELECT 1 FROM json_array_elements(
        CASE json_typeof(field.value) WHEN 'array' THEN field.value ELSE '[]' END) AS label WHERE json_typeof(label) <> 'string'))
    OR (field.key = 'links' AND EXISTS (SELECT 1 FROM json_array_elements(
        CASE json_typeof(field.value) WHEN 'array' THEN field.value ELSE '[]' END) AS link
        WHERE json_typeof(link) <> 'object' OR (SELECT count(*) FROM json_each(link) AS part
            WHERE part.key IN ('id', 'kind', 'relation', 'scope') AND json_typeof(part.value) = 'string') <> 4));
    IF fault IS NULL AND (SELECT count(DISTINCT field.key) <> 7 FROM json_object_keys(entry) AS field (key)
            WHERE field.key IN ('id', 'kind', 'origin', 'scope', 'created_at', 'recorded_at', 'version')) THEN
        fault := 'a missing field';
    END IF;
    IF fault IS NULL AND (SELECT count(*) <> count(DISTINCT field.key) FROM json_object_keys(entry) AS field (key)) THEN
        fault := 'a field that occurs twice';
    END IF;
    IF fault IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'an entry cannot be read: ' || fault;
    END IF;
END $$;

-- Readers of the log wait two seconds for a role, so a commit that comes later than that after the positions were drawn is
-- refused: the entries would appear behind readers that went on.
CREATE TABLE role_write (role name PRIMARY KEY, drawn_at timestamptz NOT NULL) WITH (fillfactor = 50);
CREATE FUNCTION refuse_late_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF clock_timestamp() - new.drawn_at > interval '1500 milliseconds' THEN
        RAISE serialization_failure USING MESSAGE = 'the transaction took too long after its positions were drawn';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER late_commit AFTER INSERT OR UPDATE ON role_write DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION refuse_late_commit();

-- An entry that a role has not committed keeps others from writing the same record. A commit later than 1.5 seconds is
-- refused, so a role that is idle for longer loses nothing when the server ends its session.
CREATE FUNCTION limit_idle_time() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('idle_in_transaction_session_timeout', '2s', true);
    RETURN new;
END $$;
CREATE TRIGGER idle_time BEFORE INSERT OR UPDATE ON role_write FOR EACH ROW EXECUTE FUNCTION limit_idle_time();

CREATE FUNCTION append_entries(lines text[], token_counts integer[], vectors text[], group_labels text[], keys text[]) RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = lukasa, pg_temp AS $$
DECLARE
    me name := calling_role();
    entry json; e record; labels text[]; hiding text[]; version bigint; past integer; is_new boolean; place bigint; sum bigint; digest bytea;
    places bigint[] := '{}';
BEGIN
    PERFORM hold_position();
    INSERT INTO role_write VALUES (me, clock_timestamp()) ON CONFLICT (role) DO UPDATE SET drawn_at = excluded.drawn_at;
    FOR n IN 1 .. cardinality(lines) LOOP
        -- Functions of PostgreSQL read no JSON with a NUL, which texts and bodies may hold.
        entry := CASE WHEN strpos(lines[n], '\u0000') = 0 THEN lines[n]
            ELSE regexp_replace(lines[n], '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffe', 'g') END::json;
        PERFORM check_entry(entry);
        SELECT entry->>'scope' AS scope, entry->>'kind' AS kind, entry->>'id' AS id, coalesce(entry->>'author', '') AS author,
            coalesce((entry->>'deleted')::boolean, false) AS deleted,
            (extract(epoch FROM (entry->>'recorded_at')::timestamptz) * 1000000)::bigint AS at,
            (extract(epoch FROM coalesce(entry->>'happened_at', entry->>'recorded_at')::timestamptz) * 1000000)::bigint AS moment INTO e;
        labels := ARRAY(SELECT DISTINCT label COLLATE "C" FROM json_array_elements_text(coalesce(entry->'labels', '[]')) AS label ORDER BY 1);
        IF NOT EXISTS (SELECT 1 FROM admission AS a WHERE a.role = me AND a.scope = e.scope AND a.writes
                AND (a.agent IS NULL OR a.agent = e.author OR 'writer=' || a.agent = ANY (labels))) THEN
            RAISE insufficient_privilege USING MESSAGE = format('the role %s may not write this to the scope %s', me, e.scope);
        END IF;
        SELECT coalesce(max(log.version), 0) + 1 INTO version FROM log WHERE log.scope = e.scope AND log.kind = e.kind AND log.id = e.id;
        IF (entry->>'version')::bigint <> version THEN
            RAISE serialization_failure USING MESSAGE = format('the next version is %s', version);
        END IF;
        hiding := ARRAY(
            SELECT q.author FROM quarantine AS q WHERE q.author = e.author OR 'writer=' || q.author = ANY (labels)
            UNION SELECT hidden.author FROM json_array_elements(coalesce(entry->'links', '[]')) AS link
            JOIN log ON log.scope = link->>'scope' AND log.kind = link->>'kind' AND log.id = link->>'id'
            JOIN hidden ON hidden.scope = log.scope AND hidden.seq = log.seq
            WHERE link->>'relation' = 'derived_from' AND NOT EXISTS (
                SELECT 1 FROM log AS open WHERE open.scope = log.scope AND open.kind = log.kind AND open.id = log.id
                    AND NOT EXISTS (SELECT 1 FROM hidden AS h WHERE h.scope = open.scope AND h.seq = open.seq)));
        is_new := false; past := NULL; digest := sha256(convert_to(lines[n], 'UTF8'));
        IF hiding = '{}' THEN
            UPDATE log SET live = false WHERE log.scope = e.scope AND log.kind = e.kind AND log.id = e.id AND live RETURNING log.tokens INTO past;
            is_new := NOT FOUND;
        END IF;
        INSERT INTO log (seq, scope, kind, id, version, author, at, moment, deleted, live, tokens, labels, group_label, pair_keys, words, digest, line)
        VALUES (nextval('position'), e.scope, e.kind, e.id, version, e.author, e.at, e.moment, e.deleted, NOT e.deleted AND hiding = '{}', token_counts[n],
            labels, group_labels[n], keys[n]::integer[], vectors[n]::tsvector, digest, lines[n]) RETURNING seq INTO place;
        places := places || place;
        INSERT INTO link (scope, seq, relation, to_scope, to_kind, to_id)
        SELECT DISTINCT e.scope, place, l->>'relation', l->>'scope', l->>'kind', l->>'id' FROM json_array_elements(coalesce(entry->'links', '[]')) AS l;
        INSERT INTO hidden (scope, seq, author) SELECT e.scope, place, unnest(hiding);
        sum := ('x' || encode(substr(digest, 1, 8), 'hex'))::bit(64)::bigint & 4611686018427387903;
        -- A slot of the role alone: a role that does not commit keeps no other from counting.
        INSERT INTO tally AS t (scope, kind, slot, live, versions, checksum, texts, tokens, past_texts, past_tokens)
        SELECT e.scope, e.kind, 256 + (SELECT oid::bigint % 32000 FROM pg_roles WHERE rolname = me),
            CASE WHEN hiding <> '{}' THEN 0 ELSE is_new::integer - e.deleted::integer END, 1, sum,
            (now_live AND has_text)::integer - (past IS NOT NULL)::integer, CASE WHEN now_live THEN coalesce(token_counts[n], 0) ELSE 0 END - coalesce(past, 0),
            (NOT now_live AND has_text)::integer + (past IS NOT NULL)::integer, CASE WHEN now_live THEN 0 ELSE coalesce(token_counts[n], 0) END + coalesce(past, 0)
        FROM (SELECT NOT e.deleted AND hiding = '{}' AS now_live, token_counts[n] IS NOT NULL AS has_text) AS given
        ON CONFLICT ON CONSTRAINT tally_pkey DO UPDATE SET live = t.live + excluded.live, versions = t.versions + 1,
            checksum = (t.checksum + excluded.checksum) & 4611686018427387903, texts = t.texts + excluded.texts, tokens = t.tokens + excluded.tokens,
            past_texts = t.past_texts + excluded.past_texts, past_tokens = t.past_tokens + excluded.past_tokens;
    END LOOP;
    RETURN places;
END $$;
