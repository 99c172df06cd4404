"""The MCP server: tools, resources and prompts over one store.

``tools``, ``resources`` and ``prompts`` parse, call and render. ``responses`` holds the models of the answers. ``stdio``
and ``http`` are the transports. The caller comes from the command line or the token, never from an argument. This package
needs the extra ``mcp`` and is imported only when a server starts.
"""
