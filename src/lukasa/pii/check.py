"""The guard at the gate: a draft with personal data or secrets is refused, or kept without them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lukasa.outcome import Refused
from lukasa.pii.detector import describe_findings, find_pii, redact_text
from lukasa.record import Draft


def check_pii(draft: Draft) -> Refused | None:
    """Why a draft may not come in, if it holds anything personal or secret. Names the classes, never the values."""
    found = find_pii("\n".join(_iterate_texts(draft)))
    if not found:
        return None
    return Refused(
        "pii",
        f"This holds what looks like {describe_findings(found)}, which records of kind {draft.kind!r} do not keep. Leave it out, and "
        "say where it can be found instead.",
        {"classes": sorted({spotted.pii_class for spotted in found})},
    )


def redact_draft(draft: Draft) -> Draft:
    """The draft with ``[card]``, ``[password]`` … where those stood, in its text, its body and its labels."""
    labels = tuple(redact_text(label) for label in draft.labels)
    return draft._replace(
        text=redact_text(draft.text), body=_redact_value(draft.body) if draft.body else draft.body, labels=labels
    )


def _iterate_texts(draft: Draft) -> Iterator[str]:
    """Every piece of text a draft holds."""
    if draft.text:
        yield draft.text
    waiting: list[Any] = [*draft.body.items(), *draft.labels]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting.extend(value.items())
        elif isinstance(value, list | tuple):
            waiting.extend(value)


def _redact_value(value: Any) -> Any:
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {redact_text(name): _redact_value(held) for name, held in value.items()}
    if isinstance(value, list | tuple):
        return [_redact_value(held) for held in value]
    return value
