"""Commands that serve the store to agents and programs: serve, mcp and token."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from lukasa.clock import SystemClock
from lukasa.config import locate_tokens, single_token
from lukasa.errors import InvalidInput, MissingExtra
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import Call, CommandApp, argument, get_options, option, require_choice, require_found

TokenFileOption = Annotated[
    Path | None, option("FILE", "The file of tokens; default: LUKASA_TOKENS, else your settings.")
]
TokenNameArgument = Annotated[str, argument("NAME", "The name of the token.")]


def mcp(
    ctx: typer.Context,
    http: Annotated[str | None, option("HOST:PORT", "Serve streamable HTTP instead of stdin and stdout.")] = None,
    tokens: TokenFileOption = None,
    host_name: Annotated[list[str] | None, option("NAME", "Another name of this server (repeatable).")] = None,
    compat: Annotated[str | None, option("memory-graph", "Also offer the reference memory server's tools.")] = None,
) -> None:
    """Serve the store to agents by the Model Context Protocol (MCP).

    Agent and scopes are those of --agent and --scope or, over HTTP, those of the caller's token.

    Example: lukasa mcp --http 127.0.0.1:8765
    """
    call = get_options(ctx)
    require_choice(compat, ("memory-graph",), "a set of tools")
    try:
        import anyio

        from lukasa.interfaces.mcp.server import build_server
        from lukasa.interfaces.stores import Caller
    except ImportError as error:
        raise MissingExtra("The MCP server is not installed.", hint="Run: pip install 'lukasa[mcp]'") from error
    server, stores = build_server(call.store, Caller(call.agent, call.scopes or None), compat=compat or "")
    server.warm_up = stores.warm_up
    try:
        if http is None:
            from lukasa.interfaces.mcp.stdio import serve

            anyio.run(serve, server)
        else:
            from lukasa.interfaces import http_server
            from lukasa.interfaces.mcp.http import MCP_PATH, build_app

            _run_http_server(
                call,
                lambda holders, names: build_app(server, holders, names),
                http_server.parse_address(http),
                locate_tokens(tokens),
                host_name or [],
                f"Serving MCP at {{url}}{MCP_PATH}",
            )
    finally:
        stores.close()


def serve(
    ctx: typer.Context,
    host: Annotated[
        str, option("ADDRESS", "The address to listen on; only this machine reaches the default.")
    ] = "127.0.0.1",
    port: Annotated[int, option("PORT", "The port; 0 takes a free one.")] = 8765,
    tokens: TokenFileOption = None,
    host_name: Annotated[list[str] | None, option("NAME", "Another name of this server (repeatable).")] = None,
    compat: Annotated[str | None, option("memory-graph", "Also offer the reference memory server's tools.")] = None,
) -> None:
    """Serve the store over HTTP: the API at /v1, MCP at /mcp, health and metrics.

    The agent and the scopes of a request are those of its token. The first start makes a token for the owner.

    Example: lukasa serve --port 8765
    """
    call = get_options(ctx)
    require_choice(compat, ("memory-graph",), "a set of tools")
    try:
        from lukasa.interfaces.http.app import build_app
        from lukasa.interfaces.mcp import http as mcp_http
        from lukasa.interfaces.mcp.server import build_server
        from lukasa.interfaces.stores import Caller
    except ImportError as error:
        raise MissingExtra("The server is not installed.", hint="Run: pip install 'lukasa[server]'") from error
    server, stores = build_server(call.store, Caller(), compat=compat or "")
    path = locate_tokens(tokens)
    if not single_token():
        _make_owner_token(path)
    try:
        stores.check()
        stores.warm_up()
        _run_http_server(
            call,
            lambda holders, names: build_app(stores, holders, names, mcp_http.build_routes(server)),
            (host, port),
            path,
            host_name or [],
            "Serving the API at {url}/v1 and MCP at {url}/mcp",
        )
    finally:
        stores.close()


def _make_owner_token(path: Path) -> None:
    """Make a token for the owner if there is no token yet, and put it into a file that only the user can read."""
    from lukasa.interfaces.api_tokens import add_token, read_tokens
    from lukasa.storage.files import open_output_file

    if read_tokens(path):
        return
    token = add_token(path, "owner", SystemClock())
    secret_file = path.with_name("owner.token")
    with open_output_file(secret_file) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(f"{token}\n".encode())
    render.print_to_stderr(f"Made a token for the owner of the store. It is in {secret_file}; move it to a safe place.")


def _run_http_server(
    call: Call,
    build: Callable[[Any, list[str]], Any],
    address: tuple[str, int],
    tokens: Path,
    host_names: list[str],
    announcement: str,
) -> None:
    """Serve an app until interrupted. ``build`` gets the source of tokens and the names of the server."""
    import anyio

    from lukasa.interfaces import auth, http_server
    from lukasa.interfaces.api_tokens import read_tokens, token_from_environment

    host, port = address
    if plain := single_token():
        holders = auth.single_token_source(token_from_environment(plain, call.agent, call.scopes or None))
    else:
        if not read_tokens(tokens):
            raise InvalidInput("There is no token, so no client could connect.", hint="Make one: lukasa token add NAME")
        if call.agent or call.scopes:
            hint = "Leave --agent and --scope out, or give one token in LUKASA_TOKEN."
            raise InvalidInput("Each token already names its agent and scopes.", hint=hint)
        holders = auth.file_token_source(tokens)
    if port == 0:
        with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as found:
            port = int(found.getsockname()[1])
    app = build(holders, http_server.list_host_names(host, port, host_names))

    def announce(port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        render.print_to_stderr(announcement.format(url=f"http://{shown}:{port}"))
        if not http_server.is_loopback(host):
            warning = "Other machines can reach this address and tokens are not encrypted: put a TLS proxy in front."
            render.print_to_stderr(warning)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # exit normally, so that the store is closed
    anyio.run(http_server.serve, app, host, port, announce)


app = CommandApp(
    "token",
    "Create and revoke the tokens with which agents and programs connect over HTTP.",
    example="lukasa token list",
)


@app.command()
def add(call: Call, name: TokenNameArgument, tokens: TokenFileOption = None) -> None:
    """Create a token and print it once; only its hash is stored.

    The token acts as --agent with --scope; without both, as the owner of the store.

    Example: lukasa --agent ada token add laptop
    """
    from lukasa.interfaces.api_tokens import add_token

    scopes = call.scopes or None
    token = add_token(locate_tokens(tokens), name, SystemClock(), agent=call.agent, scopes=scopes)
    holder = f"the agent {call.agent}" if call.agent else "its scopes" if scopes else "the owner of the store"
    call.warn(f"A token for {holder}. It is shown only now.")
    call.show({"name": name, "agent": call.agent, "scopes": scopes, "token": token}, token)


@app.command()
def list_(call: Call, tokens: TokenFileOption = None) -> None:
    """List the tokens by name. The tokens themselves are not stored.

    Example: lukasa token list
    """
    from lukasa.interfaces.api_tokens import read_tokens

    call.show(
        read_tokens(locate_tokens(tokens)),
        columns=("name, agent", ("scopes", lambda token: ", ".join(token.scopes or ()) or "–"), "made=made_at"),
        empty="There are no tokens.",
    )


@app.command()
def revoke(call: Call, name: TokenNameArgument, tokens: TokenFileOption = None) -> None:
    """Delete a token. A running server refuses it from the next request on.

    Example: lukasa token revoke laptop
    """
    from lukasa.interfaces.api_tokens import revoke_token

    require_found(revoke_token(locate_tokens(tokens), name), f"There is no token named {name!r:.80}.")
    call.show({"name": name, "revoked": True}, f"Revoked: {name}.")
