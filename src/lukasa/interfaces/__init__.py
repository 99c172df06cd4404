"""The ways into Lukasa from outside: thin, they parse, call and render."""
