"""Text handling: normalisation, stop words, terms, sentences, dates, similarity."""
