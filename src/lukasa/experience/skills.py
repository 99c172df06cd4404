"""Skills: how a kind of task is done, found by keyword, with counts of success, and synchronised with a folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lukasa.core.argument_types import check_arguments
from lukasa.core.body_fields import count_field, list_field, text_field
from lukasa.core.canonical_json import SURROGATES
from lukasa.core.clock import Clock, to_iso
from lukasa.core.names import is_device_name, is_plain_name, make_slug
from lukasa.core.outcome import Outcome, Refused
from lukasa.core.record import Draft, Key, Link, Record, draft_from
from lukasa.core.scope import SHARED
from lukasa.experience.record_view import RecordView, change_by_id, not_found, read_by_id
from lukasa.experience.skill_markdown import MAX_SKILL_CHARS, SkillText, parse_skill, render_skill
from lukasa.journal import CallerService, Journal
from lukasa.storage.engine import Query, Reader
from lukasa.storage.files import open_output_file

SKILL = "skill"
_SYNC_KIND = "skill_sync"


@dataclass(frozen=True, slots=True)
class Skill(RecordView):
    """A skill, read from its record."""

    title = text_field("title")
    markdown = text_field("markdown")
    steps = list_field("steps")
    successes = count_field("successes")
    failures = count_field("failures")

    @property
    def success_rate(self) -> float | None:
        """The share of uses that succeeded; None before the first use."""
        used = self.successes + self.failures
        return self.successes / used if used else None


@dataclass(frozen=True, slots=True)
class SkillSyncResult:
    """Ids read from a folder, ids written to it, ids changed on both sides, and files that could not be read."""

    taken: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    faults: tuple[tuple[str, str], ...] = ()


@check_arguments
class Skills(CallerService):
    """The skill service of one caller."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def add(
        self, skill: str | SkillText, *, id: str = "", scope: str = SHARED, origin: str = "manual",
        links: tuple[Link, ...] = (), labels: tuple[str, ...] = (),
    ) -> Outcome:  # fmt: skip
        r"""Add a skill, as Markdown or in parts, or the next version of it. The id defaults to one made from the title.

        Args:
            skill: The Markdown of the skill, or its parts.
            id: The id; default: made from the title.
            scope: The scope to write to.
            origin: Where the record comes from, in one word.
            links: Links to other records.
            labels: Labels of the record.

        Example:
            memory.skills.add("# Deploy\n\n## Steps\n\n1. Run the migrations\n2. Restart the workers\n")
        """
        markdown = skill if isinstance(skill, str) else render_skill(skill)
        if SURROGATES.search(markdown):
            return Refused("bad_unicode", "The skill has a lone surrogate, which is not valid Unicode.")
        text = parse_skill(markdown)
        if isinstance(text, list):
            reasons = "; ".join(str(fault) for fault in text[:5]) + ("; …" if len(text) > 5 else "")
            faults = [{"line": fault.line, "what": fault.what} for fault in text]
            return Refused("bad_skill", f"The skill cannot be read: {reasons}.", {"faults": faults})
        name = id or slugify(text.title)

        def build_drafts(reader: Reader) -> Sequence[Draft]:
            known = reader.get(Key(scope, SKILL, name))
            if known is not None and known.body["markdown"] == markdown:
                return []
            counts = {} if known is None else {field: known.body.get(field, 0) for field in ("successes", "failures")}
            new_links = links or (() if known is None else known.links)
            draft = skill_draft(text, markdown, id=name, scope=scope, origin=origin, links=new_links, labels=labels)
            return [draft._replace(body={**draft.body, **counts}, expected=0 if known is None else known.version)]

        return self._journal.append_if(build_drafts)

    def get(self, id: str, *, scope: str | None = None) -> Skill | None:
        r"""Return a skill, or None.

        Args:
            id: The id of the skill.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.skills.add("# Deploy\n\n## Steps\n\n1. Run the migrations\n", id="deploy")
            skill = memory.skills.get("deploy")
            print(skill.title if skill else "no such skill")
        """
        record = read_by_id(self._journal, SKILL, id, scope)
        return None if record is None else Skill(record)

    def list(self) -> Sequence[Skill]:
        """Return all skills, sorted by id.

        Example:
            memory.skills.list()
        """
        found = (Skill(record) for record in self._journal.read(Query(kinds=(SKILL,))))
        return sorted(found, key=lambda skill: (skill.id, skill.record.scope))

    def search(self, words: str, k: int = 5) -> Sequence[Skill]:
        """Find skills by keyword: those with more of the keywords first, on a tie those with more success.

        Args:
            words: Keywords.
            k: How many to return at most.

        Example:
            memory.skills.search("deploy migrations", k=3)
        """
        wanted = keyword_stems(words)
        if not wanted:
            return []
        scored = []
        for match in self._journal.find(words, Query(kinds=(SKILL,), limit=max(50, 10 * k))):
            skill = Skill(match.record)
            matched = [wanted & keyword_stems(text) for text in (match.record.text, f"{skill.title} {skill.id}")]
            share = sum(map(len, matched)) / len(wanted)
            rate = 0.5 if skill.success_rate is None else skill.success_rate
            scored.append((-share, -rate, skill.id, skill))
        return [skill for share, _, _, skill in sorted(scored, key=lambda row: row[:3])[:k] if share < 0]

    def record_use(self, id: str, success: bool, *, scope: str | None = None) -> Outcome:
        r"""Count one use of a skill, as a success or a failure.

        Args:
            id: The id of the skill.
            success: Whether the skill helped.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.skills.add("# Deploy\n\n## Steps\n\n1. Run the migrations\n", id="deploy")
            memory.skills.record_use("deploy", success=True)
        """

        def build_counted(_: Reader, record: Record) -> Sequence[Draft]:
            field = "successes" if success else "failures"
            counts = {field: record.body.get(field, 0) + 1, "last_used": to_iso(self._clock.now())}
            draft = draft_from(record, body={**record.body, **counts}, expected=record.version)
            return [self._journal.revise(draft)]

        return change_by_id(self._journal, SKILL, id, build_counted, scope=scope)

    def delete(self, id: str, *, scope: str | None = None) -> Outcome:
        r"""Delete a skill. Its history stays.

        Args:
            id: The id of the skill.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.skills.add("# Deploy\n\n## Steps\n\n1. Run the migrations\n", id="deploy")
            memory.skills.delete("deploy")
        """
        record = read_by_id(self._journal, SKILL, id, scope)
        return not_found(SKILL, id) if record is None else self._journal.delete(record.key)

    def sync(self, folder: str | Path, *, scope: str = SHARED) -> SkillSyncResult:
        """Synchronise a folder of ``.md`` files with the store, both ways.

        A change on one side since the last sync goes to the other side. A skill that changed on both sides stays as it is
        and is reported as a conflict. A file that is not a readable skill stays too. Nothing is deleted on either side.

        Args:
            folder: The folder with the files.
            scope: The scope of the skills.

        Example:
            (folder / "skills").mkdir()
            memory.skills.sync(folder / "skills")
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        id = hashlib.sha256(os.path.realpath(folder).encode("utf-8", "replace")).hexdigest()[:32]
        previous = self._journal.get(Key(scope, _SYNC_KIND, id))
        synced: dict[str, str] = dict(previous.body.get("synced", {})) if previous is not None else {}
        skills = {skill.id: skill.markdown for skill in self.list() if skill.record.scope == scope}
        ids_by_stem = {file_stem(name): name for name in skills}
        files, faults = _read_files(folder)
        files = {ids_by_stem.get(stem, stem): text for stem, text in files.items()}
        taken, written, conflicts = list[str](), list[str](), list[str]()
        digests: dict[str, str] = {}
        unread = dict(faults)
        for name in sorted({*skills, *files}):
            if f"{file_stem(name)}.md" in unread:
                continue  # the file stays as it is
            in_file, in_store = files.get(name), skills.get(name)
            if in_file == in_store:
                digests[name] = _digest(in_store)
            elif in_file is not None and (in_store is None or synced.get(name) == _digest(in_store)):
                outcome = self.add(in_file, id=name, scope=scope, origin="import")
                if isinstance(outcome, Refused):
                    faults.append((f"{name}.md", outcome.reason))
                    continue
                taken.append(name)
                digests[name] = _digest(in_file)
            elif in_store is not None and (in_file is None or synced.get(name) == _digest(in_file)):
                with open_output_file(folder / f"{file_stem(name)}.md") as file:
                    file.write(in_store.encode())
                written.append(name)
                digests[name] = _digest(in_store)
            else:
                conflicts.append(name)
        if synced | digests != synced:
            self._journal.append(Draft(_SYNC_KIND, body={"synced": synced | digests}, id=id, scope=scope))
        return SkillSyncResult(tuple(taken), tuple(written), tuple(conflicts), tuple(sorted(faults)))


def skill_draft(text: SkillText, markdown: str, *, id: str, scope: str, **fields: Any) -> Draft:
    """Build the draft of a skill: its Markdown unchanged, and its parts as fields."""
    body = {
        "title": text.title, "prerequisites": list(text.prerequisites), "steps": list(text.steps),
        "common_errors": [{"error": error, "fix": fix} for error, fix in text.errors],
        "exit_criteria": list(text.criteria), "markdown": markdown,
    }  # fmt: skip
    return Draft(SKILL, markdown, body, id=id, scope=scope, **fields)


def keyword_stems(text: str, max_length: int = 10_000) -> set[str]:
    """Return the stems of a text's keywords; only its first ``max_length`` characters are read."""
    from lukasa.text.terms import extract_keywords, stem_word  # a slow import: it loads the database's tokenizer

    return {stem_word(word) for word in extract_keywords(text[:max_length])} - {""}


def slugify(title: str) -> str:
    """Make an id from a title: ``API Endpoint Implementation`` becomes ``api-endpoint-implementation``."""
    plain = make_slug(title.lower())[:80].strip("-")
    return plain or "skill-" + _digest(title)[:12]


def file_stem(id: str) -> str:
    """Return a file name without suffix that is safe on every system and unique to this id."""
    if is_plain_name(id, "._-", 100) and not is_device_name(id) and not id.endswith("."):
        return id
    return f"{make_slug(id.lower())[:40] or 'id'}-{_digest(id)[:12]}"


def _read_files(folder: Path) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Read the Markdown files of a folder by stem; return them and the files that cannot be read, with reasons."""
    texts: dict[str, str] = {}
    faults: list[tuple[str, str]] = []
    for path in sorted(folder.glob("*.md")):
        if path.is_symlink() or not path.is_file():
            faults.append((path.name, "not a plain file"))
        elif path.stat().st_size > 4 * MAX_SKILL_CHARS:
            faults.append((path.name, "too large for a skill"))
        else:
            try:
                texts[path.stem] = path.read_bytes().decode("utf-8")
            except UnicodeDecodeError as error:
                faults.append((path.name, f"not UTF-8 at byte {error.start}"))
    return texts, faults


def _digest(text: str | None) -> str:
    return hashlib.sha256((text or "").encode("utf-8", "surrogatepass")).hexdigest()
