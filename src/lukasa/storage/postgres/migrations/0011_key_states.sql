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
