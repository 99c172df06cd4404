-- name: links_out
-- Select the links that leave a key's current version.
SELECT DISTINCT item.value ->> 'relation', item.value ->> 'scope', item.value ->> 'kind', item.value ->> 'id'
FROM log, json_each(log.line, '$.links') AS item
WHERE log.scope = ? AND log.kind = ? AND log.id = ?
    AND NOT EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = log.seq)

-- name: links_in
-- Select the links of current versions that point to a key.
SELECT DISTINCT link.relation, log.scope, log.kind, log.id
FROM link JOIN log ON log.seq = link.seq
WHERE link.to_scope = ? AND link.to_kind = ? AND link.to_id = ?
    AND NOT EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = log.seq)

-- name: derived_from_key
-- Select the keys with a visible version derived from a key.
SELECT DISTINCT log.scope, log.kind, log.id
FROM link JOIN log ON log.seq = link.seq
WHERE link.to_scope = ? AND link.to_kind = ? AND link.to_id = ? AND link.relation = 'derived_from'
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = link.seq)

-- name: all_derived_from_key
-- Select the keys with any version derived from a key, hidden versions included.
SELECT DISTINCT log.scope, log.kind, log.id
FROM link JOIN log ON log.seq = link.seq
WHERE link.to_scope = ? AND link.to_kind = ? AND link.to_id = ? AND link.relation = 'derived_from'
