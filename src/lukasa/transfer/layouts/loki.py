"""The tree of ``.loki/memory/``: episodes, knowledge, skills, ledgers, handoffs and learnings as files.

    episodic/2026-01-06/task-001.json   one episode            episodic/index.json   all of them, in one line each
    semantic/patterns.json  anti-patterns.json  facts.json     lists; links.json: every link between them
    skills/*.md   ledgers/*.json   handoffs/*.json   learnings/2026-01-06.json

Reading takes what is there and says what it could not take, file by file. Read again, it adds nothing. What the files
spell comes out the same, fields nobody knows included.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lukasa import canonical_json
from lukasa.clock import Clock, IdMaker
from lukasa.errors import FormatError, InvalidInput
from lukasa.experience.consolidation.clusters import EpisodeError, clean_text
from lukasa.experience.episodes import EPISODE, Episode, Episodes
from lukasa.experience.handoffs import HANDOFF, Handoff, Handoffs
from lukasa.experience.knowledge import (
    ANTIPATTERN,
    FACT,
    INVERSE_RELATIONS,
    KNOWLEDGE_KINDS,
    PATTERN,
    Knowledge,
    KnowledgeItem,
    kind_from_id,
    parse_links,
)
from lukasa.experience.ledgers import LEDGER, Ledger, Ledgers
from lukasa.experience.skills import SKILL, Skill, Skills, file_stem
from lukasa.journal import Journal
from lukasa.outcome import Accepted, Outcome
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record, draft_from
from lukasa.storage.engine import Query, Reader
from lukasa.storage.files import atomic_write
from lukasa.transfer.layouts import LayoutImportResult

LEARNING = "learning"
ORIGIN = "import"
_MAX_FILE_BYTES = 64_000_000
_BATCH_SIZE = 500
_DATED_ID = re.compile(r"ep-(\d{4}-\d\d-\d\d)-(\d+)")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_NO_ID_LABEL = "unnamed=yes"
_SEMANTIC_FILES = {"patterns": PATTERN, "anti-patterns": ANTIPATTERN, "facts": FACT}


def read(journal: Journal, clock: Clock, new_id: IdMaker, source: Path, scope: str) -> LayoutImportResult:
    """Takes in a tree: the folder itself, or the one that holds ``.loki/memory``."""
    root = _find_root(source)
    reading = _LokiImporter(journal, clock, new_id, root, scope)
    for part in (
        reading.import_episodes,
        reading.import_knowledge,
        reading.import_skills,
        reading.import_teamwork,
        reading.import_learnings,
    ):
        part()
    return reading.result


def _find_root(source: Path) -> Path:
    for place in (source / ".loki" / "memory", source / "memory", source):
        if any(
            (place / name).is_dir() for name in ("episodic", "semantic", "skills", "ledgers", "handoffs", "learnings")
        ):
            return place
    if not source.exists():
        raise FileNotFoundError(2, "No such folder", str(source))
    raise FormatError(f"{source} is not a .loki/memory tree: it has none of its folders.")


class _LokiImporter:
    """One tree on its way in."""

    def __init__(self, journal: Journal, clock: Clock, new_id: IdMaker, root: Path, scope: str) -> None:
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._root = root
        self._scope = scope
        self.result = LayoutImportResult()

    def import_episodes(self) -> None:
        room = Episodes(self._journal, self._clock)
        batch: list[tuple[str, dict[str, Any]]] = []

        def flush() -> None:
            outcome = room.add([told for _, told in batch], scope=self._scope, origin=ORIGIN)
            if isinstance(outcome, Accepted):
                self.result.added += len(outcome.records)
                self.result.present += len(batch) - len(outcome.records)
            else:
                for name, told in batch:
                    self._add_outcome(name, room.add([told], scope=self._scope, origin=ORIGIN))
            batch.clear()

        for name, told in self._read_objects("episodic/**/*.json", skip="index.json"):
            batch.append((name, told if told.get("id") else {**told, "id": _episode_id(name)}))
            if len(batch) >= _BATCH_SIZE:
                flush()
        if batch:
            flush()

    def import_knowledge(self) -> None:
        room = Knowledge(self._journal, self._clock, self._new_id)
        for stem, kind in _SEMANTIC_FILES.items():
            for name, told in self._read_objects(f"semantic/{stem}.json", list_name=stem.replace("-", "_")):
                id = told.get("id") or _generate_id(kind, told)
                if not isinstance(id, str):
                    self.result.refused.append((name, "The id must be text."))
                    continue
                labels = () if "id" in told else (_NO_ID_LABEL,)
                outcome = room.add(
                    kind, _with_fact_field(kind, told), id=id, scope=self._scope, origin=ORIGIN, labels=labels
                )
                self._add_outcome(name, outcome)
        self._import_links()

    def _import_links(self) -> None:
        """Links of their own file, and the inverses that links between patterns lack."""
        spelled: dict[Key, list[Link]] = {}
        for name, told in self._read_objects("semantic/links.json", list_name="links"):
            start = told.get("from")
            links = parse_links({"links": [told]}, self._scope)
            if isinstance(start, str) and start and isinstance(links, list):
                spelled.setdefault(Key(self._scope, kind_from_id(start), start), []).extend(links)
            else:
                self.result.refused.append((name, "A link needs from, to and a relation of the seven."))
        outcome = self._journal.append_if(lambda reader: _drafts_with_links(reader, self._scope, spelled))
        self.result.added += len(outcome.records) if isinstance(outcome, Accepted) else 0

    def import_skills(self) -> None:
        room = Skills(self._journal, self._clock)
        for path in self._list_files("skills/*.md"):
            name = str(path.relative_to(self._root))
            try:
                text = path.read_bytes().decode("utf-8")
            except UnicodeDecodeError as error:
                self.result.refused.append((name, f"not UTF-8 at byte {error.start}"))
                continue
            self._add_outcome(name, room.add(text, id=path.stem, scope=self._scope, origin=ORIGIN))

    def import_teamwork(self) -> None:
        ledgers, handoffs = Ledgers(self._journal, self._clock), Handoffs(self._journal, self._clock)
        for name, told in self._read_objects("ledgers/*.json"):
            self._add_outcome(name, ledgers.put(told, scope=self._scope, origin=ORIGIN))
        for name, told in self._read_objects("handoffs/*.json"):
            named = told if told.get("id") else {**told, "id": Path(name).stem}
            self._add_outcome(name, handoffs.put(named, scope=self._scope, origin=ORIGIN))

    def import_learnings(self) -> None:
        for name, told in self._read_objects("learnings/*.json", list_name="learnings"):
            day = Path(name).stem
            found = told.get("antipattern")
            mark = found.removeprefix("anti-") if isinstance(found, str) and found else _short_digest(told)
            body = {**told, "date": day}
            labels = (f"day={day}",) if _DAY.fullmatch(day) else ()
            episodes = told.get("episodes", [])
            cited = [id for id in episodes if isinstance(id, str) and id] if isinstance(episodes, list) else []
            links = tuple(Link(DERIVED_FROM, Key(self._scope, EPISODE, id)) for id in cited[:200])
            draft = Draft(
                LEARNING,
                body=body,
                id=f"{day}-{mark}"[:200],
                scope=self._scope,
                origin=ORIGIN,
                labels=labels,
                links=links,
            )
            self._add_outcome(name, self._journal.append_if(_append_if_missing(draft)))

    # Files

    def _list_files(self, pattern: str) -> Iterator[Path]:
        for path in sorted(self._root.glob(pattern)):
            name = str(path.relative_to(self._root))
            if path.is_symlink() or not path.is_file():
                self.result.refused.append((name, "not a plain file"))
            elif path.stat().st_size > _MAX_FILE_BYTES:
                self.result.refused.append((name, f"larger than {_MAX_FILE_BYTES:,} bytes"))
            else:
                yield path

    def _read_objects(
        self, pattern: str, *, list_name: str = "", skip: str = ""
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """The JSON objects of the matching files: a file is one, a list of them, or holds such a list under a name."""
        for path in self._list_files(pattern):
            if path.name == skip:
                continue
            name = str(path.relative_to(self._root))
            try:
                found = canonical_json.decode(path.read_bytes())
            except InvalidInput as error:
                self.result.refused.append((name, error.message))
                continue
            if isinstance(found, dict) and list_name and isinstance(found.get(list_name), list):
                found = found[list_name]
            for one in found if isinstance(found, list) else [found]:
                if isinstance(one, dict):
                    yield name, one
                else:
                    self.result.refused.append((name, f"an entry is not an object: {one!r:.60}"))

    def _add_outcome(self, name: str, outcome: Outcome) -> None:
        if isinstance(outcome, Accepted):
            self._count_accepted(outcome)
        else:
            self.result.refused.append((name, outcome.reason))

    def _count_accepted(self, outcome: Outcome) -> None:
        if isinstance(outcome, Accepted):
            self.result.added += len(outcome.records)
            self.result.present += not outcome.records


def _drafts_with_links(reader: Reader, scope: str, links_by_key: Mapping[Key, list[Link]]) -> list[Draft]:
    """The records that lack a link: one of their own file, or the inverse of another's."""
    records = {record.key: record for record in reader.read(Query(kinds=KNOWLEDGE_KINDS, scopes=(scope,)))}
    wanted: dict[Key, dict[Link, None]] = {key: dict.fromkeys(links) for key, links in links_by_key.items()}
    for record in records.values():
        for link in (*record.links, *links_by_key.get(record.key, ())):
            if (inverse := INVERSE_RELATIONS.get(link.relation)) is not None:
                wanted.setdefault(link.to, {})[Link(inverse, record.key)] = None
    drafts = []
    for key, links in wanted.items():
        known = records.get(key)
        lacking = [link for link in links if known is not None and link not in known.links]
        if known is not None and lacking:
            drafts.append(draft_from(known, links=(*known.links, *lacking), expected=known.version))
    return drafts


def _append_if_missing(draft: Draft) -> Callable[[Reader], list[Draft]]:
    def condition(reader: Reader) -> list[Draft]:
        known = reader.get(draft.key)
        return [] if known is not None and known.body == draft.body else [draft]

    return condition


def _with_fact_field(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    """A fact may be spelled under another name; what it says is needed."""
    if kind != FACT or "fact" in fields:
        return fields
    said = next((fields[name] for name in ("text", "statement", "content") if isinstance(fields.get(name), str)), None)
    return fields if said is None else {**fields, "fact": said}


def _episode_id(name: str) -> str:
    """An id for an episode that has none, the same each time: its day and the number of its file."""
    path = Path(name)
    number = re.search(r"(\d+)$", path.stem)
    day = path.parent.name
    if _DAY.fullmatch(day) and number:
        return f"ep-{day}-{int(number[1]):03d}"
    return f"ep-{_short_digest(name)}"


def _generate_id(kind: str, fields: Mapping[str, Any]) -> str:
    prefix = {PATTERN: "sem", ANTIPATTERN: "anti", FACT: "fact"}[kind]
    if kind == ANTIPATTERN and isinstance(fields.get("what_fails"), str):  # as consolidation names the same error
        return EpisodeError(clean_text(fields["what_fails"]), clean_text(fields.get("why", "")), "").id
    said = {name: fields[name] for name in ("pattern", "what_fails", "why", "fact", "text") if name in fields} or fields
    return f"{prefix}-{_short_digest(said)}"


def _short_digest(value: Any) -> str:
    return hashlib.sha256(canonical_json.encode(value)).hexdigest()[:12]


# Out


def write(journal: Journal, target: Path, scope: str) -> int:
    """Writes the tree of one scope; returns the number of records. Files of other names are left alone."""
    writing = _LokiExporter(journal, target, scope)
    return (
        writing.export_episodes()
        + writing.export_knowledge()
        + writing.export_skills()
        + writing.export_teamwork()
        + writing.export_learnings()
    )


class _LokiExporter:
    """One tree on its way out."""

    def __init__(self, journal: Journal, root: Path, scope: str) -> None:
        self._journal = journal
        self._root = root
        self._scope = scope

    def _read_records(self, kind: str) -> Iterator[Record]:
        return self._journal.read(Query(kinds=(kind,), scopes=(self._scope,)))

    def export_episodes(self) -> int:
        index = []
        for record in self._read_records(EPISODE):
            episode = Episode(record)
            path = f"episodic/{episode.day}/{_episode_file_name(episode)}.json"
            self._write_json(path, episode.as_json())
            told = {
                "task_id": episode.task_id,
                "agent": episode.agent,
                "outcome": episode.outcome,
                "goal": episode.goal,
            }
            index.append({"id": episode.id, "timestamp": record.body["timestamp"], **told, "path": path})
        if index:
            index.sort(key=lambda entry: (entry["timestamp"], entry["id"]))
            self._write_json("episodic/index.json", {"episodes": index})
        return len(index)

    def export_knowledge(self) -> int:
        links: list[dict[str, str]] = []
        count = 0
        for stem, kind in _SEMANTIC_FILES.items():
            items = [KnowledgeItem(record) for record in self._read_records(kind)]
            told = [_item_to_json(item) for item in items]
            links += [{"from": item.id, **link} for item in items for link in item.as_json().get("links", ())]
            if told:
                self._write_json(f"semantic/{stem}.json", told)
            count += len(told)
        if links:
            self._write_json("semantic/links.json", links)
        return count

    def export_skills(self) -> int:
        count = 0
        for record in self._read_records(SKILL):
            self._write_bytes(f"skills/{file_stem(record.id)}.md", Skill(record).markdown.encode())
            count += 1
        return count

    def export_teamwork(self) -> int:
        count = 0
        for record in self._read_records(LEDGER):
            self._write_json(f"ledgers/{file_stem(record.id)}.json", Ledger(record).as_json())
            count += 1
        for record in self._read_records(HANDOFF):
            self._write_json(f"handoffs/{file_stem(record.id)}.json", Handoff(record).as_json())
            count += 1
        return count

    def export_learnings(self) -> int:
        days: dict[str, list[dict[str, Any]]] = {}
        for record in self._read_records(LEARNING):
            told = {name: value for name, value in record.body.items() if name != "date"}
            days.setdefault(str(record.body.get("date", "")), []).append(told)
        for day, told_of_day in days.items():
            self._write_json(f"learnings/{file_stem(day)}.json", {"date": day, "learnings": told_of_day})
        return sum(map(len, days.values()))

    def _write_json(self, name: str, value: Any) -> None:
        self._write_bytes(name, json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n")

    def _write_bytes(self, name: str, data: bytes) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(data)


def _item_to_json(item: KnowledgeItem) -> dict[str, Any]:
    """An item as its file has it; an id that was only made up for it stays out."""
    told = item.as_json()
    return {name: value for name, value in told.items() if name != "id"} if _NO_ID_LABEL in item.record.labels else told


def _episode_file_name(episode: Episode) -> str:
    """``task-001`` for the first of a day; other ids name their file themselves."""
    dated = _DATED_ID.fullmatch(episode.id)
    return f"task-{dated[2]}" if dated and dated[1] == episode.day else file_stem(episode.id)
