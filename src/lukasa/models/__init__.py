"""Models: embedders, an optional language model, token counting."""
