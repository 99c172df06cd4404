"""Fixtures of the session tests: stores of both engines, states with every section, other processes."""

import json
import os
import random
import subprocess
import sys
import zlib
from contextlib import ExitStack
from pathlib import Path

import pytest

import lukasa
from lukasa.testing import FrozenClock

ACTORS = Path(__file__).with_name("actors.py")


@pytest.fixture
def clock():
    return FrozenClock()


@pytest.fixture
def open_store(tmp_path, monkeypatch):
    """Open stores that are closed after the test; session files go below the test's folder."""
    monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "files"))
    with ExitStack() as stack:
        yield lambda location, **options: stack.enter_context(lukasa.open(location, **options))


@pytest.fixture(params=["file", "postgresql"])
def location(request, tmp_path):
    """Location of a store that several processes can share."""
    return request.getfixturevalue("url") if request.param == "postgresql" else str(tmp_path / "agents.db")


@pytest.fixture
def memory(location, open_store, clock):
    """New store of each engine, open_store by the owner."""
    return open_store(location, clock=clock)


@pytest.fixture
def in_file(tmp_path, open_store, clock):
    """New store in a file, open_store by the owner."""
    return open_store(str(tmp_path / "agents.db"), clock=clock)


def prediction(id="pred-1", **fields):
    """Return a prediction as a session's state has it."""
    return {
        "prediction_id": id,
        "market_id": f"market-{id}",
        "question": "Will it hold?",
        "probability": 0.6,
        "confidence_interval": [0.5, 0.7],
        "confidence_level": 0.85,
        "created_at": "2026-02-03T12:00:00Z",
        "last_updated": "2026-02-03T12:00:00Z",
        "status": "active",
        "num_updates": 0,
    } | fields


def signal(id="signal-1", **fields):
    return {
        "signal_id": id,
        "market_id": "market-1",
        "timestamp": "2026-02-03T12:00:00Z",
        "prediction": 0.65,
        "confidence": 0.8,
        "broadcast": True,
        "acknowledged": True,
    } | fields


def full_state(predictions=3, signals=2):
    """Return a state with something in every section."""
    return {
        "metadata": {
            "agent_id": "agent-1",
            "session_id": "demo",
            "version": "1.0.0",
            "created_at": "2026-02-03T12:00:00Z",
            "last_updated": "2026-02-03T12:00:00Z",
            "checkpoint_number": 5,
            "agent_type": "prediction_market_analyst",
        },
        "configuration": {
            "api_endpoint": "https://example.org/api",
            "checkpoint_interval_minutes": 30,
            "max_active_markets": 50,
            "confidence_threshold": 0.7,
            "update_frequency_minutes": 15,
        },
        "active_predictions": [prediction(f"pred-{index}") for index in range(predictions)],
        "signal_history": [signal(f"signal-{index}") for index in range(signals)],
        "reasoning_cache": {
            "market-pred-0": {
                "base_rate": 0.4,
                "key_factors": [{"factor": "progress", "adjustment": 0.15}],
                "evidence": [{"source": "https://example.org/a", "credibility": 0.85, "relevant_excerpt": "…"}],
                "last_analysis": "2026-02-03T12:00:00Z",
            }
        },
        "performance_metrics": {
            "total_predictions": 127,
            "resolved_predictions": 85,
            "brier_score": 0.18,
            "log_score": -0.42,
            "calibration_score": 0.92,
            "last_calculated": "2026-02-03T14:00:00Z",
            "by_confidence_bucket": {"high": {"count": 45, "accuracy": 0.89}},
        },
        "network_state": {
            "connected": True,
            "last_sync": "2026-02-03T14:30:00Z",
            "peer_agents": [{"agent_id": "agent-2", "last_interaction": "2026-02-03T14:00:00Z", "trust_score": 0.88}],
            "api_usage": {"requests_this_hour": 234, "rate_limit": 1000, "last_request": "2026-02-03T14:29:55Z"},
        },
        "learning_state": {
            "model_version": "1.0.0",
            "calibration_adjustments": {"bias_correction": -0.02, "confidence_scaling": 0.95},
            "performance_trend": "improving",
            "areas_for_improvement": ["regulatory_analysis"],
        },
    }


@pytest.fixture
def make():
    """Functions that make states and their parts."""

    class Make:
        state = staticmethod(full_state)
        prediction = staticmethod(prediction)
        signal = staticmethod(signal)

    return Make


def without_times(state):
    """Return a state without the fields that every checkpoint changes."""
    metadata = {
        name: value for name, value in state["metadata"].items() if name not in ("checkpoint_number", "last_updated")
    }
    return {**state, "metadata": metadata}


@pytest.fixture(scope="session")
def content():
    return without_times


@pytest.fixture
def seed(request):
    """Seed that is fixed for a normal test and random for a slow one; LUKASA_FAULT_SEED sets it."""
    setting = os.environ.get("LUKASA_FAULT_SEED")
    if setting is not None:
        value = int(setting)
    elif request.node.get_closest_marker("slow"):
        value = random.SystemRandom().getrandbits(32)
    else:
        value = zlib.crc32(request.node.name.encode())
    sys.stdout.write(f"LUKASA_FAULT_SEED={value}\n")
    return value


class Actors:
    """Runs the functions of ``actors.py`` in other processes."""

    def __init__(self):
        self._processes = []

    def start(self, part, **settings):
        command = [sys.executable, str(ACTORS), part, json.dumps(settings, default=str)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._processes.append(process)
        return process

    def run(self, part, **settings):
        """Run a part to its end; return the JSON on its last line, or None if it was killed."""
        process = self.start(part, **settings)
        output, errors = process.communicate(timeout=120)
        if process.returncode == -9:
            return None
        assert process.returncode == 0, errors[-4000:]
        return json.loads(output.splitlines()[-1])

    def end(self):
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def actors():
    actors = Actors()
    yield actors
    actors.end()
