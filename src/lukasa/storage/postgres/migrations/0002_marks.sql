-- Derived: by which nearly the same text is found, for some kinds.
ALTER TABLE log ADD COLUMN marks integer[] NOT NULL DEFAULT '{}';

-- Marks are looked up within the very transaction that adds them. An index that gathers new entries in a list, to be
-- sorted in later, is read through from end to end by every such look; this one sorts them in at once.
CREATE INDEX log_by_mark ON log USING gin (marks) WITH (fastupdate = off) WHERE marks <> '{}';
