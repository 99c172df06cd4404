-- Sketches are stored in blocks, so that a process reads those of millions of vectors in a second, and no longer next to each
-- vector and in an index. A model is stored once, by name. The migration fills the blocks afterwards, in the same transaction.
CREATE TABLE model (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
INSERT INTO model (name) SELECT DISTINCT model FROM vector ORDER BY model;

DROP INDEX vector_sketches;
ALTER TABLE vector RENAME TO old_vector;
CREATE TABLE vector (
    model INTEGER NOT NULL, seq INTEGER NOT NULL, chunk INTEGER NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (model, seq, chunk)) WITHOUT ROWID;
INSERT INTO vector SELECT model.number, seq, chunk, vector FROM old_vector JOIN model ON model.name = old_vector.model ORDER BY model.number, seq, chunk;
DROP TABLE old_vector;

-- A block holds the sketches of the vectors after the block before and up to ``last_seq``: their positions as 64-bit integers,
-- then the first 64-bit word of each sketch, the second word of each, and so on. The newest vectors are in no block yet.
CREATE TABLE sketch_block (
    model INTEGER NOT NULL, last_seq INTEGER NOT NULL, seqs BLOB NOT NULL, sketches BLOB NOT NULL,
    PRIMARY KEY (model, last_seq)) WITHOUT ROWID;
