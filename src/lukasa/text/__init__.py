"""Text handling: tokens, terms, sentences, dates, similarity."""
