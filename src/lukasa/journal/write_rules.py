"""Who may write what: one rule for each kind of record, enforced under every way into the log.

A record enters the log through one of three channels: a **service** writes it (``memory.vault``, ``memory.episodes``, …), a caller writes
it **raw** (``journal.append``, the effect of a hub's acknowledgement), or a caller **imports** an entry of another log (import,
sync, restore). The owner of the store may use every channel, but nobody writes the store's own records raw; the owner may delete
them. For everybody else:

- a kind that the ``store`` writes comes through services alone, and its entries are brought by the owner alone;
- a kind that a ``service`` writes comes through it, or as the caller's own entry;
- a kind that ``anyone`` writes comes through every channel;
- the agent that a record names as the one who acts must be the caller (``KindSpec.agent_field``); a service may go on with what
  another agent began, in that agent's name;
- the author is the caller (``Journal.check_author``), and no link declares a statement of the owner superseded;
- a statement of the owner, or of an author who is trusted clearly more, is changed by that writer alone: a change by another
  agent becomes a proposal;
- a statement of another agent is deleted by that agent or the owner alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from lukasa.core import canonical_json
from lukasa.core.clock import from_iso, to_iso
from lukasa.core.outcome import Refused
from lukasa.core.record import DERIVED_FROM, Draft, Key, Link, Record
from lukasa.core.scope import SYSTEM
from lukasa.journal.gate import Gate, KindSpec
from lukasa.storage.engine import Reader

Channel = Literal["service", "raw", "import"]
PROPOSAL = "proposal"
MAX_TRUST_GAP = 0.2
"""How much less an author may be trusted than another whose statements it changes or supersedes."""
REPLACING_RELATIONS = frozenset(("supersedes", "superseded_by"))
MAX_OPEN_PROPOSALS = 100
"""How many proposals of one author may wait for the owner."""
_MAX_PROPOSED_CHARACTERS = 200_000

TrustOf = Callable[[Iterable[str]], Mapping[str, float]]
"""Returns how far each of some authors is trusted."""


class WriteRules:
    """Decides for one limited caller which drafts it may write through which channel."""

    def __init__(self, gate: Gate, author: str, trust_of: TrustOf) -> None:
        self._gate = gate
        self._author = author
        self._trust_of = trust_of

    def check_kind(self, draft: Draft, channel: Channel) -> Refused | None:
        """Refuse a draft of a kind that the caller may not write through a channel."""
        spec = self._gate.spec(draft.kind)
        if channel == "raw" and spec.written_by != "anyone":
            return refuse_kind(draft.kind)
        if channel == "import" and spec.written_by == "store":
            return Refused("not_allowed", f"Only the owner of the store imports records of kind {draft.kind!r}.")
        if channel != "service" and spec.agent_check is not None and not draft.deleted:
            return spec.agent_check(draft)
        return None

    def needs_look(self, draft: Draft, channel: Channel) -> bool:
        """Tell whether the store must be read to decide about a draft; for most drafts it need not be."""
        spec = self._gate.spec(draft.kind)
        if any(link.relation in REPLACING_RELATIONS for link in draft.links):
            return True
        if spec.agent_field and _named_agent(draft, spec) not in ("", self._author):
            return True
        if channel != "service":
            return bool(draft.id)
        return bool(draft.id) and draft.expected != 0 and (spec.is_statement or bool(spec.agent_field))

    def check_target(self, reader: Reader, draft: Draft, channel: Channel) -> Refused | None:
        """Refuse a draft that names another agent as the one who acts, or that changes what only others may change."""
        spec = self._gate.spec(draft.kind)
        known = reader.history(draft.key) if draft.id else []
        keeps_statement = bool(known) and _keeps_statement(known[-1], draft, spec)
        if spec.agent_field and not keeps_statement:
            now, before = (
                {_named_agent(record, spec) for record in records if not record.deleted}
                for records in ([draft], known[-1:])
            )
            if others := (now ^ before if channel == "service" else now | before) - {"", self._author}:
                return Refused(
                    "author_not_yours",
                    f"The record says that {min(others)!r:.80} acts ({spec.agent_field}); "
                    f"{self._author or 'this caller'!r} cannot say so. Leave the name out, or ask the owner of the store to write it.",
                )
        is_allowed = channel == "service" and (keeps_statement or not spec.is_statement)
        if known and not is_allowed and self._belongs_to_others(known):
            return Refused("needs_owner", f"{draft.key} is not {self._author or 'this caller'}'s to change.")
        for link in draft.links:
            if link.relation in REPLACING_RELATIONS and link.to != draft.key:
                target = reader.history(link.to)
                is_held = bool(known) and link in known[-1].links
                if target and self._belongs_to_others(target) and not is_held:
                    return Refused("needs_owner", f"{link.to} is not {self._author or 'this caller'}'s to supersede.")
        if draft.deleted and spec.is_statement and known and known[-1].author != self._author:
            return Refused("needs_owner", f"{draft.key} is another agent's work; only the owner deletes it for others.")
        return None

    def _belongs_to_others(self, history: Sequence[Record]) -> bool:
        """Tell whether the owner, or somebody who is trusted clearly more than the caller, wrote a version of a record."""
        authors = {record.author for record in history} - {self._author}
        if "" in authors:
            return True
        if not authors:
            return False
        trust = self._trust_of((self._author, *authors))
        return any(trust[name] > trust[self._author] + MAX_TRUST_GAP for name in authors if name in trust)


def refuse_kind(kind: str) -> Refused:
    return Refused(
        "service_kind", f"Records of kind {kind!r:.80} are written by a service of the store, not as raw records."
    )


def proposal_draft(drafts: Sequence[Draft], author: str, reason: str) -> Draft | None:
    """Return the proposal of changes that only others may make; ``None`` if they are too large for one.

    It lies in the scope of the records, or in the author's own if they have several, so that nobody sees a record beyond their reach. It
    is derived from the records, so that their erasure reaches it.
    """
    changes = []
    for draft in drafts:
        kept = {
            "kind": draft.kind, "id": draft.id, "scope": draft.scope, "text": draft.text, "body": dict(draft.body),
            "labels": list(draft.labels), "deleted": draft.deleted, "expected": draft.expected,
            "happened_at": None if draft.happened_at is None else to_iso(draft.happened_at),
            "links": [{"relation": link.relation, "scope": link.to.scope, "kind": link.to.kind, "id": link.to.id} for link in draft.links],
        }  # fmt: skip
        changes.append({name: value for name, value in kept.items() if value not in ("", [], {}, False, None)})
    body = {"state": "open", "by": author, "why": reason, "changes": changes}
    if len(encoded := canonical_json.encode(body)) > _MAX_PROPOSED_CHARACTERS:
        return None
    id = hashlib.sha256(encoded).hexdigest()[:16]
    scopes = {draft.scope for draft in drafts}
    links = dict.fromkeys(Link(DERIVED_FROM, draft.key) for draft in drafts if draft.id)
    return Draft(
        PROPOSAL, body=body, id=id, scope=scopes.pop() if len(scopes) == 1 else author or SYSTEM, author=author,
        origin="proposal", labels=("state=open",), links=tuple(links),
    )  # fmt: skip


def change_draft(change: Mapping[str, Any]) -> Draft:
    """Return the draft that a proposal keeps."""
    links = (Link(link["relation"], Key(link["scope"], link["kind"], link["id"])) for link in change.get("links", ()))
    return Draft(
        change["kind"], change.get("text", ""), change.get("body", {}), change.get("id", ""), change["scope"],
        happened_at=from_iso(change["happened_at"]) if "happened_at" in change else None, origin="proposal",
        labels=tuple(change.get("labels", ())), links=tuple(links), deleted=change.get("deleted", False),
        expected=change.get("expected"),
    )  # fmt: skip


def _named_agent(record: Draft | Record, spec: KindSpec) -> str:
    """Return the agent that a record says acts: the field of its body, or its id."""
    value = record.id if spec.agent_field == "id" else record.body.get(spec.agent_field)
    return value if isinstance(value, str) else ""


def _keeps_statement(known: Record, draft: Draft, spec: KindSpec) -> bool:
    """Tell whether a new version states the same as the known one: only fields and labels that anybody may change differ."""
    if draft.deleted or draft.text != known.text:
        return False
    if any(label.partition("=")[0] not in spec.open_fields for label in {*draft.labels} ^ {*known.labels}):
        return False
    names = (known.body.keys() | draft.body.keys()) - spec.open_fields
    return all(known.body.get(name) == draft.body.get(name) for name in names)
