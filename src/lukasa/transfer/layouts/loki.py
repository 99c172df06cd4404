"""The tree ``.loki/memory/``: episodes, knowledge, skills, ledgers, handoffs and learnings as files.

    episodic/2026-01-06/task-001.json   one episode            episodic/index.json   one line per episode
    semantic/patterns.json  anti-patterns.json  facts.json     lists; links.json: every link between them
    skills/*.md   ledgers/*.json   handoffs/*.json   learnings/2026-01-06.json

An import takes what it can read and reports the rest, file by file. A second import of the same tree adds nothing. An
export writes the imported fields unchanged, unknown fields included.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lukasa.core import canonical_json
from lukasa.core.choices import KNOWLEDGE_KINDS, KnowledgeKind
from lukasa.core.clock import Clock, IdMaker
from lukasa.core.outcome import Accepted
from lukasa.core.record import DERIVED_FROM, Draft, Key, Link, Record, draft_from
from lukasa.errors import FormatError, InvalidInput
from lukasa.experience.consolidation.clusters import EpisodeError, clean_text
from lukasa.experience.episodes import EPISODE, Episode, Episodes
from lukasa.experience.handoffs import HANDOFF, Handoff, Handoffs
from lukasa.experience.knowledge import (
    ANTIPATTERN,
    FACT,
    INVERSE_RELATIONS,
    PATTERN,
    Knowledge,
    KnowledgeItem,
    kind_from_id,
    parse_links,
)
from lukasa.experience.ledgers import LEDGER, Ledger, Ledgers
from lukasa.experience.skills import SKILL, Skill, Skills, file_stem
from lukasa.journal import Journal
from lukasa.storage.engine import Query, Reader, split_into_chunks
from lukasa.storage.files import open_output_file
from lukasa.transfer.layouts import LayoutImportResult, encode_json

LEARNING = "learning"
ORIGIN = "import"
_FOLDERS = ("episodic", "semantic", "skills", "ledgers", "handoffs", "learnings")
_MAX_FILE_BYTES = 64_000_000
_BATCH_SIZE = 500
_NO_ID_LABEL = "unnamed=yes"
_SEMANTIC_FILES: dict[str, KnowledgeKind] = {"patterns": PATTERN, "anti-patterns": ANTIPATTERN, "facts": FACT}
_ID_PREFIXES = {PATTERN: "sem", ANTIPATTERN: "anti", FACT: "fact"}


def read(journal: Journal, clock: Clock, new_id: IdMaker, source: Path, scope: str) -> LayoutImportResult:
    """Import a tree: the folder itself, or the folder that holds ``.loki/memory``."""
    for root in (source / ".loki" / "memory", source / "memory", source):
        if any((root / name).is_dir() for name in _FOLDERS):
            importer = _LokiImporter(journal, clock, root, scope)
            importer.import_episodes()
            importer.import_knowledge(new_id)
            importer.import_skills()
            importer.import_teamwork()
            importer.import_learnings()
            return importer.result
    if not source.exists():
        raise FileNotFoundError(2, "No such folder", str(source))
    raise FormatError(f"{source} is not a .loki/memory tree: it has none of its folders.")


class _LokiImporter:
    """The import of one tree."""

    def __init__(self, journal: Journal, clock: Clock, root: Path, scope: str) -> None:
        self._journal = journal
        self._clock = clock
        self._root = root
        self._scope = scope
        self.result = LayoutImportResult()
        self._names_by_key: dict[Key, tuple[str, Any]] = {}

    def import_episodes(self) -> None:
        episodes = Episodes(self._journal, self._clock)
        for batch in split_into_chunks(self._read_objects("episodic/**/*.json", skip="index.json"), _BATCH_SIZE):
            batch = [
                (name, fields if fields.get("id") else {**fields, "id": _episode_id(name)}) for name, fields in batch
            ]
            batch = [(name, item) for name, item in batch if self._is_first(name, EPISODE, item["id"], item)]
            items = [item for _, item in batch]
            outcome = episodes.add(items, scope=self._scope, origin=ORIGIN)
            if isinstance(outcome, Accepted):
                self.result.added += len(outcome.records)
                self.result.present += len(items) - len(outcome.records)
                continue
            for name, item in batch:  # find out which one is refused
                self.result.count(name, episodes.add([item], scope=self._scope, origin=ORIGIN))

    def import_knowledge(self, new_id: IdMaker) -> None:
        knowledge = Knowledge(self._journal, self._clock, new_id)
        for stem, kind in _SEMANTIC_FILES.items():
            for name, fields in self._read_objects(f"semantic/{stem}.json", list_name=stem.replace("-", "_")):
                id = fields.get("id") or _generate_id(kind, fields)
                if not isinstance(id, str):
                    self.result.refused.append((name, "The id must be text."))
                    continue
                if not self._is_first(name, kind, id, fields):
                    continue
                labels = () if "id" in fields else (_NO_ID_LABEL,)
                if kind == FACT and "fact" not in fields:  # other programs use another field name
                    texts = (fields.get(field) for field in ("text", "statement", "content"))
                    if (text := next((text for text in texts if isinstance(text, str)), None)) is not None:
                        fields = {**fields, "fact": text}
                known = self._journal.get(Key(self._scope, kind, id)) if isinstance(fields.get("links"), list) else None
                if known is not None:  # the links that another file or another item added stay
                    kept = (
                        {"to": link.to.id, "relation": link.relation}
                        for link in known.links
                        if link.relation != DERIVED_FROM
                    )
                    fields = {
                        **fields,
                        "links": [*fields["links"], *(link for link in kept if link not in fields["links"])],
                    }
                outcome = knowledge.add(kind, fields, id=id, scope=self._scope, origin=ORIGIN, labels=labels)
                self.result.count(name, outcome)
        self._import_links()

    def _import_links(self) -> None:
        """Add the links of ``links.json``, and the missing inverses of links between patterns."""
        links_by_key: dict[Key, list[Link]] = {}
        for name, fields in self._read_objects("semantic/links.json", list_name="links"):
            start = fields.get("from")
            links = parse_links({"links": [fields]}, self._scope)
            if isinstance(start, str) and start and isinstance(links, list):
                links_by_key.setdefault(Key(self._scope, kind_from_id(start), start), []).extend(links)
            else:
                self.result.refused.append((name, "A link needs from, to and a relation of the seven."))

        def add_lacking(reader: Reader) -> list[Draft]:
            query = Query(kinds=KNOWLEDGE_KINDS, scopes=(self._scope,))
            records = {record.key: record for record in reader.read(query)}
            wanted: dict[Key, dict[Link, None]] = {key: dict.fromkeys(links) for key, links in links_by_key.items()}
            for record in records.values():
                for link in (*record.links, *links_by_key.get(record.key, ())):
                    if (inverse := INVERSE_RELATIONS.get(link.relation)) is not None:
                        wanted.setdefault(link.to, {})[Link(inverse, record.key)] = None
            drafts = []
            for key, links in wanted.items():
                known = records.get(key)
                if known is not None and (lacking := [link for link in links if link not in known.links]):
                    draft = draft_from(known, links=(*known.links, *lacking), expected=known.version)
                    drafts.append(self._journal.revise(draft))
            return drafts

        outcome = self._journal.append_if(add_lacking)
        self.result.added += len(outcome.records) if isinstance(outcome, Accepted) else 0

    def import_skills(self) -> None:
        skills = Skills(self._journal, self._clock)
        for name, path in self._list_files("skills/*.md"):
            try:
                text = path.read_bytes().decode("utf-8")
            except UnicodeDecodeError as error:
                self.result.refused.append((name, f"not UTF-8 at byte {error.start}"))
                continue
            self.result.count(name, skills.add(text, id=path.stem, scope=self._scope, origin=ORIGIN))

    def import_teamwork(self) -> None:
        ledgers, handoffs = Ledgers(self._journal, self._clock), Handoffs(self._journal, self._clock)
        for name, fields in self._read_objects("ledgers/*.json"):
            self.result.count(name, ledgers.put(fields, scope=self._scope, origin=ORIGIN))
        for name, fields in self._read_objects("handoffs/*.json"):
            handoff = fields if fields.get("id") else {**fields, "id": Path(name).stem}
            self.result.count(name, handoffs.put(handoff, scope=self._scope, origin=ORIGIN))

    def import_learnings(self) -> None:
        for name, fields in self._read_objects("learnings/*.json", list_name="learnings"):
            day, antipattern, episodes = Path(name).stem, fields.get("antipattern"), fields.get("episodes", [])
            has_antipattern = isinstance(antipattern, str) and antipattern
            suffix = str(antipattern).removeprefix("anti-") if has_antipattern else _short_digest(fields)
            cited = [id for id in episodes if isinstance(id, str) and id] if isinstance(episodes, list) else []
            draft = Draft(
                LEARNING,
                body={**fields, "date": day},
                id=f"{day}-{suffix}"[:200],
                scope=self._scope,
                origin=ORIGIN,
                labels=(f"day={day}",) if _is_day(day) else (),
                links=tuple(Link(DERIVED_FROM, Key(self._scope, EPISODE, id)) for id in cited[:200]),
            )

            def append_if_missing(reader: Reader, draft: Draft = draft) -> list[Draft]:
                known = reader.get(draft.key)
                return [] if known is not None and known.body == draft.body else [draft]

            self.result.count(name, self._journal.append_if(append_if_missing))

    def _is_first(self, name: str, kind: str, id: Any, fields: Mapping[str, Any]) -> bool:
        """Return whether no other item of the tree had this id; refuse an item with the id and another content."""
        if not isinstance(id, str):
            return True
        key = Key(self._scope, kind, id)
        first_name, first_fields = self._names_by_key.setdefault(key, (name, fields))
        if first_fields is fields:
            return True
        if first_fields != fields:
            self.result.refused.append((name, f"{first_name} has another item with the id {key.id!r:.80}."))
        return False

    def _list_files(self, pattern: str) -> Iterator[tuple[str, Path]]:
        """Yield the matching files with their names in the tree; links and files that are too large are refused."""
        for path in sorted(self._root.glob(pattern)):
            name = str(path.relative_to(self._root))
            if path.is_symlink() or not path.is_file():
                self.result.refused.append((name, "not a plain file"))
            elif path.stat().st_size > _MAX_FILE_BYTES:
                self.result.refused.append((name, f"larger than {_MAX_FILE_BYTES:,} bytes"))
            else:
                yield name, path

    def _read_objects(
        self, pattern: str, *, list_name: str = "", skip: str = ""
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the JSON objects of the matching files. A file is one object, a list, or holds a list under a name."""
        for name, path in self._list_files(pattern):
            if path.name == skip:
                continue
            try:
                content = canonical_json.decode(path.read_bytes())
            except InvalidInput as error:
                self.result.refused.append((name, error.message))
                continue
            if isinstance(content, dict) and list_name and isinstance(content.get(list_name), list):
                content = content[list_name]
            for item in content if isinstance(content, list) else [content]:
                if isinstance(item, dict):
                    yield name, item
                else:
                    self.result.refused.append((name, f"an entry is not an object: {item!r:.60}"))


def _is_day(text: str) -> bool:
    """Tell whether a text is written as a day: ``2026-03-11``."""
    return [len(part) for part in text.split("-") if part.isascii() and part.isdecimal()] == [4, 2, 2] and len(
        text
    ) == 10


def _episode_id(name: str) -> str:
    """Return the id for an episode without one: the day and the number of its file, so it is the same every time."""
    path = Path(name)
    number = path.stem[len(path.stem.rstrip("0123456789")) :]
    if _is_day(path.parent.name) and number:
        return f"ep-{path.parent.name}-{int(number):03d}"
    return f"ep-{_short_digest(name)}"


def _generate_id(kind: str, fields: Mapping[str, Any]) -> str:
    """Return the id for an item without one, made from its content."""
    if kind == ANTIPATTERN and isinstance(
        fields.get("what_fails"), str
    ):  # consolidation gives this id to the same error
        return EpisodeError(clean_text(fields["what_fails"]), clean_text(fields.get("why", "")), "").id
    names = ("pattern", "what_fails", "why", "fact", "text")
    content = {name: fields[name] for name in names if name in fields} or fields
    return f"{_ID_PREFIXES[kind]}-{_short_digest(content)}"


def _short_digest(value: Any) -> str:
    return hashlib.sha256(canonical_json.encode(value)).hexdigest()[:12]


def write(journal: Journal, target: Path, scope: str) -> int:
    """Write the tree of one scope; return the number of records. Other files in the folder stay as they are."""
    exporter = _LokiExporter(journal, target, scope)
    exporter.export_episodes()
    exporter.export_knowledge()
    exporter.export_documents()
    exporter.export_learnings()
    return exporter.count


class _LokiExporter:
    """The export of one tree. ``count`` is the number of exported records."""

    def __init__(self, journal: Journal, root: Path, scope: str) -> None:
        self._journal = journal
        self._root = root
        self._scope = scope
        self.count = 0

    def _read_records(self, kind: str) -> Iterator[Record]:
        for record in self._journal.read(Query(kinds=(kind,), scopes=(self._scope,))):
            self.count += 1
            yield record

    def export_episodes(self) -> None:
        index = []
        for record in self._read_records(EPISODE):
            episode = Episode(record)
            number = episode.id.removeprefix(f"ep-{episode.day}-")
            is_dated = number != episode.id and number.isascii() and number.isdecimal()
            stem = f"task-{number}" if is_dated else file_stem(episode.id)
            path = f"episodic/{episode.day}/{stem}.json"
            self._write(path, encode_json(episode.as_json()))
            entry = {
                "id": episode.id,
                "timestamp": record.body["timestamp"],
                "task_id": episode.task_id,
                "agent": episode.agent,
                "outcome": episode.outcome,
                "goal": episode.goal,
                "path": path,
            }
            index.append(entry)
        if index:
            index.sort(key=lambda entry: (entry["timestamp"], entry["id"]))
            self._write("episodic/index.json", encode_json({"episodes": index}))

    def export_knowledge(self) -> None:
        links: list[dict[str, str]] = []
        for stem, kind in _SEMANTIC_FILES.items():
            items = []
            for record in self._read_records(kind):
                fields = KnowledgeItem(record).as_json()
                links += [{"from": record.id, **link} for link in fields.get("links", ())]
                if _NO_ID_LABEL in record.labels:  # the id was generated by the import
                    fields = {name: value for name, value in fields.items() if name != "id"}
                items.append(fields)
            if items:
                self._write(f"semantic/{stem}.json", encode_json(items))
        if links:
            self._write("semantic/links.json", encode_json(links))

    def export_documents(self) -> None:
        """Export skills, ledgers and handoffs: one file per record."""
        for record in self._read_records(SKILL):
            self._write(f"skills/{file_stem(record.id)}.md", Skill(record).markdown.encode())
        for record in self._read_records(LEDGER):
            self._write(f"ledgers/{file_stem(record.id)}.json", encode_json(Ledger(record).as_json()))
        for record in self._read_records(HANDOFF):
            self._write(f"handoffs/{file_stem(record.id)}.json", encode_json(Handoff(record).as_json()))

    def export_learnings(self) -> None:
        days: dict[str, list[dict[str, Any]]] = {}
        for record in self._read_records(LEARNING):
            fields = {name: value for name, value in record.body.items() if name != "date"}
            days.setdefault(str(record.body.get("date", "")), []).append(fields)
        for day, learnings in days.items():
            self._write(f"learnings/{file_stem(day)}.json", encode_json({"date": day, "learnings": learnings}))

    def _write(self, name: str, data: bytes) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_output_file(path) as file:
            file.write(data)
