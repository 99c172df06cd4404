-- A new store has as many partitions as the setting ``lukasa.partitions`` says when it is created; 0 makes plain tables,
-- which an engine that distributes tables can distribute by scope. Stores that hold something stay as they are.
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
    by_scope text; statement text; statements text[];
BEGIN
    IF wanted NOT BETWEEN 0 AND 256 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'lukasa.partitions is ' || wanted || '; it can be 0 to 256';
    END IF;
    IF wanted = 8 OR EXISTS (SELECT 1 FROM lukasa.log) OR EXISTS (SELECT 1 FROM lukasa.admission) THEN
        RETURN;
    END IF;
    FOREACH by_scope IN ARRAY ARRAY['log', 'link', 'hidden', 'duplicate_key'] LOOP
        EXECUTE format('ALTER TABLE lukasa.%I RENAME TO before', by_scope);
        statements := ARRAY(
            SELECT replace(pg_get_triggerdef(oid), 'lukasa.before', 'lukasa.' || by_scope) FROM pg_trigger WHERE tgrelid = 'lukasa.before'::regclass AND NOT tgisinternal
            UNION ALL SELECT format('CREATE POLICY %I ON lukasa.%I FOR SELECT USING (%s)', polname, by_scope, pg_get_expr(polqual, polrelid))
            FROM pg_policy WHERE polrelid = 'lukasa.before'::regclass AND polcmd = 'r');
        EXECUTE (SELECT 'DROP TABLE ' || string_agg(inhrelid::regclass::text, ', ') FROM pg_inherits WHERE inhparent = 'lukasa.before'::regclass);
        PERFORM lukasa.create_by_scope(by_scope, 'LIKE lukasa.before INCLUDING ALL', wanted);
        DROP TABLE lukasa.before;
        EXECUTE format('ALTER TABLE lukasa.%I ENABLE ROW LEVEL SECURITY', by_scope);
        FOREACH statement IN ARRAY statements LOOP
            EXECUTE statement;
        END LOOP;
    END LOOP;
    FOREACH statement IN ARRAY ARRAY(SELECT format('ALTER TABLE lukasa.%I SET (fillfactor = 90)', relname) FROM pg_class
            WHERE relnamespace = 'lukasa'::regnamespace AND relkind = 'r' AND relname ~ '^log(_[0-9]+)?$') LOOP
        EXECUTE statement;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION create_vector_table(number integer, length integer) RETURNS void LANGUAGE plpgsql AS $$
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

-- Roles write through functions alone since schema 5: policies for their own inserts and updates allow nothing.
DO $$
DECLARE
    useless record;
BEGIN
    FOR useless IN SELECT polname, polrelid::regclass AS of FROM pg_policy JOIN pg_class ON pg_class.oid = polrelid
            WHERE relnamespace = 'lukasa'::regnamespace AND polcmd IN ('a', 'w') LOOP
        EXECUTE format('DROP POLICY %I ON %s', useless.polname, useless.of);
    END LOOP;
END $$;
