"""Models: embedders, an optional language model, a token counter."""
