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
    EXECUTE format('CREATE POLICY reads ON lukasa.%I FOR SELECT USING (scope IN (SELECT a.scope FROM lukasa.admission AS a WHERE a.role = current_user))', vectors);
    FOR reader IN SELECT DISTINCT role FROM lukasa.admission LOOP
        EXECUTE format('GRANT SELECT ON lukasa.%I TO %I', vectors, reader);
    END LOOP;
END $$;
