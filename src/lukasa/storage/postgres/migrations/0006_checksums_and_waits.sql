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

-- An entry that a role has not committed keeps others from writing the same record. A commit later than 1.5 seconds is
-- refused, so a role that is idle for longer loses nothing when the server ends its session.
CREATE FUNCTION limit_idle_time() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('idle_in_transaction_session_timeout', '2s', true);
    RETURN new;
END $$;
CREATE TRIGGER idle_time BEFORE INSERT OR UPDATE ON role_write FOR EACH ROW EXECUTE FUNCTION limit_idle_time();
