"""Coding agents: what a session leaves behind, and what a memory says to the next one."""
