-- The schema of a store.

-- The log. ``line`` is the record; the other columns repeat parts of it so that they can be searched.
CREATE TABLE log (
    seq     INTEGER PRIMARY KEY,
    scope   TEXT NOT NULL,
    kind    TEXT NOT NULL,
    id      TEXT NOT NULL,
    version INTEGER NOT NULL,
    author  TEXT NOT NULL,
    at      INTEGER NOT NULL,          -- recorded, microseconds since 1970
    moment  INTEGER NOT NULL,          -- happened, likewise
    digest  BLOB NOT NULL,             -- SHA-256 of line
    line    TEXT NOT NULL
);
CREATE UNIQUE INDEX log_by_key ON log (scope, kind, id, version);
CREATE INDEX log_by_kind ON log (scope, kind, seq, author, at);

-- Not derived: stored answers to idempotency keys, and facts about this store.
CREATE TABLE idempotency (
    key TEXT PRIMARY KEY, fingerprint BLOB NOT NULL, seqs TEXT NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- Everything below is derived from the log and can be rebuilt from it.

-- Superseded versions, tombstones and versions hidden by a quarantine. Each version that is not here is current.
CREATE TABLE not_current (seq INTEGER PRIMARY KEY);

-- Authors in quarantine, and the versions each quarantine hides.
CREATE TABLE quarantine (author TEXT PRIMARY KEY, since INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE hidden (seq INTEGER NOT NULL, author TEXT NOT NULL, PRIMARY KEY (seq, author)) WITHOUT ROWID;
CREATE INDEX hidden_by_author ON hidden (author, seq);

CREATE TABLE label (label TEXT NOT NULL, scope TEXT NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (label, scope, seq)) WITHOUT ROWID;

CREATE TABLE link (
    to_scope TEXT NOT NULL, to_kind TEXT NOT NULL, to_id TEXT NOT NULL, relation TEXT NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (to_scope, to_kind, to_id, relation, seq)) WITHOUT ROWID;

-- Near-duplicate keys of the texts of some kinds, by which nearly the same text is found. A key covers scope and kind too.
CREATE TABLE duplicate_key (pair_key INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (pair_key, seq)) WITHOUT ROWID;

-- Counts, and the sum of all digests modulo 2^62: a line that is lost or altered shows here.
CREATE TABLE tally (
    scope TEXT NOT NULL, kind TEXT NOT NULL,
    live INTEGER NOT NULL, versions INTEGER NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (scope, kind)) WITHOUT ROWID;

-- The text index finds words of every script. It takes the index form of each text, in which scripts without spaces are cut
-- into overlapping pieces, and vowel signs count as letters. Lukasa registers the function ``index_form`` on every
-- connection. Current and other versions are kept apart so that old versions do not weigh on today's ranking.
--
-- A single append leaves its text to the next write that indexes texts. ``unindexed_from`` in the table meta is the first
-- position whose text is not in the index; without it the index has all texts. The indexes stand for the texts before it.
-- An entry that is not valid JSON has no text.
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
CREATE VIRTUAL TABLE words USING fts5 (text, content = 'live_text', content_rowid = 'seq',
    tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'");
CREATE VIRTUAL TABLE past_words USING fts5 (text, content = 'past_text', content_rowid = 'seq',
    tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'");
CREATE VIEW unindexed_text AS
    SELECT seq, scope, line ->> 'text' AS text FROM log
    WHERE seq >= (SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'unindexed_from')
        AND CASE WHEN json_valid(line) THEN line ->> 'text' IS NOT NULL END
        AND NOT EXISTS (SELECT 1 FROM words_docsize WHERE id = log.seq);

-- A batch's words are gathered in memory and written in one piece, up to this many bytes at a time.
INSERT INTO words (words, rank) VALUES ('hashsize', 16777216);
INSERT INTO past_words (past_words, rank) VALUES ('hashsize', 16777216);

CREATE VIRTUAL TABLE word_counts USING fts5vocab (words, row);

-- Vectors are ordered by one number, their place: the model's number less one in the highest bits, then 40 bits of the position,
-- then 12 bits of the chunk. So a vector is found through pages that hold hundreds of numbers each, and new vectors are written
-- at the end.
CREATE TABLE model (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, first_place INTEGER AS ((number - 1) << 52));
CREATE TABLE vector (
    place INTEGER PRIMARY KEY, vector BLOB NOT NULL,
    model INTEGER AS ((place >> 52) + 1), seq INTEGER AS ((place >> 12) & 0xffffffffff), chunk INTEGER AS (place & 0xfff));
CREATE VIEW newest_vector AS
    SELECT model.name AS model, (
        SELECT seq FROM vector WHERE place BETWEEN first_place AND first_place + 0xfffffffffffff ORDER BY place DESC LIMIT 1) AS seq
    FROM model;

-- A sketch of a vector is the signs of its numbers, one bit each. All sketches are scanned, few vectors are read. A block holds
-- the sketches of the vectors after the block before and up to ``last_seq``, so that a process reads those of millions of vectors
-- in a second: their positions as 64-bit integers, then the first 64-bit word of each sketch, the second word of each, and so on.
-- The newest vectors are in no block yet.
CREATE TABLE sketch_block (
    model INTEGER NOT NULL, last_seq INTEGER NOT NULL, seqs BLOB NOT NULL, sketches BLOB NOT NULL,
    PRIMARY KEY (model, last_seq)) WITHOUT ROWID;
