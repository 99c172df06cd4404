-- name: corpus
SELECT coalesce(sum(CASE WHEN %s THEN texts ELSE past_texts END), 0)::bigint,
    coalesce(sum(CASE WHEN %s THEN tokens ELSE past_tokens END), 0)::bigint
FROM tally WHERE %s::text[] IS NULL OR scope = ANY(%s)

-- name: holding
-- How many texts hold each phrase.
SELECT asked.number, count(*) FROM unnest(%s::text[]) WITH ORDINALITY AS asked (phrase, number)
JOIN log ON log.words @@ asked.phrase::tsquery
WHERE log.live = %s AND (%s::text[] IS NULL OR log.scope = ANY(%s))
GROUP BY asked.number
