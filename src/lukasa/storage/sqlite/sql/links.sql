-- name: links_out
SELECT DISTINCT each.value ->> 'relation', each.value ->> 'scope', each.value ->> 'kind', each.value ->> 'id'
FROM log, json_each(log.line, '$.links') AS each
WHERE log.scope = ? AND log.kind = ? AND log.id = ?
    AND NOT EXISTS (SELECT 1 FROM past WHERE past.seq = log.seq)

-- name: links_in
SELECT DISTINCT link.relation, log.scope, log.kind, log.id
FROM link JOIN log ON log.seq = link.seq
WHERE link.to_scope = ? AND link.to_kind = ? AND link.to_id = ?
    AND NOT EXISTS (SELECT 1 FROM past WHERE past.seq = log.seq)

-- name: derived_from_key
SELECT DISTINCT log.scope, log.kind, log.id
FROM link JOIN log ON log.seq = link.seq
WHERE link.to_scope = ? AND link.to_kind = ? AND link.to_id = ? AND link.relation = 'derived_from'
    AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = link.seq)

-- name: ever_derived_from_key
SELECT DISTINCT log.scope, log.kind, log.id
FROM link JOIN log ON log.seq = link.seq
WHERE link.to_scope = ? AND link.to_kind = ? AND link.to_id = ? AND link.relation = 'derived_from'
