"""The types of words with a fixed choice are the lists that the program checks at run time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import lukasa
from lukasa.core import choices
from lukasa.experience.knowledge import ANTIPATTERN, FACT, INVERSE_RELATIONS, PATTERN
from lukasa.vault.settings import CANON, REGISTER

LISTS = {
    lukasa.Tier: choices.TIERS,
    lukasa.Role: choices.ROLES,
    lukasa.EpisodeOutcome: choices.EPISODE_OUTCOMES,
    lukasa.KnowledgeKind: choices.KNOWLEDGE_KINDS,
    lukasa.KnowledgeRelation: choices.RELATIONS,
    lukasa.PredictionStatus: choices.PREDICTION_STATUSES,
    lukasa.SearchProfile: choices.SEARCH_PROFILES,
}


@pytest.mark.requirement("DOO-1")
def test_the_types_are_the_lists_that_services_check() -> None:
    assert all(get_args(kind) == listed for kind, listed in LISTS.items())
    assert choices.TIERS == (CANON, REGISTER)
    assert choices.KNOWLEDGE_KINDS == (PATTERN, ANTIPATTERN, FACT)
    assert set(INVERSE_RELATIONS) <= set(choices.RELATIONS)
    with lukasa.open("memory:", embedder="hash") as memory:
        wrong: Any = "wrong"
        refused = memory.vault.add_memory("We deploy on Tuesdays.", tier=wrong)
        assert refused.code == "bad_tier"
        assert all(tier in refused.reason for tier in choices.TIERS)
        refused = memory.knowledge.link("sem-001", wrong, "sem-002")
        assert refused.code == "bad_relation"
        assert all(relation in refused.reason for relation in choices.RELATIONS)
        for profile in choices.SEARCH_PROFILES:
            assert memory.vault.search("deploy", profile=profile) == []
        for outcome in choices.EPISODE_OUTCOMES:
            assert memory.episodes.record(f"Try {outcome}", outcome=outcome)
        for role in choices.ROLES:
            assert memory.context.append("s1", role, f"I am the {role}.")


@pytest.mark.slow
@pytest.mark.requirement("DOO-1")
def test_a_type_checker_refuses_a_word_that_is_not_in_the_list(tmp_path: Path) -> None:
    """Run mypy on calls with a word of each list, and with one that is misspelt."""
    script = tmp_path / "calls.py"
    calls = {
        'memory.vault.add_memory("x", tier="{}")': ("register", "registre"),
        'memory.vault.search("x", profile="{}")': ("lexical", "words"),
        'memory.context.append("s", "{}", "x")': ("assistant", "asistant"),
        'memory.episodes.record("x", outcome="{}")': ("failure", "fail"),
        'memory.knowledge.link("a", "{}", "b")': ("contradicts", "denies"),
        'memory.forecasts.list("{}")': ("active", "open"),
    }
    lines = [call.format(word) for call, words in calls.items() for word in words]
    script.write_text("import lukasa\nmemory = lukasa.open()\n" + "\n".join(lines) + "\n", "utf-8")
    command = [sys.executable, "-m", "mypy", "--no-incremental", "--follow-imports=silent", str(script)]
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    wrong = [int(line.split(":")[1]) for line in found.stdout.splitlines() if "error:" in line]
    assert wrong == [4 + 2 * number for number in range(len(calls))], found.stdout
