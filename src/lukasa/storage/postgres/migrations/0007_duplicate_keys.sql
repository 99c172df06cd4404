-- Near-duplicate keys in a table of their own, sorted by key and position, so that the newest few texts of a key are found
-- however many share it. An index of arrays returns all of them, and the planner does not take it for thousands of keys.
-- The table holds the keys of current versions. A trigger keeps it like the column ``pair_keys``, whoever writes.
CREATE TABLE duplicate_key (
    seq bigint NOT NULL, pair_key integer NOT NULL, scope text COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, pair_key, seq)
) PARTITION BY HASH (scope);
DO $$ BEGIN
    FOR n IN 0..7 LOOP
        EXECUTE format('CREATE TABLE duplicate_key_%s PARTITION OF duplicate_key FOR VALUES WITH (MODULUS 8, REMAINDER %s)', n, n);
    END LOOP;
END $$;
DROP INDEX log_by_pair_key;
INSERT INTO duplicate_key (seq, pair_key, scope)
SELECT DISTINCT log.seq, pair_key, log.scope FROM log CROSS JOIN LATERAL unnest(log.pair_keys) AS pair_key WHERE log.live;

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
CREATE TRIGGER pair_keys_added AFTER INSERT ON log FOR EACH ROW WHEN (new.live AND new.pair_keys <> '{}')
    EXECUTE FUNCTION index_pair_keys();
CREATE TRIGGER pair_keys_changed AFTER UPDATE ON log FOR EACH ROW
    WHEN (old.live <> new.live AND old.pair_keys <> '{}' OR old.pair_keys <> new.pair_keys) EXECUTE FUNCTION index_pair_keys();
CREATE TRIGGER pair_keys_removed AFTER DELETE ON log FOR EACH ROW WHEN (old.live AND old.pair_keys <> '{}')
    EXECUTE FUNCTION index_pair_keys();

ALTER TABLE duplicate_key ENABLE ROW LEVEL SECURITY;
CREATE POLICY reads ON duplicate_key FOR SELECT USING (scope IN (SELECT a.scope FROM admission AS a WHERE a.role = current_user));

CREATE OR REPLACE FUNCTION grant_reading(role name) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
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
SELECT grant_reading(granted.role) FROM (SELECT DISTINCT role FROM admission JOIN pg_roles ON rolname = role) AS granted;
