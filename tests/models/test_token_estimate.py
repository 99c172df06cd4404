"""The estimate of tokens, where no tokenizer is installed, keeps a budget: on prose and on code it is not too low."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lukasa.models import token_counter

ROOT = Path(__file__).parents[2]
TEXTS = [
    ROOT / "README.md",
    ROOT / "docs" / "concepts.md",
    ROOT / "src" / "lukasa" / "memory.py",
    ROOT / "pyproject.toml",
]


@pytest.mark.requirement("AGT-7")
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_an_estimate_is_at_most_a_little_too_low_and_not_far_too_high(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rs_bpe", reason="the extra `tokens` is not installed")
    exact = token_counter.open_token_counter()
    monkeypatch.setitem(sys.modules, "rs_bpe.bpe", None)
    estimate = token_counter.open_token_counter.__wrapped__()
    assert exact.is_exact
    assert not estimate.is_exact
    text = path.read_text("utf-8")
    assert 0.97 <= estimate(text) / exact(text) <= 1.5
