"""What a coding agent runs for each hook: asks or tells the resident process, within a deadline, and never fails.

Only the interpreter's own modules may be imported here: everything else costs time that an agent waits.
"""

import os
import sys
import time

ANSWERED_EVENTS = ("session-start", "user-prompt-submit")
QUEUED_EVENTS = ("pre-compact", "stop", "session-end")
EVENTS = (*ANSWERED_EVENTS, *QUEUED_EVENTS)
DEADLINE = 0.27
"""Seconds to an answer from when the agent started this program; what is left of 0.3 is for ending it."""
_DEFAULT_STARTUP_SECONDS = 0.06
"""What the interpreter takes to start, where the system does not tell."""

_DAEMON_START_SECONDS = 5.0
"""Seconds a resident is given to start before another one is tried."""
_MAX_PAYLOAD_BYTES = 8_000_000
_OPTIONS = ("--store", "--agent", "--scope")
_MAX_QUEUED_EVENTS = 5_000


class HookCall:
    """One run of a hook: which event, and whose memory."""

    __slots__ = ("agent", "event", "scopes", "store")

    def __init__(self, event: str, store: str, agent: str, scopes: tuple[str, ...]) -> None:
        self.event, self.store, self.agent, self.scopes = event, store, agent, scopes


def parse_hook_call(argv: list[str]) -> HookCall | None:
    """The call that a command line spells, if it is one of a hook: ``[--agent NAME] hook EVENT``."""
    store, agent, scopes, at = "", "", [], 0
    while at + 1 < len(argv) and argv[at] in _OPTIONS:
        name, value = argv[at], argv[at + 1]
        at += 2
        if name == "--scope":
            scopes.append(value)
        elif name == "--agent":
            agent = value
        else:
            store = value
    if argv[at : at + 1] != ["hook"] or len(argv) != at + 2 or argv[at + 1] not in EVENTS:
        return None
    return HookCall(argv[at + 1], store, agent, tuple(scopes))


def run_hook(call: HookCall) -> int:
    """Runs a hook. Whatever happens, the agent goes on: there is no way to fail, only to say nothing."""
    try:
        until = time.monotonic() + max(0.05, DEADLINE - process_age())
        payload = sys.stdin.buffer.read(_MAX_PAYLOAD_BYTES + 1)
        if len(payload) <= _MAX_PAYLOAD_BYTES:
            said = dispatch_event(call, payload, until)
            if said:
                sys.stdout.buffer.write(said)
                sys.stdout.buffer.flush()
    except Exception as error:  # noqa: BLE001 - an agent must not stop because its memory does
        if os.environ.get("LUKASA_HOOK_DEBUG"):
            print(f"lukasa hook: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
    return 0


def process_age() -> float:
    """Seconds since this process was started."""
    try:
        with open("/proc/self/stat", "rb") as stat, open("/proc/uptime", "rb") as uptime:  # noqa: PTH123
            ticks = int(stat.read().rpartition(b")")[2].split()[19])
            return max(0.0, float(uptime.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return _DEFAULT_STARTUP_SECONDS


def dispatch_event(call: HookCall, payload: bytes, deadline: float) -> bytes:
    """What the resident answers to a question; nothing for an errand, which is laid down for it."""
    post = HookEndpoint(find_store(call.store), call.agent, call.scopes)
    errand = call.event in QUEUED_EVENTS
    if errand:
        post.enqueue(call.event, payload)
    message = b"wake\n" if errand else call.event.encode() + b"\n" + payload
    answer = post.send_request(message, deadline)
    if answer is None:
        post.start_daemon()
        if not errand:
            answer = post.retry_request(message, deadline)
    return answer or b""


def find_store(store: str) -> str:
    """The store that is meant: as named, by the environment, or in the nearest ``.lukasa/``; empty for the user's own."""
    store = store or os.environ.get("LUKASA_STORE", "")
    if store:
        return store if "://" in store or store == "memory:" else os.path.abspath(store.removeprefix("sqlite:"))  # noqa: PTH100
    here = project_folder()
    while True:
        if os.path.isdir(os.path.join(here, ".lukasa")):  # noqa: PTH112, PTH118 - pathlib takes 10 ms to load
            return os.path.join(here, ".lukasa", "memory.db")  # noqa: PTH118
        above = os.path.dirname(here)  # noqa: PTH120
        if above == here:
            return ""
        here = above


def project_folder() -> str:
    """The folder the agent works in: where it was started, else where this program was."""
    project = os.environ.get("CLAUDE_PROJECT_DIR", "")
    return project if os.path.isabs(project) else os.getcwd()  # noqa: PTH109, PTH117


class HookEndpoint:
    """Where one caller's resident is reached: a socket, and a folder for errands. Nobody else may look into either."""

    def __init__(self, store: str, agent: str, scopes: tuple[str, ...]) -> None:
        import hashlib

        self.store, self.agent, self.scopes = store, agent, scopes
        self.folder = ensure_private_folder(state_folder())
        whose = "\0".join((self.folder, store, agent, *scopes, sys.prefix))
        self.name = hashlib.sha256(whose.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self.spool = os.path.join(self.folder, self.name + ".d")  # noqa: PTH118

    @property
    def address(self) -> str:
        """The path of the socket, short enough for one."""
        path = os.path.join(self.folder, self.name + ".sock")  # noqa: PTH118
        if len(os.fsencode(path)) < 100:
            return path
        import tempfile

        short = ensure_private_folder(os.path.join(tempfile.gettempdir(), f"lukasa-{os.getuid()}"))  # noqa: PTH118
        return os.path.join(short, self.name + ".sock")  # noqa: PTH118

    def enqueue(self, event: str, payload: bytes) -> None:
        """Leaves an errand for the resident: whole, or not at all. A folder that nobody empties does not fill up."""
        os.makedirs(self.spool, 0o700, exist_ok=True)  # noqa: PTH103
        if len(os.listdir(self.spool)) >= _MAX_QUEUED_EVENTS:  # noqa: PTH208
            return
        name = f"{time.time_ns():020d}-{os.getpid()}"
        part = os.path.join(self.spool, name + ".part")  # noqa: PTH118
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123
            file.write(event.encode() + b"\n" + payload)
            file.flush()
            os.fsync(descriptor)
        os.rename(part, os.path.join(self.spool, name + ".errand"))  # noqa: PTH104, PTH118

    def send_request(self, message: bytes, deadline: float) -> bytes | None:
        """What the resident answers in time; nothing at all when there is none, empty when it is too late."""
        try:
            line = self._connect(deadline)
        except OSError:
            return None
        with line:
            try:
                line.sendall(len(message).to_bytes(8, "big") + message)
                parts = []
                while True:
                    line.settimeout(max(0.001, deadline - time.monotonic()))
                    part = line.recv(65536)
                    if not part:
                        break
                    parts.append(part)
            except OSError:
                return b""
        answer = b"".join(parts)
        return answer[8:] if len(answer) >= 8 and int.from_bytes(answer[:8], "big") == len(answer) - 8 else b""

    def _connect(self, deadline: float):  # type: ignore[no-untyped-def]  # noqa: ANN202 - socket is imported late
        import socket

        if not hasattr(socket, "AF_UNIX"):
            with open(os.path.join(self.folder, self.name + ".port"), "rb") as file:  # noqa: PTH118, PTH123
                port, secret = file.read().split()
            line = socket.create_connection(("127.0.0.1", int(port)), timeout=max(0.001, deadline - time.monotonic()))
            line.sendall(secret)
            return line
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            line.settimeout(max(0.001, deadline - time.monotonic()))
            line.connect(self.address)
        except OSError:
            line.close()
            raise
        return line

    def retry_request(self, message: bytes, deadline: float) -> bytes | None:
        """The same while a resident starts, as long as there is time."""
        while time.monotonic() < deadline:
            answer = self.send_request(message, deadline)
            if answer is not None:
                return answer
            time.sleep(0.01)
        return None

    def start_daemon(self) -> None:
        """Starts the process that answers from now on. It belongs to nobody and ends by itself."""
        if os.environ.get("LUKASA_HOOK_RESIDENT") == "never" or not self._claim_start():
            return
        import subprocess

        words = [sys.executable, "-m", "lukasa.interfaces.hooks.daemon", "--agent", self.agent]
        words += [word for scope in self.scopes for word in ("--scope", scope)]
        environment = {**os.environ, "LUKASA_STORE": self.store} if self.store else dict(os.environ)
        apart = {"start_new_session": True} if os.name == "posix" else {"creationflags": 0x00000208}
        subprocess.Popen(  # noqa: S603 - our own program
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=os.path.abspath(os.sep),  # noqa: PTH100
            env=environment,
            **apart,
        ).returncode = 0  # nobody waits for it

    @property
    def start_marker(self) -> str:
        """The mark of a resident that was started and does not listen yet."""
        return os.path.join(self.folder, self.name + ".starting")  # noqa: PTH118

    def _claim_start(self) -> bool:
        """Whether nobody has started one a moment ago. On a busy machine many hooks may run before it listens."""
        if os.path.exists(self.start_marker):  # noqa: PTH110
            if time.time() - os.stat(self.start_marker).st_mtime < _DAEMON_START_SECONDS:  # noqa: PTH116
                return False
            os.unlink(self.start_marker)  # noqa: PTH108
        try:
            os.close(os.open(self.start_marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        return True


def state_folder() -> str:
    """Where residents and errands of this user are found."""
    named = os.environ.get("LUKASA_HOOKS")
    if named:
        return named
    base = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    return os.path.join(base or os.path.join(os.path.expanduser("~"), ".local", "state"), "lukasa", "hooks")  # noqa: PTH111, PTH118


def ensure_private_folder(path: str) -> str:
    """The folder, made for its owner alone. One that somebody else made or may enter is not used."""
    os.makedirs(path, 0o700, exist_ok=True)  # noqa: PTH103
    if os.name == "posix":
        found = os.lstat(path)
        if found.st_uid != os.getuid() or found.st_mode & 0o077 or not os.path.isdir(path):  # noqa: PTH112
            raise PermissionError(f"{path} is not this user's alone")
    return path
