-- What a role may read, as an array and not as a subquery: the server then skips the partitions of other scopes, and an engine
-- that distributes tables by scope takes such policies.
CREATE FUNCTION readable_scopes() RETURNS text[] LANGUAGE sql STABLE COST 1000 SECURITY DEFINER SET search_path = lukasa, pg_temp
    AS $$ SELECT coalesce(array_agg(a.scope::text), '{}') FROM lukasa.admission AS a WHERE a.role = lukasa.calling_role() $$;

CREATE FUNCTION limit_to_readable_scopes(scoped text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('DROP POLICY IF EXISTS reads ON lukasa.%I', scoped);
    EXECUTE format('CREATE POLICY reads ON lukasa.%I FOR SELECT USING (scope = ANY (lukasa.readable_scopes()))', scoped);
END $$;

-- Roles write through functions that run as the owner, so policies for writing have no use.
DO $$
DECLARE
    scoped text;
BEGIN
    FOR scoped IN SELECT unnest(ARRAY['log', 'link', 'hidden', 'tally', 'duplicate_key']) UNION ALL SELECT 'vector_' || number FROM lukasa.model LOOP
        PERFORM lukasa.limit_to_readable_scopes(scoped);
        EXECUTE format('DROP POLICY IF EXISTS adds ON lukasa.%I', scoped);
        EXECUTE format('DROP POLICY IF EXISTS changes ON lukasa.%I', scoped);
    END LOOP;
END $$;

-- Create the table of one model's vectors. The only place where vector tables are made.
CREATE FUNCTION create_vector_table(number integer, length integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    vectors text := 'vector_' || number;
    reader name;
BEGIN
    EXECUTE format('CREATE TABLE lukasa.%I (scope text COLLATE "C" NOT NULL, seq bigint NOT NULL, chunk integer NOT NULL, '
        'vector halfvec(%s) NOT NULL, checksum bytea, PRIMARY KEY (scope, seq, chunk)) PARTITION BY HASH (scope)', vectors, length);
    FOR n IN 0..7 LOOP
        EXECUTE format('CREATE TABLE lukasa.%I PARTITION OF lukasa.%I FOR VALUES WITH (MODULUS 8, REMAINDER %s)', vectors || '_' || n, vectors, n);
    END LOOP;
    EXECUTE format('CREATE INDEX %I ON lukasa.%I USING hnsw (vector halfvec_cosine_ops)', vectors || '_near', vectors);
    EXECUTE format('ALTER TABLE lukasa.%I ENABLE ROW LEVEL SECURITY', vectors);
    PERFORM lukasa.limit_to_readable_scopes(vectors);
    FOR reader IN SELECT DISTINCT role FROM lukasa.admission LOOP
        EXECUTE format('GRANT SELECT ON lukasa.%I TO %I', vectors, reader);
    END LOOP;
END $$;
