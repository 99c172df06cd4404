-- A single append leaves its text to the next write that indexes texts. ``unindexed_from`` in the table meta is the first
-- position whose text is not in the index; without it the index has all texts. The indexes stand for the texts before it.
DROP VIEW live_text;
DROP VIEW past_text;
CREATE VIEW live_text AS
    SELECT seq, index_form(line ->> 'text') AS text FROM log
    WHERE seq < coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'unindexed_from'), 0x7fffffffffffffff)
        AND CASE WHEN json_valid(line) THEN line ->> 'text' IS NOT NULL END
        AND NOT EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = log.seq);
CREATE VIEW past_text AS
    SELECT seq, index_form(line ->> 'text') AS text FROM log
    WHERE seq < coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'unindexed_from'), 0x7fffffffffffffff)
        AND CASE WHEN json_valid(line) THEN line ->> 'text' IS NOT NULL END
        AND EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = log.seq);
CREATE VIEW unindexed_text AS
    SELECT seq, scope, line ->> 'text' AS text FROM log
    WHERE seq >= (SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'unindexed_from')
        AND CASE WHEN json_valid(line) THEN line ->> 'text' IS NOT NULL END
        AND NOT EXISTS (SELECT 1 FROM words_docsize WHERE id = log.seq);
