"""File layouts, in and out."""
