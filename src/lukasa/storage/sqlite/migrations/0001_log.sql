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

-- Everything below is derived from the log and can be rebuilt from it.

-- Versions that are not the present: superseded, tombstones, hidden by quarantine. Whatever is not here is live.
CREATE TABLE past (seq INTEGER PRIMARY KEY);

-- Quarantined authors, and the versions each quarantine hides.
CREATE TABLE veil (author TEXT PRIMARY KEY, since INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE hidden (seq INTEGER NOT NULL, author TEXT NOT NULL, PRIMARY KEY (seq, author)) WITHOUT ROWID;
CREATE INDEX hidden_by_author ON hidden (author, seq);

CREATE TABLE label (label TEXT NOT NULL, scope TEXT NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (label, scope, seq)) WITHOUT ROWID;

CREATE TABLE link (
    to_scope TEXT NOT NULL, to_kind TEXT NOT NULL, to_id TEXT NOT NULL, relation TEXT NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (to_scope, to_kind, to_id, relation, seq)) WITHOUT ROWID;

-- Counts, and the sum of all digests modulo 2^62: a line that is lost or altered shows here.
CREATE TABLE tally (
    scope TEXT NOT NULL, kind TEXT NOT NULL,
    live INTEGER NOT NULL, versions INTEGER NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (scope, kind)) WITHOUT ROWID;

-- Words of the present and of the past, kept apart so that old versions do not weigh on today's ranking.
CREATE VIEW live_text AS
    SELECT seq, line ->> 'text' AS text FROM log
    WHERE line ->> 'text' IS NOT NULL AND NOT EXISTS (SELECT 1 FROM past WHERE past.seq = log.seq);
CREATE VIEW past_text AS
    SELECT seq, line ->> 'text' AS text FROM log
    WHERE line ->> 'text' IS NOT NULL AND EXISTS (SELECT 1 FROM past WHERE past.seq = log.seq);
CREATE VIRTUAL TABLE words USING fts5 (text, content = 'live_text', content_rowid = 'seq',
    tokenize = 'porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE past_words USING fts5 (text, content = 'past_text', content_rowid = 'seq',
    tokenize = 'porter unicode61 remove_diacritics 2');

-- A batch's words are gathered in memory and written in one piece, up to this many bytes at a time.
INSERT INTO words (words, rank) VALUES ('hashsize', 16777216);
INSERT INTO past_words (past_words, rank) VALUES ('hashsize', 16777216);

CREATE VIRTUAL TABLE word_counts USING fts5vocab (words, row);

-- A vector, and a sketch of it: the signs of its numbers, one bit each. All sketches are scanned, few vectors are read.
CREATE TABLE vector (
    model TEXT NOT NULL, seq INTEGER NOT NULL, chunk INTEGER NOT NULL, sketch BLOB NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (model, seq, chunk)) WITHOUT ROWID;
CREATE INDEX vector_sketches ON vector (model, seq, chunk, sketch);

-- Not derived: answers to idempotency keys, marks of erased records, and facts about this store.
CREATE TABLE answered (
    key TEXT PRIMARY KEY, fingerprint BLOB NOT NULL, seqs TEXT NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
