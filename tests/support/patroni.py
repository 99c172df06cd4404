"""Three PostgreSQL servers that Patroni and etcd keep as one primary and two standbys, on this machine.

etcd is the one that is installed, else Debian's package when root. Patroni is in a folder of its own, which ``make
test-cluster`` makes. The programs of PostgreSQL are those of the other tests, and run under the same account.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.postgres import load_package

PATRONI = Path(__file__).parents[2] / "build/cluster"
NODES = 3
WHAT_TO_INSTALL = "etcd was not found: install it (on Debian: apt-get install etcd-server)."


class Node:
    """A PostgreSQL server and the Patroni that looks after it."""

    def __init__(self, cluster: PatroniCluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.port, self.rest_port = free_port(), free_port()
        self.folder = cluster.folder / name
        self.data = self.folder / "data"
        self.folder.mkdir()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start Patroni, which starts PostgreSQL."""
        config = self.folder / "patroni.json"  # JSON is YAML
        config.write_text(json.dumps(self._config()))
        self.cluster.give_to_account(self.folder)
        self.process = self.cluster.start_program(
            [self.cluster.python, "-m", "patroni", str(config)], self.folder / "log"
        )

    def kill_postgres(self) -> None:
        """Kill the processes of PostgreSQL, and leave Patroni to notice."""
        import psutil

        with suppress(OSError, psutil.NoSuchProcess, IndexError, ValueError):
            main = psutil.Process(int((self.data / "postmaster.pid").read_text().splitlines()[0]))
            children = main.children(recursive=True)
            main.kill()
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.kill()

    def kill(self) -> None:
        """Kill Patroni and PostgreSQL at once, as a machine that loses its power."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None
        self.kill_postgres()

    def _config(self) -> dict[str, Any]:
        cluster = self.cluster
        return {
            "scope": "lukasa",
            "name": self.name,
            "restapi": {
                "listen": f"127.0.0.1:{self.rest_port}",
                "connect_address": f"127.0.0.1:{self.rest_port}",
            },
            "etcd3": {"host": f"127.0.0.1:{cluster.etcd_port}"},
            "bootstrap": {
                "dcs": {
                    "ttl": 20,
                    "loop_wait": 1,
                    "retry_timeout": 3,
                    "primary_start_timeout": 0,  # a primary that was killed is replaced, not waited for
                    "synchronous_mode": True,
                    "synchronous_mode_strict": True,  # a commit without a standby is not acknowledged
                    "postgresql": {
                        "use_pg_rewind": True,
                        # A former primary that cannot be rewound is made anew from the present one.
                        "remove_data_directory_on_rewind_failure": True,
                        "remove_data_directory_on_diverged_timelines": True,
                        "parameters": {"wal_log_hints": "on", "max_connections": 200, "shared_buffers": "64MB"},
                    },
                },
                "initdb": [
                    {"encoding": "UTF8"}, {"locale": "C"}, {"locale-provider": "builtin"}, {"builtin-locale": "C.UTF-8"},
                    "data-checksums",
                ],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}",
                "connect_address": f"127.0.0.1:{self.port}",
                "data_dir": str(self.data),
                "bin_dir": str(cluster.programs),
                "pgpass": str(self.folder / "pgpass"),
                "parameters": {"unix_socket_directories": str(cluster.folder), "wal_keep_size": "512MB"},
                "pg_hba": ["host all all 127.0.0.1/32 scram-sha-256", "host replication all 127.0.0.1/32 scram-sha-256"],
                "authentication": {
                    user: {"username": name, "password": cluster.password}
                    for user, name in (("superuser", "postgres"), ("replication", "follower"), ("rewind", "rewinder"))
                },
            },
        }  # fmt: skip


class PatroniCluster:
    """The three nodes and etcd, for a ``with`` block."""

    def __init__(self) -> None:
        package = load_package()
        self.programs, self.account = package.programs, package.account
        if not PATRONI.exists():
            raise RuntimeError("Patroni is not installed: run make test-cluster.")
        self.etcd, self.python = find_etcd(), find_python(self.account)
        self.folder = Path(tempfile.mkdtemp(prefix="lk-cluster-"))
        self.password = secrets.token_urlsafe(12)
        self.etcd_port, self.etcd_peer_port = free_port(), free_port()
        self.nodes = [Node(self, f"node{number}") for number in range(NODES)]
        self._etcd_process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            peer = f"http://127.0.0.1:{self.etcd_peer_port}"
            client = f"http://127.0.0.1:{self.etcd_port}"
            addresses = {
                "--listen-client-urls": client, "--advertise-client-urls": client, "--listen-peer-urls": peer,
                "--initial-advertise-peer-urls": peer, "--initial-cluster": f"only={peer}", "--name": "only",
                "--data-dir": str(self.folder / "etcd"),
            }  # fmt: skip
            self.give_to_account(self.folder)
            words = [word for pair in addresses.items() for word in pair]
            self._etcd_process = self.start_program([self.etcd, *words], self.folder / "etcd.log")
            for node in self.nodes:
                node.start()
            wait_until(lambda: len(self.roles()) == NODES and self.has_synchronous_standby(), "the cluster", 120)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for node in self.nodes:
                if (log := node.folder / "log").exists():
                    sys.stderr.write(f"--- {node.name}\n{log.read_text('utf-8', 'replace')[-3000:]}\n")
        for node in self.nodes:
            node.kill()
        if self._etcd_process is not None:
            self._etcd_process.kill()
            self._etcd_process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str = "postgres", *, attributes: str = "read-write") -> str:
        """Return the URL of a database on whichever server has the attributes."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"postgresql://postgres:{self.password}@{hosts}/{database}?target_session_attrs={attributes}"

    def roles(self) -> dict[str, str]:
        """Return the role of each node that runs: "primary", or what kind of standby it is."""
        for node in self.nodes:
            with suppress(OSError, ValueError):
                address = f"http://127.0.0.1:{node.rest_port}/cluster"
                with urllib.request.urlopen(address, timeout=2) as answer:
                    members = json.load(answer)["members"]
                return {
                    member["name"]: "primary" if member["role"] == "leader" else member["role"]
                    for member in members
                    if member.get("state") in ("running", "streaming")
                }
        return {}

    def primary(self) -> Node | None:
        """Return the node that takes writes, or None while there is none."""
        names = {name for name, role in self.roles().items() if role == "primary"}
        return next((node for node in self.nodes if node.name in names), None)

    def has_synchronous_standby(self) -> bool:
        """Return whether a standby can take over without losing a commit."""
        return {"primary", "sync_standby"} <= set(self.roles().values())

    def give_to_account(self, folder: Path) -> None:
        """Make the account that runs PostgreSQL the owner of a folder."""
        if self.account is not None:
            shutil.chown(folder, self.account, self.account)

    def start_program(self, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a program under the account of PostgreSQL, in a session of its own."""
        with log.open("ab") as file:
            return subprocess.Popen(
                command,
                user=self.account,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.folder),
                    "PYTHONPATH": str(PATRONI),
                    "LD_LIBRARY_PATH": str(self.programs.parent / "lib"),  # psycopg finds the client library there
                },
                start_new_session=True,
            )


def find_etcd() -> str:
    """Return the path of etcd, which is installed when root. Raise with what to install otherwise."""
    if shutil.which("etcd") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "etcd-server"]):
            subprocess.run(["apt-get", *words], check=False, timeout=600, stdout=subprocess.DEVNULL)
    if (found := shutil.which("etcd")) is None:
        raise RuntimeError(WHAT_TO_INSTALL)
    return found


def find_python(account: str | None) -> str:
    """Return a Python that the account may run; that of root may be in root's own folder."""
    for python in (sys.executable, "/usr/bin/python3"):
        with suppress(OSError):
            if subprocess.run([python, "-c", ""], user=account, cwd="/", check=False).returncode == 0:
                return python
    raise RuntimeError(
        "No Python was found that other users than root may run: install python3 or run as another user."
    )


def wait_until(holds: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Wait until a condition holds; fail if it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come about in {seconds:.0f} seconds"
        time.sleep(0.1)


def free_port() -> int:
    """Return a TCP port that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
