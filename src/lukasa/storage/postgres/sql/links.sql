-- name: links_out
-- Select the links that leave a key's current version.
SELECT DISTINCT relation, to_scope, to_kind, to_id FROM log JOIN link ON link.scope = log.scope AND link.seq = log.seq
WHERE log.scope = %s AND log.kind = %s AND log.id = %s AND log.live

-- name: links_in
-- Select the links of current versions that point to a key.
SELECT DISTINCT link.relation, log.scope, log.kind, log.id
FROM link JOIN log ON log.seq = link.seq AND log.scope = link.scope
WHERE link.target = target_of(%s, %s, %s) AND log.live AND WITHIN_REACH(link.scope)

-- name: derived_from_key
-- Select the keys with a visible version derived from a key.
SELECT DISTINCT log.scope, log.kind, log.id
FROM link JOIN log ON log.seq = link.seq AND log.scope = link.scope
WHERE link.target = target_of(%s, %s, %s) AND link.relation = 'derived_from' AND WITHIN_REACH(link.scope)
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = link.scope AND hidden.seq = link.seq)

-- name: all_derived_from_key
-- Select the keys with any version derived from a key, hidden versions included.
SELECT DISTINCT log.scope, log.kind, log.id
FROM link JOIN log ON log.seq = link.seq AND log.scope = link.scope
WHERE link.target = target_of(%s, %s, %s) AND link.relation = 'derived_from'
