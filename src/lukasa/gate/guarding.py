"""The guard at the gate: a draft with personal data or secrets is refused, or kept without them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lukasa.gate.guard import named, redacted, scan
from lukasa.outcome import Refused
from lukasa.record import Draft


def refusal(draft: Draft) -> Refused | None:
    """Why a draft may not come in, if it holds anything personal or secret. Names the classes, never the values."""
    found = scan("\n".join(_said(draft)))
    if not found:
        return None
    return Refused(
        "pii",
        f"This holds what looks like {named(found)}, which records of kind {draft.kind!r} do not keep. Leave it out, and "
        "say where it can be found instead.",
        {"classes": sorted({spotted.sort for spotted in found})},
    )


def without_secrets(draft: Draft) -> Draft:
    """The draft with ``[card]``, ``[password]`` … where those stood, in its text, its body and its labels."""
    labels = tuple(redacted(label) for label in draft.labels)
    return draft._replace(
        text=redacted(draft.text), body=_redacted(draft.body) if draft.body else draft.body, labels=labels
    )


def _said(draft: Draft) -> Iterator[str]:
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


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return {redacted(name): _redacted(held) for name, held in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(held) for held in value]
    return value
