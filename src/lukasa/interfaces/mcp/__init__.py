"""The door for agents that speak the Model Context Protocol: tools, resources and prompts over one store.

``tools``, ``resources`` and ``prompts`` parse, call and render; ``answers`` holds the shape of every answer; ``stdio`` and
``http`` carry them. Who calls is settled before any of that, by the command line or the token, never by an argument.
Everything here needs the extra ``mcp`` and is loaded only when a server starts.
"""
