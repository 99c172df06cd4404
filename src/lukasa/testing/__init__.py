"""Test tools for those who build on Lukasa."""
