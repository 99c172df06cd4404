-- Locks and rights that a role cannot turn against the others. See docs/decisions/0007-postgresql.md.

-- Every role of a server can hold any advisory lock. Writers of the owner therefore exclude each other by locks of these
-- empty tables, which no other role may touch: a plain append shares the slots of its scopes, a conditional append has
-- its slots to itself, and maintenance has all of them.
DO $$ BEGIN
    FOR n IN 0..7 LOOP
        EXECUTE format('CREATE TABLE write_lock_%s ()', n);
    END LOOP;
END $$;

-- A role's own answers to idempotency keys: a key that another role used stays free.
ALTER TABLE idempotency DROP CONSTRAINT idempotency_pkey, ADD CONSTRAINT idempotency_pkey PRIMARY KEY (role, key);
-- The agent that every entry of a role must name as its author or writer; null for any.
ALTER TABLE admission ADD COLUMN agent text COLLATE "C";
CREATE POLICY embedder ON log FOR SELECT USING (scope = '_lukasa' AND kind = 'setting' AND id = 'embedder');

DROP FUNCTION settled(), begin_write(text[], boolean, integer),
    insert_single(text, text, text, text, bigint, bigint, integer, tsvector, bytea, text, bigint);

-- The role that called: inside a function that runs as the owner, current_user is the owner.
CREATE FUNCTION calling_role() RETURNS name LANGUAGE sql STABLE
    AS $$ SELECT CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END $$;

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

-- A writer holds a lock whose number is the newest position before it drew its own, with random bits above: a role
-- cannot hold all of these numbers in advance.
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

CREATE FUNCTION insert_single(scope text, kind text, id text, author text, at bigint, moment bigint, tokens integer, words tsvector,
        digest bytea, line text, checksum bigint)
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
    INSERT INTO lukasa.tally AS t (scope, kind, slot, live, versions, checksum, texts, tokens, past_texts, past_tokens)
    SELECT $1, $2, pg_backend_pid() & 255, 1, 1, $11, CASE WHEN $7 IS NULL THEN 0 ELSE 1 END, coalesce($7, 0), 0, 0
    WHERE NOT EXISTS (SELECT 1 FROM lukasa.quarantine)
        AND NOT EXISTS (SELECT 1 FROM lukasa.admission AS a WHERE a.writes AND a.scope = $1)
    ON CONFLICT ON CONSTRAINT tally_pkey DO UPDATE SET live = t.live + 1, versions = t.versions + 1,
        checksum = (t.checksum + excluded.checksum) & 4611686018427387903,
        texts = t.texts + excluded.texts, tokens = t.tokens + excluded.tokens;
    IF NOT FOUND THEN
        IF EXISTS (SELECT 1 FROM lukasa.quarantine) THEN
            RETURN NULL;
        END IF;
        PERFORM lukasa.lock_beside_roles(ARRAY[hashtext($1)], false),
            lukasa.add_to_tally($1, $2, 1, 1, $11, ($7 IS NOT NULL)::integer, coalesce($7, 0), 0, 0);
    END IF;
    INSERT INTO lukasa.log (seq, scope, kind, id, version, author, at, moment, deleted, live, tokens, labels, words, digest, line)
    VALUES (nextval('lukasa.position'), $1, $2, $3, 1, $4, $5, $6, false, true, $7, '{}', $8, $9, $10)
    RETURNING seq INTO inserted;
    RETURN inserted;
END $$;

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

-- Give a role what it needs to read, and to store its own answers to idempotency keys.
CREATE FUNCTION grant_reading(role name) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    number integer;
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA lukasa TO %I', role);
    EXECUTE format('GRANT SELECT ON TABLE lukasa.log, lukasa.link, lukasa.hidden, lukasa.tally, lukasa.quarantine, lukasa.model, lukasa.admission, lukasa.idempotency, lukasa.meta TO %I', role);
    EXECUTE format('GRANT INSERT ON TABLE lukasa.idempotency TO %I', role);
    EXECUTE format('GRANT SELECT ON SEQUENCE lukasa.position TO %I', role);
    FOR number IN SELECT model.number FROM lukasa.model LOOP
        EXECUTE format('GRANT SELECT ON TABLE lukasa.vector_%s TO %I', number, role);
    END LOOP;
END $$;

-- Roles of an older store lose what they could do by hand.
DO $$
DECLARE
    granted name;
BEGIN
    FOR granted IN SELECT DISTINCT role FROM admission JOIN pg_roles ON rolname = role LOOP
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA lukasa FROM %I', granted);
        EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA lukasa FROM %I', granted);
        PERFORM lukasa.grant_reading(granted);
    END LOOP;
END $$;
