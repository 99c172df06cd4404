-- Labels are looked up within the very transaction that adds them. An index that gathers new entries in a list, to be
-- sorted in later, is read through from end to end by every such look; this one sorts them in at once.
DO $$
DECLARE
    part regclass;
BEGIN
    FOR part IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'lukasa.log_by_label'::regclass LOOP
        EXECUTE format('ALTER INDEX %s SET (fastupdate = off)', part);
        PERFORM gin_clean_pending_list(part);
    END LOOP;
END $$;
