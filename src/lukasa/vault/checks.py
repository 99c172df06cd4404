"""The write gate, as far as it needs no look at the store: pure checks of a proposal, in the document's order.

Each answers with a refusal or nothing. The checks that follow (register upsert, near-duplicate, capacity) look at the
store, and so run inside the decision that writes; see ``lukasa.vault.room``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lukasa.canonical import SURROGATES
from lukasa.gate.guard import named, redacted, scan
from lukasa.outcome import Refused
from lukasa.scope import SYSTEM, Reach
from lukasa.vault.item import Proposal
from lukasa.vault.noise import signal_in
from lukasa.vault.rules import KIND, LOG, TIERS, Rules

_LONGEST_NAME = 100
_LONGEST_TOPIC = 180
_MOST_TAGS = 20

Check = Callable[[Proposal, Rules, Reach], Refused | None]


def text(proposal: Proposal, _: Rules, __: Reach) -> Refused | None:
    """Before anything is read: it must be a text at all."""
    said: object = proposal.text
    if not isinstance(said, str):
        return Refused("bad_text", f"The text must be text, not {type(said).__name__}.")
    if not said.strip():
        return Refused("empty", "There is nothing to remember: the text is empty.")
    if not said.isascii() and SURROGATES.search(said):
        return Refused("bad_unicode", "The text has a lone surrogate, which is not valid Unicode.")
    return None


def noise(proposal: Proposal, rules: Rules, _: Reach) -> Refused | None:
    if (signal := signal_in(proposal.text[: 10 * rules.longest], rules.signals)) is None:
        return None
    return Refused(
        "noise",
        f"This reads like a passing event (“{signal}”), which does not belong in the vault. Put it into the burst journal "
        "instead: vault.journal(text), or `lukasa vault journal TEXT`. If it is meant to last, say what is always true.",
        {"signal": signal, "place": "journal"},
    )


def log_tier(proposal: Proposal, _: Rules, __: Reach) -> Refused | None:
    if proposal.tier != LOG:
        return None
    return Refused(
        "log_tier",
        "The vault keeps no log tier. Put it into the burst journal instead: vault.journal(text), or "
        "`lukasa vault journal TEXT`.",
        {"place": "journal"},
    )


def length(proposal: Proposal, rules: Rules, _: Reach) -> Refused | None:
    if len(proposal.text) <= rules.longest:
        return None
    return Refused(
        "too_long",
        f"The text has {len(proposal.text):,} characters; a memory holds at most {rules.longest:,}. "
        "Compress it, or split it into several facts.",
        {"characters": len(proposal.text), "most": rules.longest},
    )


def scope(proposal: Proposal, rules: Rules, reach: Reach) -> Refused | None:
    asked: object = proposal.scope
    if not isinstance(asked, str) or not _plain(asked, 200):
        return Refused("bad_scope", "The scope must be short plain text.")
    if asked != SYSTEM and reach.writes(asked) and (rules.scopes is None or asked in rules.scopes):
        return None
    return Refused("bad_scope", f"{asked!r:.80} is not a scope this vault can write to.{_known(rules, reach)}")


def tier(proposal: Proposal, _: Rules, __: Reach) -> Refused | None:
    if proposal.tier in TIERS:
        return None
    return Refused("bad_tier", f"{proposal.tier!r:.80} is not a tier; say one of {', '.join(TIERS)}.")


def source(proposal: Proposal, rules: Rules, _: Reach) -> Refused | None:
    if proposal.source is None or proposal.source in rules.sources:
        return None
    return Refused("bad_source", f"{proposal.source!r:.80} is not a source; say one of {', '.join(rules.sources)}.")


def names(proposal: Proposal, _: Rules, __: Reach) -> Refused | None:
    """Category, topic, tags and author are short plain text."""
    if not _plain(proposal.category, _LONGEST_NAME):
        return Refused("bad_category", f"The category must be plain text of 1 to {_LONGEST_NAME} characters.")
    if proposal.topic_id is not None and not _plain(proposal.topic_id, _LONGEST_TOPIC):
        return Refused("bad_topic", f"The topic must be plain text of 1 to {_LONGEST_TOPIC} characters.")
    tags: object = proposal.tags
    if not isinstance(tags, tuple) or len(tags) > _MOST_TAGS or not all(_plain(tag, _LONGEST_NAME) for tag in tags):
        return Refused(
            "bad_tags", f"Tags are at most {_MOST_TAGS} pieces of plain text, each of 1 to {_LONGEST_NAME} characters."
        )
    if proposal.author.__class__ is not str or (proposal.author and not _plain(proposal.author, 200)):
        return Refused("bad_author", "The author must be short plain text.")
    return None


def personal(proposal: Proposal, rules: Rules, _: Reach) -> Refused | None:
    """The refusal names what was found, never the value; nothing of the text is kept."""
    return guarded("\n".join((proposal.text, *_told(proposal)))) if rules.handling(KIND) == "block" else None


CHECKS: tuple[Check, ...] = (text, noise, log_tier, length, scope, tier, source, names, personal)


def objection(proposal: Proposal, rules: Rules, reach: Reach) -> Refused | None:
    """The first check's refusal, if there is one."""
    return next((refused for check in CHECKS if (refused := check(proposal, rules, reach)) is not None), None)


def guarded(said: str) -> Refused | None:
    """A refusal if there is anything personal or secret in a text."""
    if not (found := scan(said)):
        return None
    return Refused(
        "pii",
        f"This holds what looks like {named(found)}. The vault does not keep that, and nothing of it was kept. "
        "Leave it out, and say where it can be found instead.",
        {"classes": sorted({spotted.sort for spotted in found})},
    )


def without_secrets(proposal: Proposal, rules: Rules) -> Proposal:
    """The proposal as it may be kept where the policy is to redact."""
    return replace(proposal, text=redacted(proposal.text)) if rules.handling(KIND) == "redact" else proposal


def _told(proposal: Proposal) -> tuple[str, ...]:
    return (proposal.category, *((proposal.topic_id,) if proposal.topic_id else ()), *proposal.tags)


def _plain(value: object, longest: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= longest and value.isprintable() and bool(value.strip())


def _known(rules: Rules, reach: Reach) -> str:
    known = rules.scopes if rules.scopes is not None else reach.writable
    return "" if known is None else f" Known are: {', '.join(sorted(known))}."
