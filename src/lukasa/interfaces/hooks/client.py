"""The hook client: a coding agent runs it for each event. It sends the event to the daemon and never fails.

This module imports only the standard library, and most of it late, because the agent waits for every import.
"""

import os
import sys
import time

ANSWERED_EVENTS = ("session-start", "user-prompt-submit", "pre-tool-use", "subagent-start", "stop")
QUEUED_EVENTS = ("pre-compact", "stop", "subagent-stop", "session-end")
EVENTS = (*ANSWERED_EVENTS, "pre-compact", "subagent-stop", "session-end")
LEFT_EVENT = "session-left"
"""An event that the daemon queues when a session starts: an earlier one may have been left without its end."""
OFF_VARIABLE = "LUKASA_HOOK_OFF"
"""Names events, separated by commas, that are not answered: ``pre-tool-use,subagent-start,stop``."""
RECEIVED = b"\x06"
"""The byte that confirms an answer, so that the daemon does not send the same context again."""
DEADLINES = {
    "session-start": ("LUKASA_HOOK_START_SECONDS", 2.0),
    "user-prompt-submit": ("LUKASA_HOOK_PROMPT_SECONDS", 1.0),
    "stop": ("LUKASA_HOOK_PROMPT_SECONDS", 1.0),
}
"""The seconds that an agent waits for an answer at most, and the variable that changes them."""
DEFAULT_SECONDS = 0.3
_EXIT_SECONDS = 0.03
"""Seconds that this process needs for its exit."""
_DEFAULT_STARTUP_SECONDS = 0.06
"""The age of the process where the system does not report it."""
_DAEMON_START_SECONDS = 5.0
"""Seconds that a daemon has for its start before another one is started."""
_MAX_PAYLOAD_BYTES = 8_000_000
_MAX_SOCKET_PATH_BYTES = 100
_MAX_QUEUED_EVENTS = 5_000
_OPTIONS = ("--store", "--agent", "--scope")
PROJECT_HERE = "project:."
"""Stands for the scope of the project that the agent works in."""


class HookCall:
    """One run of a hook: its event, store, agent and scopes."""

    __slots__ = ("agent", "event", "scopes", "store")

    def __init__(self, event: str, store: str, agent: str, scopes: tuple[str, ...]) -> None:
        self.event, self.store, self.agent, self.scopes = event, store, agent, scopes


def parse_hook_call(argv: list[str]) -> HookCall | None:
    """Parse ``[--agent NAME] hook EVENT``. Return ``None`` for any other command line."""
    values: dict[str, list[str]] = {name: [] for name in _OPTIONS}
    rest = list(argv)
    while len(rest) > 1 and rest[0] in _OPTIONS:
        values[rest[0]].append(rest[1])
        rest = rest[2:]
    if len(rest) != 2 or rest[0] != "hook" or rest[1] not in EVENTS:
        return None
    store, agent = ((values[name] or [""])[-1] for name in ("--store", "--agent"))
    return HookCall(rest[1], store, agent, tuple(values["--scope"]))


def run_hook(call: HookCall) -> int:
    """Run a hook and return its exit code, which is always 0. After an error it prints nothing."""
    try:
        deadline = time.monotonic() + max(0.05, answer_seconds(call.event) - process_age())
        payload = sys.stdin.buffer.read(_MAX_PAYLOAD_BYTES + 1)
        if len(payload) <= _MAX_PAYLOAD_BYTES:
            answer = dispatch_event(call, payload, deadline)
            if answer:
                sys.stdout.buffer.write(answer)
                sys.stdout.buffer.flush()
    except Exception as error:  # noqa: BLE001 - a failed hook must not stop the agent
        if os.environ.get("LUKASA_HOOK_DEBUG"):
            print(f"lukasa hook: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
    return 0


def answer_seconds(event: str) -> float:
    """Return the seconds from the start of this process to the answer to an event at most."""
    variable, seconds = DEADLINES.get(event, ("", DEFAULT_SECONDS))
    named = os.environ.get(variable, "") if variable else ""
    if named.replace(".", "", 1).isdecimal():
        seconds = min(float(named), 60.0)
    return seconds - _EXIT_SECONDS


def process_age() -> float:
    """Return the seconds since this process was started."""
    try:
        with open("/proc/self/stat", "rb") as stat, open("/proc/uptime", "rb") as uptime:  # noqa: PTH123
            ticks = int(stat.read().rpartition(b")")[2].split()[19])
            return max(0.0, float(uptime.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return _DEFAULT_STARTUP_SECONDS


def dispatch_event(call: HookCall, payload: bytes, deadline: float) -> bytes:
    """Send an event to the daemon and return its answer. A queued event is written to the queue first."""
    store = name_store(call.store)
    found = "" if store else find_nearest_store()
    endpoint = HookEndpoint(store or found, call.agent, expand_project(call.scopes), is_found=bool(found))
    if call.event in QUEUED_EVENTS:
        endpoint.enqueue(call.event, payload)
    is_answered = call.event in ANSWERED_EVENTS and call.event not in os.environ.get(OFF_VARIABLE, "").split(",")
    if not is_answered and call.event not in QUEUED_EVENTS:
        return b""
    message = call.event.encode() + b"\n" + payload if is_answered else b"wake\n"
    answer = endpoint.send_request(message, deadline)
    if answer is None:
        endpoint.start_daemon()
        while answer is None and is_answered and time.monotonic() < deadline:
            time.sleep(0.01)
            answer = endpoint.send_request(message, deadline)
    return answer or b""


def name_store(store: str) -> str:
    """Return the store that the command or the environment names, or ""."""
    store = store or os.environ.get("LUKASA_STORE", "")
    if not store or "://" in store or store == "memory:":
        return store
    return os.path.abspath(store.removeprefix("sqlite:"))  # noqa: PTH100


def find_nearest_store() -> str:
    """Return the store in the nearest ``.lukasa/`` of the agent's folder, or "". It may have come from a stranger."""
    folder = project_folder()
    while True:
        if os.path.isdir(os.path.join(folder, ".lukasa")):  # noqa: PTH112, PTH118 - pathlib takes 10 ms to load
            return os.path.join(folder, ".lukasa", "memory.db")  # noqa: PTH118
        parent = os.path.dirname(folder)  # noqa: PTH120
        if parent == folder:
            return ""
        folder = parent


def project_folder() -> str:
    """Return the folder that the agent works in."""
    folder = os.environ.get("CLAUDE_PROJECT_DIR", "")
    return folder if os.path.isabs(folder) else os.getcwd()  # noqa: PTH109, PTH117


def expand_project(scopes: tuple[str, ...]) -> tuple[str, ...]:
    """Return scopes with ``project:.`` replaced by the scope of the project that the agent works in.

    In the user's home and in the root folder there is no project; the other scopes remain, or else the shared one.
    """
    if PROJECT_HERE not in scopes:
        return scopes
    found = name_project(project_folder())
    names = [found if scope == PROJECT_HERE else scope for scope in scopes]
    return tuple(name for name in names if name) or ("shared",)


def name_project(folder: str) -> str:
    """Return the scope of the repository that a folder is in, or of the folder itself; "" for the home and the root.

    Worktrees of a repository have its scope. The name holds a hash of the path, so that two projects of the same name differ.
    """
    import hashlib

    root = folder = os.path.realpath(folder)
    while not os.path.exists(os.path.join(root, ".git")):  # noqa: PTH110, PTH118
        root, child = os.path.dirname(root), root  # noqa: PTH120
        if root == child:
            root = folder
            break
    try:
        with open(os.path.join(root, ".git"), encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH118, PTH123
            target = file.readline(4096).strip().removeprefix("gitdir: ")
        main, _, worktree = target.partition("/.git/worktrees/")
        root = os.path.realpath(main) if worktree else root
    except OSError:
        pass  # a folder, or none
    if root in (os.sep, os.path.realpath(os.path.expanduser("~"))):  # noqa: PTH111
        return ""
    words = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in os.path.basename(root).lower())  # noqa: PTH119
    digest = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"project:{words[:40]}-{digest}"


class HookEndpoint:
    """The socket and the queue folder of the daemon for one store and caller. Other users cannot access them.

    A store that nobody named, but that was found by its folder (``is_found``), has a daemon of its own, which uses it only
    if the user made or allowed it.
    """

    def __init__(self, store: str, agent: str, scopes: tuple[str, ...], *, is_found: bool = False) -> None:
        import hashlib

        self.store, self.agent, self.scopes, self.is_found = store, agent, scopes, is_found
        self.folder = ensure_private_folder(state_folder())
        identity = "\0".join((self.folder, store, "found" if is_found else "named", agent, *scopes, sys.prefix))
        self.name = hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self.queue = self.path(".d")
        self.start_marker = self.path(".starting")

    def path(self, suffix: str) -> str:
        """Return the path of a file of this endpoint."""
        return os.path.join(self.folder, self.name + suffix)  # noqa: PTH118

    @property
    def address(self) -> str:
        """The path of the socket: in the folder for temporary files where it would be too long for a socket."""
        path = self.path(".sock")
        if len(os.fsencode(path)) < _MAX_SOCKET_PATH_BYTES:
            return path
        import tempfile

        folder = ensure_private_folder(os.path.join(tempfile.gettempdir(), f"lukasa-{os.getuid()}"))  # noqa: PTH118
        return os.path.join(folder, self.name + ".sock")  # noqa: PTH118

    def enqueue(self, event: str, payload: bytes) -> None:
        """Write an event to the queue folder, atomically and synced. A full queue takes no more events."""
        os.makedirs(self.queue, 0o700, exist_ok=True)  # noqa: PTH103
        if len(os.listdir(self.queue)) >= _MAX_QUEUED_EVENTS:  # noqa: PTH208
            return
        path = os.path.join(self.queue, f"{time.time_ns():020d}-{os.getpid()}")  # noqa: PTH118
        descriptor = os.open(path + ".part", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123
            file.write(event.encode() + b"\n" + payload)
            file.flush()
            os.fsync(descriptor)
        os.rename(path + ".part", path + ".event")  # noqa: PTH104

    def send_request(self, message: bytes, deadline: float) -> bytes | None:
        """Return the daemon's answer; ``None`` if no daemon listens, empty if it does not answer in time."""
        import socket

        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                connection.connect(self.address)
            except OSError:
                return None
            try:
                connection.sendall(len(message).to_bytes(8, "big") + message)
                answer = b""
                while len(answer) < 8 + int.from_bytes(answer[:8], "big"):
                    connection.settimeout(max(0.001, deadline - time.monotonic()))
                    if not (part := connection.recv(65536)):
                        return b""
                    answer += part
                if len(answer) > 8:
                    connection.sendall(RECEIVED)
            except OSError:
                return b""
        return answer[8:]

    def start_daemon(self) -> None:
        """Start the daemon in the background. It ends by itself when idle."""
        if os.environ.get("LUKASA_HOOK_DAEMON") == "never" or not self._claim_start():
            return
        import subprocess

        command = [sys.executable, "-m", "lukasa.interfaces.hooks.daemon", "--agent", self.agent]
        command += [word for scope in self.scopes for word in ("--scope", scope)]
        command += ["--found"] if self.is_found else []
        subprocess.Popen(  # noqa: S603 - our own program
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={**os.environ, "LUKASA_STORE": self.store} if self.store else None,
            start_new_session=True,
        ).returncode = 0  # this process does not wait for it

    def _claim_start(self) -> bool:
        """Return whether this process may start the daemon. Others may have done so a moment ago."""
        try:
            if time.time() - os.stat(self.start_marker).st_mtime < _DAEMON_START_SECONDS:  # noqa: PTH116
                return False
            os.unlink(self.start_marker)  # noqa: PTH108
        except FileNotFoundError:
            pass
        try:
            os.close(os.open(self.start_marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        return True


def state_folder() -> str:
    """Return the folder of this user's hook daemons and queues."""
    folder = os.environ.get("LUKASA_HOOKS")
    if folder:
        return folder
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")  # noqa: PTH111, PTH118
    return os.path.join(base, "lukasa", "hooks")  # noqa: PTH118


def ensure_private_folder(path: str) -> str:
    """Create a folder for this user alone and return it. Refuse a folder that another user owns or may enter."""
    os.makedirs(path, 0o700, exist_ok=True)  # noqa: PTH103
    status = os.lstat(path)
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or not os.path.isdir(path):  # noqa: PTH112
        raise PermissionError(f"Other users may access {path}")
    return path
