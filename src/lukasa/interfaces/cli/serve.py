"""Commands that serve the store to agents and programs: serve, mcp and token."""

from __future__ import annotations

import logging
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lukasa.config import locate_owner_token, locate_store, single_token
from lukasa.core.clock import SystemClock
from lukasa.core.names import find_number
from lukasa.errors import FileTaken, InvalidInput, MissingExtra, NotAllowed, StoreMissing
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import (
    Call,
    CommandApp,
    argument,
    flag,
    get_options,
    option,
    parse_time,
    require_choice,
    require_found,
)
from lukasa.interfaces.mcp.handshake import ClientOpening, answer_opening
from lukasa.storage.location import split_url

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from lukasa.interfaces.api_tokens import ApiTokens
    from lukasa.interfaces.auth import TokenSource
    from lukasa.interfaces.stores import CallerStores

TokenNameArgument = Annotated[str, argument("NAME", "The name of the token.")]


def mcp(
    ctx: typer.Context,
    http: Annotated[str | None, option("HOST:PORT", "Serve streamable HTTP instead of stdin and stdout.")] = None,
    host_name: Annotated[list[str] | None, option("NAME", "Another name of this server (repeatable).")] = None,
    compat: Annotated[str | None, option("memory-graph", "Also offer the reference memory server's tools.")] = None,
    tools: Annotated[str, option("all|core", "core: only remember, recall, forget and history.")] = "all",
    token_cost: Annotated[bool, flag("--token-cost", "Only print how many tokens each set of tools takes.")] = False,
) -> None:
    """Serve the store to agents by the Model Context Protocol (MCP).

    Agent and scopes are those of --agent and --scope or, over HTTP, those of the caller's token.

    Example: lukasa mcp --http 127.0.0.1:8765
    """
    call = get_options(ctx)
    require_choice(compat, ("memory-graph",), "a set of tools")
    require_choice(tools, ("all", "core"), "a set of tools")
    opening = ClientOpening()
    if http is None and not token_cost and find_spec("mcp") is not None:
        locate_store(call.store)  # refuses a wrong one, before a client hears from this process
        opening = answer_opening(0, 1, tools)
    try:
        import anyio

        from lukasa.interfaces.mcp.server import build_server
        from lukasa.interfaces.stores import Caller
    except ImportError as error:
        raise MissingExtra("The MCP server is not installed.", hint="Run: pip install 'lukasa[mcp]'") from error
    if token_cost:
        _show_token_cost(call)
        return
    _log_plainly()
    caller = Caller(call.agent, call.scopes or None)
    server, stores = build_server(call.store, caller, compat=compat or "", tools=tools)
    server.warm_up = stores.warm_up
    try:
        if http is None:
            from lukasa.interfaces.mcp.stdio import serve

            anyio.run(serve, server, opening)
        else:
            from lukasa.interfaces import http_server
            from lukasa.interfaces.mcp.http import MCP_PATH, build_app

            _run_http_server(
                call,
                stores,
                lambda source, names: build_app(server, source, names),
                http_server.parse_address(http),
                host_name or [],
                f"Serving MCP at {{url}}{MCP_PATH}",
            )
    finally:
        stores.close()


def _show_token_cost(call: Call) -> None:
    """Print how many tokens of a model's context each set of tools takes."""
    import anyio

    from lukasa.interfaces.mcp.server import build_server, count_tokens
    from lukasa.interfaces.stores import Caller
    from lukasa.models.token_counter import open_token_counter

    counter, rows = open_token_counter(), []
    for name, tools, compat in (
        ("core", "core", ""),
        ("all", "all", ""),
        ("all and memory-graph", "all", "memory-graph"),
    ):
        server, stores = build_server("memory:", Caller(), compat=compat, tools=tools)
        count, tokens = anyio.run(count_tokens, server, counter)
        rows.append({"set": name, "tools": count, "tokens": tokens})
        stores.close()
    call.show(rows, columns="set, tools, tokens:,d", rows=[tuple(row.values()) for row in rows])


def serve(
    ctx: typer.Context,
    host: Annotated[
        str, option("ADDRESS", "The address to listen on; only this machine reaches the default.")
    ] = "127.0.0.1",
    port: Annotated[int, option("PORT", "The port; 0 takes a free one.")] = 8765,
    host_name: Annotated[list[str] | None, option("NAME", "Another name of this server (repeatable).")] = None,
    compat: Annotated[
        list[str] | None, option("memory-graph|mem0", "Also offer another server's tools or paths (repeatable).")
    ] = None,
    backups: Annotated[str, option("URL", "Where the owner's backups go, such as file:///srv/backups.")] = "",
    no_worker: Annotated[bool, flag("--no-worker", "Leave background jobs to other servers and workers.")] = False,
    access_log: Annotated[bool, flag("--access-log", "Print one line per request.")] = False,
    traces: Annotated[str, option("URL", "Send a span of each request to this OpenTelemetry collector.")] = "",
    demo: Annotated[bool, flag("--demo", "Serve a temporary store with a week of example memories.")] = False,
) -> None:
    """Serve the store over HTTP: the API at /v1, MCP at /mcp, health and metrics.

    The agent and the scopes of a request are those of its token. The first start makes a token for the owner and says in
    which file it is.

    Example: lukasa serve --port 8765
    """
    call = get_options(ctx)
    for name in compat or ():
        require_choice(name, ("memory-graph", "mem0"), "a server to be compatible with")
    try:
        from lukasa.interfaces.http.app import build_app
        from lukasa.interfaces.mcp import http as mcp_http
        from lukasa.interfaces.mcp.server import build_server
        from lukasa.interfaces.stores import Caller
    except ImportError as error:
        raise MissingExtra("The server is not installed.", hint="Run: pip install 'lukasa[server]'") from error
    _log_plainly()
    if access_log:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logging.getLogger("lukasa.access").addHandler(handler)
        logging.getLogger("lukasa.access").setLevel(logging.INFO)
        logging.getLogger("lukasa.access").propagate = False
    with (
        _request_tracing(traces) if traces else nullcontext(lambda app: app) as trace,
        _demo_store() if demo else nullcontext((call.store, backups)) as (store, backups),
    ):
        server, stores = build_server(
            store, Caller(), compat="memory-graph" if "memory-graph" in (compat or ()) else ""
        )
        try:
            stores.check()
            if not single_token():
                _make_owner_token(stores, locate_owner_token(locate_store(store)))
            stores.warm_up()
            _run_http_server(
                replace(call, store=store),
                stores,
                lambda source, names: trace(
                    build_app(
                        stores,
                        source,
                        names,
                        mcp_http.build_routes(server),
                        backup_url=backups,
                        runs_jobs=not no_worker,
                        compat="mem0" if "mem0" in (compat or ()) else "",
                    )
                ),
                (host, port),
                host_name or [],
                "Serving the dashboard at {url}, the API at {url}/v1 and MCP at {url}/mcp",
            )
        finally:
            stores.close()


def _log_plainly() -> None:
    """Print the log messages of libraries as they are. The handler that MCP would add imports modules when it prints an error, which fails
    and ends the server when no descriptor is left."""
    logging.basicConfig(format="%(message)s")


@contextmanager
def _request_tracing(collector_url: str) -> Iterator[Callable[[ASGIApp], ASGIApp]]:
    """Yield a function that adds tracing to an app. The collector gets all spans before the server ends."""
    parts = split_url(collector_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        hint = "Write the collector's address for traces, such as http://localhost:4318/v1/traces."
        raise InvalidInput(f"{collector_url[:120]!r} is not the address of a collector.", hint=hint)
    try:
        from lukasa.interfaces.http.tracing import RequestTracing, open_tracer
    except ImportError as error:
        raise MissingExtra(
            "OpenTelemetry is not installed.", hint="Run: pip install 'lukasa[server,telemetry]'"
        ) from error
    with open_tracer(collector_url) as tracer:
        yield lambda app: RequestTracing(app, tracer)


@contextmanager
def _demo_store() -> Iterator[tuple[str, str]]:
    """Yield a temporary store with a week of a small team's agents and the place of its backups; remove both at the end."""
    from lukasa.interfaces.demo import BACKUP_FOLDER, fill_store, make_tokens

    with tempfile.TemporaryDirectory(prefix="lukasa-demo-") as folder:
        store = Path(folder) / "memory.db"
        fill_store(store)
        make_tokens(store)
        render.print_to_stderr(f"This is a demonstration. Its store is {store}; it is removed at the end.")
        yield str(store), (store.parent / BACKUP_FOLDER).as_uri()


def _make_owner_token(stores: CallerStores, path: Path) -> None:
    """Make a token for the owner if there is no token yet, and put it into a file that only the user can read."""
    from lukasa.interfaces.api_tokens import is_readable_by_others, write_secret
    from lukasa.interfaces.auth import StoreTokenSource

    tokens = StoreTokenSource(stores).open()
    if not tokens.list():
        try:
            write_secret(path, tokens.add("owner"))
        except FileTaken:  # another server on this store was faster
            return
        render.print_to_stderr("Made a token for the owner of the store.")
    if path.exists():
        if is_readable_by_others(path):
            raise NotAllowed(f"Other users may read {path}, which holds a token.", hint=f"Run: chmod 600 {path}")
        render.print_to_stderr(f"The owner's token is in {path}.")


def _run_http_server(
    call: Call,
    stores: CallerStores,
    build: Callable[[TokenSource, list[str]], Any],
    address: tuple[str, int],
    host_names: list[str],
    announcement: str,
) -> None:
    """Serve an app until interrupted. ``build`` gets the source of tokens and the names of the server."""
    import anyio

    from lukasa.interfaces import auth, http_server
    from lukasa.interfaces.api_tokens import token_from_environment

    host, port = address
    source: TokenSource
    if plain := single_token():
        source = auth.SingleToken(token_from_environment(plain, call.agent, call.scopes or None))
    else:
        if call.agent or call.scopes:
            hint = "Leave --agent and --scope out, or give one token in LUKASA_TOKEN."
            raise InvalidInput("Each token already names its agent and scopes.", hint=hint)
        source = stored = auth.StoreTokenSource(stores, locate_owner_token(locate_store(call.store)))
        if not stores.store_exists() or not stored.open().list():
            raise InvalidInput(
                "There is no token, so no client could connect.", hint="Make one: lukasa --agent NAME token add NAME"
            )
    if port == 0:
        with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as found:
            port = int(found.getsockname()[1])
    app = build(source, http_server.list_host_names(host, port, host_names))

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


@contextmanager
def _open_tokens(call: Call, *, create: bool = False) -> Iterator[ApiTokens]:
    """Open the tokens of the store, as its owner."""
    from lukasa.interfaces.api_tokens import ApiTokens

    with replace(call, agent="", scopes=(), _opened=None).open(create=create) as memory:
        yield ApiTokens(memory.journal, SystemClock())


@app.command()
def add(
    call: Call,
    name: TokenNameArgument,
    owner: Annotated[bool, flag("--owner", "The token may do everything, as the owner of the store.")] = False,
    read_only: Annotated[bool, flag("--read-only", "The token may only read.")] = False,
    rate: Annotated[int | None, option("N", "Requests per minute; 0 means no limit.", min=0)] = None,
    expires_at: Annotated[str | None, option("TIME", "When the token ends: a time, or days such as 30d.")] = None,
) -> None:
    """Create a token and print it once; only its hash is stored.

    The token acts as --agent with --scope, which are given before the command. With --scope alone it only reads. One of
    both is needed, or --owner.

    Example: lukasa --agent ada token add laptop --expires-at 90d
    """
    from lukasa.interfaces.api_tokens import require_holder

    scopes = call.scopes or None
    require_holder(call.agent, scopes, owner=owner)
    days = find_number(expires_at or "", "", "d", digits=range(1, 6))
    end = parse_time(expires_at) if days is None else SystemClock().now() + timedelta(days=days)
    with _open_tokens(call, create=True) as tokens:
        token = tokens.add(name, agent=call.agent, scopes=scopes, read_only=read_only, rate=rate, expires_at=end)
    holder = f"the agent {call.agent}" if call.agent else "its scopes" if scopes else "the owner of the store"
    call.warn(f"A token for {holder}. It is shown only now.")
    call.show({"name": name, "agent": call.agent, "scopes": scopes, "token": token}, token)


@app.command()
def list_(call: Call) -> None:
    """List the tokens by name. The tokens themselves are not stored.

    Example: lukasa token list
    """
    try:
        with _open_tokens(call) as tokens:
            found = tokens.list()
    except StoreMissing:
        found = []
    call.show(
        found,
        columns=(
            "name, access, agent",
            ("scopes", lambda token: ", ".join(token.scopes or ()) or "–"),
            ("rate", lambda token: f"{token.rate}/min" if token.rate else "–"),
            "expires=expires_at, made=made_at, used=last_used",
        ),
        empty="There are no tokens.",
    )


@app.command()
def revoke(call: Call, name: TokenNameArgument) -> None:
    """Delete a token. Every running server refuses it from the next request on, and ends its streams.

    Example: lukasa token revoke laptop
    """
    missing = f"There is no token named {name!r:.80}."
    try:
        with _open_tokens(call) as tokens:
            require_found(tokens.revoke(name), missing)
    except StoreMissing:
        require_found(False, missing)
    call.show({"name": name, "revoked": True}, f"Revoked: {name}.")
