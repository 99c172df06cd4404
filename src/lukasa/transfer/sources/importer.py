"""Writing the items of a source into a store: memories into the vault, turns into conversations, files for the memory tool.

Every item has an identity in its source, and an item whose identity is known is not written again, also if it was changed or
forgotten here since. So an import can be repeated, and one that was interrupted goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from lukasa.context import Conversations
from lukasa.core.outcome import Accepted, Refused
from lukasa.core.record import Draft, Key
from lukasa.journal import Journal
from lukasa.pii.detector import describe_findings, find_pii, redact_text
from lukasa.storage.engine import Progress, Reader
from lukasa.transfer.sources import SourceConversation, SourceFile, SourceItem, SourceMemory, Unreadable
from lukasa.vault import Vault
from lukasa.vault.checks import default_tier
from lukasa.vault.settings import MEMORY_KIND

MEMORY_FILE = "memory_file"
"""The kind of record that the adapter to Anthropic's memory tool reads."""
_MEMORIES_AT_ONCE = 500
_TURNS_AT_ONCE = 100


@dataclass(slots=True)
class SourceImportResult:
    """What an import added, found present and refused: the place in the source, the code and the reason."""

    format: str
    memories: int = 0
    conversations: int = 0
    turns: int = 0
    files: int = 0
    present: int = 0
    redacted: int = 0
    """Turns in which personal data or secrets were replaced by their class."""
    refusals: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def added(self) -> int:
        """The number of memories, turns and files."""
        return self.memories + self.turns + self.files

    @property
    def refused(self) -> list[tuple[str, str]]:
        """The refused items: where, and the reason."""
        return [(where, reason) for where, _, reason in self.refusals]


class SourceImport:
    """One import into one scope of a store. ``pii`` says for a kind how personal data is handled, as a profile does."""

    def __init__(
        self,
        format: str,
        journal: Journal,
        vault: Vault,
        conversations: Conversations,
        scope: str,
        pii: Mapping[str, str],
    ) -> None:
        self.result = SourceImportResult(format)
        self._journal = journal
        self._vault = vault
        self._conversations = conversations.within(scope)
        self._scope = scope
        self._pii = pii
        self._waiting: list[SourceMemory] = []

    def run(self, items: Iterable[SourceItem], progress: Progress | None = None) -> SourceImportResult:
        """Write every item."""
        for number, item in enumerate(items, 1):
            match item:
                case Unreadable():
                    self.result.refusals.append((item.where, "unreadable", item.reason))
                case SourceMemory():
                    self._waiting.append(item)
                    if len(self._waiting) >= _MEMORIES_AT_ONCE:
                        self._write_memories()
                case SourceConversation():
                    self._write_turns(item)
                case SourceFile():
                    self._write_file(item)
            if progress is not None:
                progress(number, 0)
        self._write_memories()
        return self.result

    def _write_memories(self) -> None:
        items, self._waiting = self._waiting, []
        tier = default_tier(self._vault.rules, self._journal.reach)
        moved = [replace(item.memory, scope=self._scope, tier=tier) for item in items]
        with self._journal.snapshot() as reader:
            is_known = [bool(reader.history(Key(self._scope, MEMORY_KIND, memory.id))) for memory in moved]
        new = {
            memory.id: (item.where, memory)
            for item, memory, known in zip(items, moved, is_known, strict=True)
            if not known
        }
        self.result.present += len(items) - len(new)
        answers = self._vault.restore([memory] for _, memory in new.values())
        for (where, _), answer in zip(new.values(), answers, strict=True):
            if isinstance(answer, Refused):
                self.result.refusals.append((where, answer.code, answer.reason))
            else:
                self.result.memories += 1

    def _write_turns(self, item: SourceConversation) -> None:
        known = {turn.extra.get("uuid") for turn in self._conversations.transcript(item.session_id)}
        new = [self._clean(turn) for turn in item.turns if turn["uuid"] not in known]
        self.result.present += len(item.turns) - len(new)
        before = self.result.turns
        for start in range(0, len(new), _TURNS_AT_ONCE):
            chunk = new[start : start + _TURNS_AT_ONCE]
            if self._extend(item, chunk) is not None:
                for turn in chunk:  # a refused turn does not keep the others out
                    if (refused := self._extend(item, [turn])) is not None:
                        self.result.refusals.append((f"{item.where}, {turn['uuid']}", *refused))
        self.result.conversations += self.result.turns > before

    def _extend(self, item: SourceConversation, turns: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
        """Add turns in one batch; return the code and the reason if they are refused."""
        key = f"{turns[0]['uuid']}..{turns[-1]['uuid']}"
        outcome = self._conversations.extend(item.session_id, turns, key=key, origin="import")
        if isinstance(outcome, Accepted):
            self.result.turns += len(turns)
            return None
        return (outcome.code if isinstance(outcome, Refused) else "conflict"), outcome.reason

    def _clean(self, turn: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a turn without NUL characters, and without personal data unless the profile allows it."""
        text = str(turn["content"]).replace("\0", "")
        kept = redact_text(text) if self._pii.get("turn", "redact") == "redact" else text
        self.result.redacted += kept != text
        return {**turn, "content": kept}

    def _write_file(self, item: SourceFile) -> None:
        if self._pii.get(MEMORY_FILE) != "allow" and (found := find_pii(item.text)):
            reason = f"It holds what looks like {describe_findings(found)}. Remove it from the file, then import again."
            self.result.refusals.append((item.where, "pii", reason))
            return
        above = map(str, reversed(PurePosixPath(item.path).parents))
        folders = [path for path in above if path not in ("/", "/memories")]

        def draft(path: str, text: str | None) -> Draft:
            body = {"path": path, "is_folder": text is None}
            key = hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:24]
            return Draft(
                MEMORY_FILE,
                text or "",
                body,
                key,
                self._scope,
                origin="import",
                happened_at=item.modified_at,
                expected=0,
            )

        def add_file(reader: Reader) -> Sequence[Draft] | Refused:
            wanted = [*(draft(path, None) for path in folders), draft(item.path, item.text)]
            if reader.history(wanted[-1].key):
                return ()
            return [entry for entry in wanted if reader.get(entry.key) is None]

        outcome = self._journal.append_if(add_file)
        if not isinstance(outcome, Accepted):
            self.result.refusals.append((item.where, outcome.code, outcome.reason))
        elif outcome.records:
            self.result.files += 1
        else:
            self.result.present += 1
