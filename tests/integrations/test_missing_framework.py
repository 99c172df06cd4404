"""An adapter without its framework says which extra to install, and the library imports none of them."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FRAMEWORKS = {
    "anthropic": ("anthropic", "anthropic"),
    "claude_agent": ("claude_agent_sdk", "claude-agent"),
    "google_adk": ("google.adk", "google-adk"),
    "hermes": ("agent", "hermes"),
    "langgraph": ("langgraph", "langgraph"),
    "langgraph_store": ("langgraph", "langgraph"),
    "openai_agents": ("agents", "openai-agents"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "pydantic_ai_memory": ("pydantic_ai_harness", "pydantic-ai-harness"),
}
SCRIPT = """
import importlib, json, sys
import lukasa, lukasa.integrations
from lukasa.errors import MissingExtra

frameworks = json.loads(sys.argv[1])
loaded = [name for name, _ in frameworks.values() if name in sys.modules]
sys.modules.update(dict.fromkeys(name for name, _ in frameworks.values()))
hints = {}
for adapter in frameworks:
    try:
        importlib.import_module(f"lukasa.integrations.{adapter}")
    except MissingExtra as error:
        hints[adapter] = error.hint
print(json.dumps([loaded, hints]))
"""


@pytest.mark.requirement("DOO-6")
def test_an_adapter_without_its_framework_names_the_extra():
    run = subprocess.run([sys.executable, "-c", SCRIPT, json.dumps(FRAMEWORKS)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    loaded, hints = json.loads(run.stdout)
    assert loaded == []
    assert hints == {adapter: f"Run: pip install 'lukasa[{extra}]'" for adapter, (_, extra) in FRAMEWORKS.items()}


@pytest.mark.requirement("DOO-6")
def test_every_adapter_is_listed_here_and_has_an_extra():
    helpers = {"__init__", "deltas", "records"}
    modules = {path.stem for path in (ROOT / "src/lukasa/integrations").glob("*.py")} - helpers
    assert modules == set(FRAMEWORKS)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {extra for _, extra in FRAMEWORKS.values()} <= set(extras)
