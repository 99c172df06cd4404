-- Marks of the texts of some kinds, by which nearly the same text is found. They name scope and kind too.
CREATE TABLE near (mark INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (mark, seq)) WITHOUT ROWID;
