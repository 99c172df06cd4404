"""Commands that let agents and programs in: mcp, token."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lukasa.clock import SystemClock
from lukasa.errors import InvalidInput, MissingExtra
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import CommandRefused
from lukasa.interfaces.cli.options import GlobalOptions, JsonOption, get_options
from lukasa.outcome import Refused

TokenFileOption = Annotated[
    Path | None,
    typer.Option("--tokens", metavar="FILE", help="Where tokens are kept; else LUKASA_TOKENS, else the user's own."),
]


def mcp(
    ctx: typer.Context,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve streamable HTTP instead of standard input and output."),
    ] = None,
    tokens: TokenFileOption = None,
    host_name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another name that clients call this server by; may be repeated."),
    ] = None,
    compat: Annotated[
        str | None, typer.Option(metavar="memory-graph", help="Also offer the tools of the reference memory server.")
    ] = None,
) -> None:
    """Serve the store to agents by the Model Context Protocol.

    The agent and its scopes are those of this command line (--agent, --scope) or, over HTTP, those of the token.

    Example: lukasa mcp --http 127.0.0.1:8765
    """
    call = get_options(ctx, as_json=False)
    if compat not in (None, "memory-graph"):
        raise InvalidInput(f"{compat!r:.40} is not known.", hint="Say --compat memory-graph.")
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
            _serve_http(call, server, http, tokens, host_name or [])
    finally:
        stores.close()


def _serve_http(options: GlobalOptions, server: Any, address: str, tokens: Path | None, host_names: list[str]) -> None:
    import anyio

    from lukasa.interfaces.api_tokens import TOKEN_VARIABLE, read_tokens, token_from_environment, tokens_file
    from lukasa.interfaces.mcp import http

    host, port = http.parse_address(address)
    if plain := os.environ.get(TOKEN_VARIABLE):
        holders = http.single_token_source(token_from_environment(plain, options.agent, options.scopes or None))
    else:
        path = tokens_file(tokens)
        if not read_tokens(path):
            raise InvalidInput("Nobody could come in: there is no token.", hint="Make one: lukasa token add NAME")
        if options.agent or options.scopes:
            hint = "Leave --agent and --scope out, or give one token in LUKASA_TOKEN."
            raise InvalidInput("Each token has an agent and scopes of its own.", hint=hint)
        holders = http.file_token_source(path)
    if port == 0:
        port = _find_free_port(host)
    app = http.build_app(server, holders, http.list_host_names(host, port, host_names))

    def announce(port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        render.print_to_stderr(f"Serving MCP at http://{shown}:{port}{http.MCP_PATH}")
        if not http.is_loopback(host):
            render.print_to_stderr(
                "Others can reach this address, and tokens cross the network as they are: put TLS before it."
            )

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # asked to end, the store is closed first
    anyio.run(http.serve, app, host, port, announce)


def _find_free_port(host: str) -> int:
    import socket

    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as found:
        return int(found.getsockname()[1])


app = typer.Typer(
    help="Make and revoke the tokens by which agents and programs come in over HTTP.\n\nExample: lukasa token list",
    no_args_is_help=True,
)


@app.command()
def add(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the token is called.")],
    tokens: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token and show it, once. It stands for the agent and scopes named before the command, else for the owner.

    Example: lukasa --agent ada token add laptop
    """
    from lukasa.interfaces.api_tokens import add_token, tokens_file

    call = get_options(ctx, as_json)
    path = tokens_file(tokens)
    token = add_token(path, name, SystemClock(), agent=call.agent, scopes=call.scopes or None)
    if call.json:
        render.print_json({"name": name, "agent": call.agent, "scopes": call.scopes or None, "token": token})
        return
    whom = f"the agent {call.agent}" if call.agent else "the owner of the store" if not call.scopes else "its scopes"
    render.print_to_stderr(f"A token for {whom}; it is shown only now.")
    render.print_line(token)


@app.command("list")
def list_(ctx: typer.Context, tokens: TokenFileOption = None, as_json: JsonOption = False) -> None:
    """Show the tokens there are, by name.

    Example: lukasa token list
    """
    from lukasa.interfaces.api_tokens import read_tokens, tokens_file

    call = get_options(ctx, as_json)
    holders = read_tokens(tokens_file(tokens))
    if call.json:
        render.print_json(
            [{"name": one.name, "agent": one.agent, "scopes": one.scopes, "made_at": one.made_at} for one in holders]
        )
    elif not holders:
        render.print_line("There are no tokens.")
    else:
        rows = [(one.name, one.agent, ", ".join(one.scopes or ()) or "–", one.made_at) for one in holders]
        render.print_table(("name", "agent", "scopes", "made"), rows)


@app.command()
def revoke(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The token.")],
    tokens: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a token back. A server that runs refuses it from the next request on.

    Example: lukasa token revoke laptop
    """
    from lukasa.interfaces.api_tokens import revoke_token, tokens_file

    call = get_options(ctx, as_json)
    if not revoke_token(tokens_file(tokens), name):
        raise CommandRefused(Refused("not_found", f"There is no token named {name!r:.80}."))
    if call.json:
        render.print_json({"name": name, "revoked": True})
    else:
        render.print_line(f"Revoked: {name}.")
