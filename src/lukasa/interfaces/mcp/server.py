"""The MCP server: tools, resources and prompts over one store, and the handling of every call."""

from __future__ import annotations

import functools
import inspect
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, get_type_hints

from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, GetPromptResult, InputRequiredResult, ToolAnnotations
from mcp_types import Tool as ListedTool
from pydantic import AnyUrl, ConfigDict, ValidationError, create_model

import lukasa
from lukasa.core.canonical_json import encode
from lukasa.errors import InvalidInput, LukasaError
from lukasa.interfaces.mcp import prompts, resources
from lukasa.interfaces.mcp.handshake import CORE_INSTRUCTIONS, INSTRUCTIONS
from lukasa.interfaces.mcp.idle_upkeep import IdleUpkeep
from lukasa.interfaces.mcp.responses import ToolResponse
from lukasa.interfaces.mcp.tools import MemoryTools
from lukasa.interfaces.stores import CURRENT_REQUEST, Caller, CallerStores

CORE_TOOLS = ("remember", "recall", "forget", "history")
"""The tools of the set ``core``, for agents whose context is short."""
TOOL_SETS = {"all": (tuple(MemoryTools.ANNOTATIONS), INSTRUCTIONS), "core": (CORE_TOOLS, CORE_INSTRUCTIONS)}
"""The sets of tools by name: the tools, and the instructions that go with them."""

WRITE_TIMEOUT = 10.0
"""Seconds that a call waits for another writer: less than a client waits for an answer."""

_log = logging.getLogger(__name__)


class LukasaMcpServer(MCPServer[Any]):
    """An MCP server that sets the current request, and answers invalid arguments with a ``ToolResponse``."""

    warm_up: Callable[[], None] | None = None
    """Called in the background when a client first lists the tools."""
    upkeep: IdleUpkeep
    """Entered by a transport that serves only this server; ``lukasa serve`` leaves upkeep to its worker."""

    async def list_tools(self) -> list[ListedTool]:
        """List the tools. Nothing is loaded before the first list, so that the handshake is fast."""
        if (warm_up := self.warm_up) is not None:
            self.warm_up = None
            threading.Thread(target=warm_up, daemon=True).start()
        return await super().list_tools()

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool. An unknown tool is a protocol error; invalid arguments are an answer with a reason."""
        _set_current_request(context)
        self.upkeep.note_call()
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError) and not isinstance(error, UnexpectedToolError):
                faults = [  # they do not repeat the values
                    f"{'.'.join(map(str, fault['loc']))[:80] or 'arguments'}: {fault['msg']}"
                    for fault in error.__cause__.errors()
                ]
                reason = "; ".join(faults[:5]) + ("; …" if len(faults) > 5 else "")
                return ToolResponse.from_outcome(InvalidInput(reason)).to_call_result()
            known = [tool.name for tool in await super().list_tools()]
            if name in known:
                raise
            data = {"known": ", ".join(known)}
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {name[:80]}", data) from error

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[Any, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        """Return a prompt. An unknown prompt or invalid arguments are a protocol error."""
        _set_current_request(context)
        try:
            return await super().get_prompt(name, arguments, context)
        except ValueError as error:
            raise MCPError(code=INVALID_PARAMS, message=str(error)[:300]) from error

    async def read_resource(
        self, uri: AnyUrl | str, context: Context[Any, Any] | None = None
    ) -> Iterable[ReadResourceContents] | InputRequiredResult:
        """Read a resource."""
        _set_current_request(context)
        return await super().read_resource(uri, context)


def _set_current_request(context: Context[Any, Any] | None) -> None:
    request = None if context is None else context.request_context.request
    CURRENT_REQUEST.set(None if request is None else getattr(request, "scope", {}))


def build_server(
    store: str | None, caller: Caller, *, compat: str = "", tools: str = "all", **options: Any
) -> tuple[LukasaMcpServer, CallerStores]:
    """Build a server over a store, which is opened when first needed.

    ``compat`` adds another server's tools; ``tools`` names one of ``TOOL_SETS``.
    """
    stores = CallerStores(store, caller, timeout=WRITE_TIMEOUT, **options)
    upkeep = IdleUpkeep(stores)
    methods, (names, instructions) = MemoryTools(stores, upkeep), TOOL_SETS[tools]
    server = LukasaMcpServer(
        "lukasa",
        title="Lukasa",
        version=lukasa.__version__,
        instructions=instructions,
        log_level="WARNING",
        tools=[build_tool(stores, getattr(methods, name), *MemoryTools.ANNOTATIONS[name]) for name in names],
    )
    server.upkeep = upkeep
    resources.register_resources(server, stores)
    prompts.register_prompts(server, stores)
    if compat:
        from lukasa.interfaces.mcp import memory_graph_tools

        memory_graph_tools.register_graph_tools(server, stores)
    return server, stores


async def count_tokens(server: LukasaMcpServer, counter: Callable[[str], int]) -> tuple[int, int]:
    """Return the number of a server's tools, and of the tokens that they and the instructions take in a model's context.

    A client gives a model the name, the description and the input schema of each tool.
    """
    tools = await MCPServer.list_tools(server)
    texts = [encode([tool.name, tool.description, tool.input_schema]).decode() for tool in tools]
    return len(tools), sum(map(counter, [server.instructions or "", *texts]))


def build_tool(
    stores: CallerStores, method: Callable[..., ToolResponse], title: str, annotations: ToolAnnotations
) -> Tool:
    """Build a tool from a method. An error becomes an answer, and unknown arguments are refused, so that a misspelt one is not ignored."""
    signature = inspect.signature(method, eval_str=True)

    @functools.wraps(method)
    def call_method(**arguments: Any) -> CallToolResult:
        try:
            return method(**arguments).to_call_result()
        except Exception as error:  # noqa: BLE001 - every call gets an answer
            if not isinstance(error, LukasaError | OSError):
                _log.exception("A tool raised an unexpected error.")
            stores.close_if_broken(error)
            return ToolResponse.from_outcome(error).to_call_result()

    response_type = get_type_hints(method, include_extras=True)["return"]
    call_method.__signature__ = signature.replace(  # type: ignore[attr-defined]  # the attribute that inspect reads
        return_annotation=Annotated[CallToolResult, response_type]
    )
    call_method.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    description = " ".join((inspect.getdoc(method) or "").split())
    name = method.__name__
    tool = Tool.from_function(call_method, name=name, title=title, description=description, annotations=annotations)
    arguments = tool.fn_metadata.arg_model
    strict = create_model(arguments.__name__, __base__=arguments)
    strict.model_config = ConfigDict(extra="forbid")
    strict.model_rebuild(force=True)
    tool.fn_metadata.arg_model = strict
    tool.parameters = strict.model_json_schema(by_alias=True)
    schema = tool.fn_metadata.output_schema or {}
    tool.fn_metadata.output_schema = _simplify_schema(schema, schema.get("$defs", {}))
    tool.fn_metadata.output_model = None  # answers come from their models, so the SDK need not validate them again
    return tool


def _simplify_schema(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Return the schema of an answer without references, titles, defaults and null.

    Models read the schema, and clients check every answer against it. Answers omit empty fields, so none is null.
    """
    if isinstance(schema, list):
        return [_simplify_schema(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _simplify_schema(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    simple = {
        name: {field: _simplify_schema(item, definitions) for field, item in value.items()}
        if name == "properties"
        else _simplify_schema(value, definitions)
        for name, value in schema.items()
        if name not in ("$defs", "title", "default", "anyOf")
    }
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1:
        return {**_simplify_schema(options[0], definitions), **simple}
    return simple | {"anyOf": _simplify_schema(options, definitions)} if options else simple
