"""The HTTP API: ``/v1`` for programs in any language, with MCP and the operator's endpoints on the same port."""
