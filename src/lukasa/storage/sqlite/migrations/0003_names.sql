-- Plain names for tables and columns; the rows stay as they are.
ALTER TABLE past RENAME TO not_current;        -- superseded versions, tombstones and versions hidden by a quarantine
ALTER TABLE veil RENAME TO quarantine;         -- authors in quarantine
ALTER TABLE near RENAME TO duplicate_key;      -- near-duplicate keys of texts; a key covers scope and kind too
ALTER TABLE duplicate_key RENAME COLUMN mark TO pair_key;
ALTER TABLE answered RENAME TO idempotency;    -- stored answers to idempotency keys
ALTER TABLE fact RENAME TO meta;               -- facts about this store
