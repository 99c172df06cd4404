"""Keeping skills, finding the ones that fit, and counting how they fare."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lukasa.canonical_json import SURROGATES
from lukasa.clock import Clock, to_iso
from lukasa.experience.skill_markdown import MAX_SKILL_CHARS, SkillText, parse_skill, render_skill
from lukasa.journal import Journal
from lukasa.outcome import Outcome, Refused
from lukasa.readable_ids import find_by_id
from lukasa.record import Draft, Key, Link, Record, draft_from
from lukasa.scope import SHARED
from lukasa.storage.engine import Query, Reader
from lukasa.storage.files import atomic_write

SKILL = "skill"
_SYNC_KIND = "skill_sync"
_NON_SLUG_CHARS = re.compile(r"[^a-z0-9]+")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_RESERVED_NAME = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as it stands in the log."""

    record: Record

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def title(self) -> str:
        return str(self.record.body["title"])

    @property
    def markdown(self) -> str:
        return str(self.record.body["markdown"])

    @property
    def steps(self) -> Sequence[str]:
        return self.record.body["steps"]  # type: ignore[no-any-return]  # JSON

    @property
    def successes(self) -> int:
        return int(self.record.body.get("successes", 0))

    @property
    def failures(self) -> int:
        return int(self.record.body.get("failures", 0))

    @property
    def success_rate(self) -> float | None:
        """The share of its uses that went well; ``None`` before the first."""
        used = self.successes + self.failures
        return self.successes / used if used else None


@dataclass(frozen=True, slots=True)
class SkillSyncResult:
    """What syncing a folder did: ids taken in, files written, what was left alone and why."""

    taken: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    faults: tuple[tuple[str, str], ...] = ()


class Skills:
    """How things are done, for one caller."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def add(
        self,
        skill: str | SkillText,
        *,
        id: str = "",
        scope: str = SHARED,
        origin: str = "manual",
        links: tuple[Link, ...] = (),
        labels: tuple[str, ...] = (),
    ) -> Outcome:
        """Keeps a skill, as Markdown or in parts. The id comes from the title if none is said; a known id gets a version."""
        markdown = skill if isinstance(skill, str) else render_skill(skill)
        if SURROGATES.search(markdown):
            return Refused("bad_unicode", "The skill has a lone surrogate, which is not valid Unicode.")
        told = parse_skill(markdown)
        if isinstance(told, list):
            lines = "; ".join(str(fault) for fault in told[:5]) + ("; …" if len(told) > 5 else "")
            found = [{"line": fault.line, "what": fault.what} for fault in told]
            return Refused("bad_skill", f"The skill cannot be read: {lines}.", {"faults": found})
        name = id or slugify(told.title)

        def build_drafts(reader: Reader) -> Sequence[Draft]:
            known = reader.get(Key(scope, SKILL, name))
            if known is not None and known.body["markdown"] == markdown:
                return []
            counts = {} if known is None else {field: known.body.get(field, 0) for field in ("successes", "failures")}
            kept = links or (() if known is None else known.links)
            draft = skill_draft(told, markdown, id=name, scope=scope, origin=origin, links=kept, labels=labels)
            return [draft._replace(body={**draft.body, **counts}, expected=0 if known is None else known.version)]

        return self._journal.append_if(build_drafts)

    def get(self, id: str, *, scope: str | None = None) -> Skill | None:
        with self._journal.snapshot() as reader:
            record = find_by_id(reader, (SKILL,), id, scope=scope, own_scope=self._journal.author)
        return None if record is None else Skill(record)

    def list(self) -> Sequence[Skill]:
        """Every skill, by id."""
        found = (Skill(record) for record in self._journal.read(Query(kinds=(SKILL,))))
        return sorted(found, key=lambda skill: (skill.id, skill.record.scope))

    def search(self, words: str, k: int = 5) -> Sequence[Skill]:
        """Skills by keyword, those that hold more of the telling words first; at a tie the one that fares better."""
        from lukasa.text.terms import extract_keywords, stem_word  # brings the database's own tokenizer

        wanted = {stem_word(word) for word in extract_keywords(words)} - {""}
        if not wanted:
            return []
        scored = []
        for match in self._journal.find(words, Query(kinds=(SKILL,), limit=max(50, 10 * k))):
            skill = Skill(match.record)
            titled = {stem_word(word) for word in extract_keywords(f"{skill.title} {skill.id}")}
            within = {stem_word(word) for word in extract_keywords(match.record.text)}
            hold = len(wanted & within) / len(wanted) + len(wanted & titled) / len(wanted)
            rate = 0.5 if skill.success_rate is None else skill.success_rate
            scored.append((-hold, -rate, skill.id, skill))
        return [skill for hold, _, _, skill in sorted(scored, key=lambda row: row[:3])[:k] if hold < 0]

    def record_use(self, id: str, success: bool, *, scope: str | None = None) -> Outcome:
        """Counts one use of a skill, and whether it went well."""

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            record = find_by_id(reader, (SKILL,), id, scope=scope, own_scope=self._journal.author)
            if record is None:
                return _not_found(id)
            field = "successes" if success else "failures"
            counts = {field: record.body.get(field, 0) + 1, "last_used": to_iso(self._clock.now())}
            return [draft_from(record, body={**record.body, **counts}, expected=record.version)]

        return self._journal.append_if(build_drafts)

    def delete(self, id: str, *, scope: str | None = None) -> Outcome:
        skill = self.get(id, scope=scope)
        return _not_found(id) if skill is None else self._journal.delete(skill.record.key)

    # A folder of files

    def sync(self, folder: str | Path, *, scope: str = SHARED) -> SkillSyncResult:
        """Brings a folder of ``.md`` files and the store to the same state, both ways.

        What changed on one side since the last sync goes to the other. What changed on both is left alone and named as
        a conflict. A file that cannot be read as a skill is left alone too. Nothing is deleted on either side.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        book = Key(scope, _SYNC_KIND, hashlib.sha256(str(place.resolve()).encode("utf-8", "replace")).hexdigest()[:32])
        kept = self._journal.get(book)
        base: dict[str, str] = dict(kept.body.get("synced", {})) if kept is not None else {}
        stored = {skill.id: skill for skill in self.list() if skill.record.scope == scope}
        found, faults = _read_files(place)
        named = {file_stem(id): id for id in stored}
        files = {named.get(name, name): text for name, text in found.items()}
        taken: list[str] = []
        written: list[str] = []
        conflicts: list[str] = []
        after: dict[str, str] = {}
        for id in sorted(set(stored) | set(files)):
            there, here = files.get(id), stored[id].markdown if id in stored else None
            if there not in (None, here) and here is not None and base.get(id) not in (_digest(there), _digest(here)):
                conflicts.append(id)
                continue
            if there is not None and there != here and (here is None or base.get(id) == _digest(here)):
                outcome = self.add(there, id=id, scope=scope, origin="import")
                if isinstance(outcome, Refused):
                    faults.append((f"{id}.md", outcome.reason))
                    continue
                taken.append(id)
                after[id] = _digest(there)
            elif here is not None:
                if there != here:
                    with atomic_write(place / f"{file_stem(id)}.md") as file:
                        file.write(here.encode())
                    written.append(id)
                after[id] = _digest(here)
        if after and base | after != base:
            self._journal.append(Draft(_SYNC_KIND, body={"synced": base | after}, id=book.id, scope=scope))
        return SkillSyncResult(tuple(taken), tuple(written), tuple(conflicts), tuple(sorted(faults)))


def skill_draft(text: SkillText, markdown: str, *, id: str, scope: str, **fields: Any) -> Draft:
    """The draft of a skill: its text word for word, and its parts beside it."""
    body = {
        "title": text.title,
        "prerequisites": list(text.prerequisites),
        "steps": list(text.steps),
        "common_errors": [{"error": error, "fix": fix} for error, fix in text.errors],
        "exit_criteria": list(text.criteria),
        "markdown": markdown,
    }
    return Draft(SKILL, markdown, body, id=id, scope=scope, **fields)


def slugify(title: str) -> str:
    """An id that is made of a title: ``API Endpoint Implementation`` is ``api-endpoint-implementation``."""
    plain = _NON_SLUG_CHARS.sub("-", title.lower()).strip("-")[:80].strip("-")
    return plain or "skill-" + _digest(title)[:12]


def file_stem(id: str) -> str:
    """A file name, without its ending, that is safe everywhere and belongs to this id alone."""
    if _FILE_NAME.fullmatch(id) and not _RESERVED_NAME.fullmatch(id) and not id.endswith("."):
        return id
    return f"{_NON_SLUG_CHARS.sub('-', id.lower()).strip('-')[:40] or 'id'}-{_digest(id)[:12]}"


def _read_files(folder: Path) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The Markdown files of a folder by id, and those that cannot be read, each with the reason."""
    found: dict[str, str] = {}
    faults: list[tuple[str, str]] = []
    for path in sorted(folder.glob("*.md")):
        if path.is_symlink() or not path.is_file():
            faults.append((path.name, "not a plain file"))
            continue
        if path.stat().st_size > 4 * MAX_SKILL_CHARS:
            faults.append((path.name, "too large for a skill"))
            continue
        try:
            found[path.stem] = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            faults.append((path.name, f"not UTF-8 at byte {error.start}"))
    return found, faults


def _digest(text: str | None) -> str:
    return hashlib.sha256((text or "").encode("utf-8", "surrogatepass")).hexdigest()


def _not_found(id: str) -> Refused:
    return Refused("not_found", f"There is no skill {id!r:.80}.")
