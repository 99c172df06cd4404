"""The write gate, as far as it needs no look at the store: pure checks of a proposal, in the document's order.

Each answers with a refusal or nothing. The checks that follow (register upsert, near-duplicate, capacity) look at the
store, and so run inside the decision that writes; see ``lukasa.vault.vault``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lukasa.canonical_json import SURROGATES
from lukasa.outcome import Refused
from lukasa.pii.detector import describe_findings, find_pii, redact_text
from lukasa.scope import SYSTEM, Reach
from lukasa.vault.memory import MemoryProposal
from lukasa.vault.noise import find_noise_signal
from lukasa.vault.settings import LOG, MEMORY_KIND, TIERS, VaultSettings

_MAX_NAME_LENGTH = 100
_MAX_TOPIC_LENGTH = 180
_MAX_TAGS = 20

ProposalCheck = Callable[[MemoryProposal, VaultSettings, Reach], Refused | None]


def check_text(proposal: MemoryProposal, _: VaultSettings, __: Reach) -> Refused | None:
    """Before anything is read: it must be a text at all."""
    said: object = proposal.text
    if not isinstance(said, str):
        return Refused("bad_text", f"The text must be text, not {type(said).__name__}.")
    if not said.strip():
        return Refused("empty", "There is nothing to remember: the text is empty.")
    if not said.isascii() and SURROGATES.search(said):
        return Refused("bad_unicode", "The text has a lone surrogate, which is not valid Unicode.")
    return None


def check_noise(proposal: MemoryProposal, settings: VaultSettings, _: Reach) -> Refused | None:
    if (signal := find_noise_signal(proposal.text[: 10 * settings.longest], settings.signals)) is None:
        return None
    return Refused(
        "noise",
        f"This reads like a passing event (“{signal}”), which does not belong in the vault. Put it into the burst journal "
        "instead: vault.journal(text), or `lukasa vault journal TEXT`. If it is meant to last, say what is always true.",
        {"signal": signal, "place": "journal"},
    )


def check_log_tier(proposal: MemoryProposal, _: VaultSettings, __: Reach) -> Refused | None:
    if proposal.tier != LOG:
        return None
    return Refused(
        "log_tier",
        "The vault keeps no log tier. Put it into the burst journal instead: vault.journal(text), or "
        "`lukasa vault journal TEXT`.",
        {"place": "journal"},
    )


def check_length(proposal: MemoryProposal, settings: VaultSettings, _: Reach) -> Refused | None:
    if len(proposal.text) <= settings.longest:
        return None
    return Refused(
        "too_long",
        f"The text has {len(proposal.text):,} characters; a memory holds at most {settings.longest:,}. "
        "Compress it, or split it into several facts.",
        {"characters": len(proposal.text), "most": settings.longest},
    )


def check_scope(proposal: MemoryProposal, settings: VaultSettings, reach: Reach) -> Refused | None:
    asked: object = proposal.scope
    if not isinstance(asked, str) or not _is_plain_text(asked, 200):
        return Refused("bad_scope", "The scope must be short plain text.")
    if asked != SYSTEM and reach.writes(asked) and (settings.scopes is None or asked in settings.scopes):
        return None
    return Refused("bad_scope", f"{asked!r:.80} is not a scope this vault can write to.{_scopes_hint(settings, reach)}")


def check_tier(proposal: MemoryProposal, _: VaultSettings, __: Reach) -> Refused | None:
    if proposal.tier in TIERS:
        return None
    return Refused("bad_tier", f"{proposal.tier!r:.80} is not a tier; say one of {', '.join(TIERS)}.")


def check_source(proposal: MemoryProposal, settings: VaultSettings, _: Reach) -> Refused | None:
    if proposal.source is None or proposal.source in settings.sources:
        return None
    return Refused("bad_source", f"{proposal.source!r:.80} is not a source; say one of {', '.join(settings.sources)}.")


def check_names(proposal: MemoryProposal, _: VaultSettings, __: Reach) -> Refused | None:
    """Category, topic, tags and author are short plain text."""
    if not _is_plain_text(proposal.category, _MAX_NAME_LENGTH):
        return Refused("bad_category", f"The category must be plain text of 1 to {_MAX_NAME_LENGTH} characters.")
    if proposal.topic_id is not None and not _is_plain_text(proposal.topic_id, _MAX_TOPIC_LENGTH):
        return Refused("bad_topic", f"The topic must be plain text of 1 to {_MAX_TOPIC_LENGTH} characters.")
    tags: object = proposal.tags
    if (
        not isinstance(tags, tuple)
        or len(tags) > _MAX_TAGS
        or not all(_is_plain_text(tag, _MAX_NAME_LENGTH) for tag in tags)
    ):
        return Refused(
            "bad_tags",
            f"Tags are at most {_MAX_TAGS} pieces of plain text, each of 1 to {_MAX_NAME_LENGTH} characters.",
        )
    if proposal.author.__class__ is not str or (proposal.author and not _is_plain_text(proposal.author, 200)):
        return Refused("bad_author", "The author must be short plain text.")
    return None


def check_personal_data(proposal: MemoryProposal, settings: VaultSettings, _: Reach) -> Refused | None:
    """The refusal names what was found, never the value; nothing of the text is kept."""
    return (
        refuse_personal_data("\n".join((proposal.text, *_metadata_texts(proposal))))
        if settings.pii_handling(MEMORY_KIND) == "block"
        else None
    )


CHECKS: tuple[ProposalCheck, ...] = (
    check_text,
    check_noise,
    check_log_tier,
    check_length,
    check_scope,
    check_tier,
    check_source,
    check_names,
    check_personal_data,
)


def check_proposal(proposal: MemoryProposal, settings: VaultSettings, reach: Reach) -> Refused | None:
    """The first check's refusal, if there is one."""
    return next((refused for check in CHECKS if (refused := check(proposal, settings, reach)) is not None), None)


def refuse_personal_data(text: str) -> Refused | None:
    """A refusal if there is anything personal or secret in a text."""
    if not (found := find_pii(text)):
        return None
    return Refused(
        "pii",
        f"This holds what looks like {describe_findings(found)}. The vault does not keep that, and nothing of it was kept. "
        "Leave it out, and say where it can be found instead.",
        {"classes": sorted({spotted.pii_class for spotted in found})},
    )


def redact_proposal(proposal: MemoryProposal, settings: VaultSettings) -> MemoryProposal:
    """The proposal as it may be kept where the policy is to redact."""
    return (
        replace(proposal, text=redact_text(proposal.text))
        if settings.pii_handling(MEMORY_KIND) == "redact"
        else proposal
    )


def _metadata_texts(proposal: MemoryProposal) -> tuple[str, ...]:
    return (proposal.category, *((proposal.topic_id,) if proposal.topic_id else ()), *proposal.tags)


def _is_plain_text(value: object, max_length: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= max_length and value.isprintable() and bool(value.strip())


def _scopes_hint(settings: VaultSettings, reach: Reach) -> str:
    known = settings.scopes if settings.scopes is not None else reach.writable
    return "" if known is None else f" Known are: {', '.join(sorted(known))}."
