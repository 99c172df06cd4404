-- The text index finds words of every script: scripts without spaces are cut into overlapping pieces. The migration
-- computes the tokens of texts beyond ASCII again afterwards, in the same transaction.
COMMENT ON COLUMN log.words IS 'the tokens of lukasa.text.terms with their positions';
