"""Measuring Lukasa against the least work possible."""
