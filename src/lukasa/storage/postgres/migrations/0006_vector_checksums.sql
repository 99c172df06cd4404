-- Each vector has a checksum, so that `verify` finds a damaged one. Vectors of older stores have none.
CREATE FUNCTION add_vector_checksums() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    number integer;
BEGIN
    FOR number IN SELECT model.number FROM lukasa.model LOOP
        EXECUTE format('ALTER TABLE lukasa.vector_%s ADD COLUMN IF NOT EXISTS checksum bytea', number);
    END LOOP;
END $$;
SELECT add_vector_checksums();
DROP FUNCTION add_vector_checksums();
