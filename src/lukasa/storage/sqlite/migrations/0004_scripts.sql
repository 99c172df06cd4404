-- The text index finds words of every script. It takes the index form of each text, in which scripts without spaces are cut
-- into overlapping pieces, and vowel signs count as letters. Lukasa registers the function ``index_form`` on every
-- connection. The migration fills both indexes afterwards, in the same transaction.
DROP TABLE word_counts;
DROP TABLE words;
DROP TABLE past_words;
DROP VIEW live_text;
DROP VIEW past_text;

-- An entry that is not valid JSON has no text.
CREATE VIEW live_text AS
    SELECT seq, index_form(line ->> 'text') AS text FROM log
    WHERE CASE WHEN json_valid(line) THEN line ->> 'text' IS NOT NULL END
        AND NOT EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = log.seq);
CREATE VIEW past_text AS
    SELECT seq, index_form(line ->> 'text') AS text FROM log
    WHERE CASE WHEN json_valid(line) THEN line ->> 'text' IS NOT NULL END
        AND EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = log.seq);
CREATE VIRTUAL TABLE words USING fts5 (text, content = 'live_text', content_rowid = 'seq',
    tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'");
CREATE VIRTUAL TABLE past_words USING fts5 (text, content = 'past_text', content_rowid = 'seq',
    tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'");

-- A batch's words are gathered in memory and written in one piece, up to this many bytes at a time.
INSERT INTO words (words, rank) VALUES ('hashsize', 16777216);
INSERT INTO past_words (past_words, rank) VALUES ('hashsize', 16777216);

CREATE VIRTUAL TABLE word_counts USING fts5vocab (words, row);
