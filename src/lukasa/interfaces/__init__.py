"""The interfaces of Lukasa: command line, MCP server and hooks. Each one parses, calls the library and renders."""
