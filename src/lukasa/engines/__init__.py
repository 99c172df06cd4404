"""The databases that keep the engine promise."""
