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

from lukasa import canonical
from lukasa.blob import replacing
from lukasa.clock import Clock, IdMaker
from lukasa.consolidation.traits import Trouble, piece
from lukasa.engine import Query, Reader
from lukasa.episodes import EPISODE, Episode, Episodes
from lukasa.errors import FormatError, InvalidInput
from lukasa.formats import Taken
from lukasa.journal import Journal
from lukasa.knowledge import ANTIPATTERN, FACT, KINDS, PATTERN, Knowing, Knowledge
from lukasa.knowledge.items import INVERSE, kind_of, links_in
from lukasa.outcome import Accepted, Outcome
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record, redraft
from lukasa.skills import SKILL, Skill, Skills
from lukasa.skills.room import file_name
from lukasa.teamwork import HANDOFF, LEDGER, Handoff, Handoffs, Ledger, Ledgers

LEARNING = "learning"
ORIGIN = "import"
_LARGEST = 64_000_000
_BATCH = 500
_DATED = re.compile(r"ep-(\d{4}-\d\d-\d\d)-(\d+)")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_UNNAMED = "unnamed=yes"
_SEMANTIC = {"patterns": PATTERN, "anti-patterns": ANTIPATTERN, "facts": FACT}


def read(journal: Journal, clock: Clock, new_id: IdMaker, source: Path, scope: str) -> Taken:
    """Takes in a tree: the folder itself, or the one that holds ``.loki/memory``."""
    root = _root(source)
    reading = _Reading(journal, clock, new_id, root, scope)
    for part in (reading.episodes, reading.knowledge, reading.skills, reading.teamwork, reading.learnings):
        part()
    return reading.taken


def _root(source: Path) -> Path:
    for place in (source / ".loki" / "memory", source / "memory", source):
        if any(
            (place / name).is_dir() for name in ("episodic", "semantic", "skills", "ledgers", "handoffs", "learnings")
        ):
            return place
    if not source.exists():
        raise FileNotFoundError(2, "No such folder", str(source))
    raise FormatError(f"{source} is not a .loki/memory tree: it has none of its folders.")


class _Reading:
    """One tree on its way in."""

    def __init__(self, journal: Journal, clock: Clock, new_id: IdMaker, root: Path, scope: str) -> None:
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._root = root
        self._scope = scope
        self.taken = Taken()

    def episodes(self) -> None:
        room = Episodes(self._journal, self._clock)
        batch: list[tuple[str, dict[str, Any]]] = []

        def flush() -> None:
            outcome = room.add([told for _, told in batch], scope=self._scope, origin=ORIGIN)
            if isinstance(outcome, Accepted):
                self.taken.added += len(outcome.records)
                self.taken.present += len(batch) - len(outcome.records)
            else:
                for name, told in batch:
                    self._note(name, room.add([told], scope=self._scope, origin=ORIGIN))
            batch.clear()

        for name, told in self._objects("episodic/**/*.json", skip="index.json"):
            batch.append((name, told if told.get("id") else {**told, "id": _episode_id(name)}))
            if len(batch) >= _BATCH:
                flush()
        if batch:
            flush()

    def knowledge(self) -> None:
        room = Knowledge(self._journal, self._clock, self._new_id)
        for stem, kind in _SEMANTIC.items():
            for name, told in self._objects(f"semantic/{stem}.json", within=stem.replace("-", "_")):
                id = told.get("id") or _made_id(kind, told)
                if not isinstance(id, str):
                    self.taken.refused.append((name, "The id must be text."))
                    continue
                labels = () if "id" in told else (_UNNAMED,)
                outcome = room.add(kind, _named(kind, told), id=id, scope=self._scope, origin=ORIGIN, labels=labels)
                self._note(name, outcome)
        self._links()

    def _links(self) -> None:
        """Links of their own file, and the inverses that links between patterns lack."""
        spelled: dict[Key, list[Link]] = {}
        for name, told in self._objects("semantic/links.json", within="links"):
            start = told.get("from")
            links = links_in({"links": [told]}, self._scope)
            if isinstance(start, str) and start and isinstance(links, list):
                spelled.setdefault(Key(self._scope, kind_of(start), start), []).extend(links)
            else:
                self.taken.refused.append((name, "A link needs from, to and a relation of the seven."))
        outcome = self._journal.decide(lambda reader: _tied(reader, self._scope, spelled))
        self.taken.added += len(outcome.records) if isinstance(outcome, Accepted) else 0

    def skills(self) -> None:
        room = Skills(self._journal, self._clock)
        for path in self._files("skills/*.md"):
            name = str(path.relative_to(self._root))
            try:
                text = path.read_bytes().decode("utf-8")
            except UnicodeDecodeError as error:
                self.taken.refused.append((name, f"not UTF-8 at byte {error.start}"))
                continue
            self._note(name, room.add(text, id=path.stem, scope=self._scope, origin=ORIGIN))

    def teamwork(self) -> None:
        ledgers, handoffs = Ledgers(self._journal, self._clock), Handoffs(self._journal, self._clock)
        for name, told in self._objects("ledgers/*.json"):
            self._note(name, ledgers.put(told, scope=self._scope, origin=ORIGIN))
        for name, told in self._objects("handoffs/*.json"):
            named = told if told.get("id") else {**told, "id": Path(name).stem}
            self._note(name, handoffs.put(named, scope=self._scope, origin=ORIGIN))

    def learnings(self) -> None:
        for name, told in self._objects("learnings/*.json", within="learnings"):
            day = Path(name).stem
            found = told.get("antipattern")
            mark = found.removeprefix("anti-") if isinstance(found, str) and found else _digest(told)
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
            self._note(name, self._journal.decide(_unless_there(draft)))

    # Files

    def _files(self, pattern: str) -> Iterator[Path]:
        for path in sorted(self._root.glob(pattern)):
            name = str(path.relative_to(self._root))
            if path.is_symlink() or not path.is_file():
                self.taken.refused.append((name, "not a plain file"))
            elif path.stat().st_size > _LARGEST:
                self.taken.refused.append((name, f"larger than {_LARGEST:,} bytes"))
            else:
                yield path

    def _objects(self, pattern: str, *, within: str = "", skip: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """The JSON objects of the matching files: a file is one, a list of them, or holds such a list under a name."""
        for path in self._files(pattern):
            if path.name == skip:
                continue
            name = str(path.relative_to(self._root))
            try:
                found = canonical.decode(path.read_bytes())
            except InvalidInput as error:
                self.taken.refused.append((name, error.message))
                continue
            if isinstance(found, dict) and within and isinstance(found.get(within), list):
                found = found[within]
            for one in found if isinstance(found, list) else [found]:
                if isinstance(one, dict):
                    yield name, one
                else:
                    self.taken.refused.append((name, f"an entry is not an object: {one!r:.60}"))

    def _note(self, name: str, outcome: Outcome) -> None:
        if isinstance(outcome, Accepted):
            self._count(outcome)
        else:
            self.taken.refused.append((name, outcome.reason))

    def _count(self, outcome: Outcome) -> None:
        if isinstance(outcome, Accepted):
            self.taken.added += len(outcome.records)
            self.taken.present += not outcome.records


def _tied(reader: Reader, scope: str, spelled: Mapping[Key, list[Link]]) -> list[Draft]:
    """The records that lack a link: one of their own file, or the inverse of another's."""
    records = {record.key: record for record in reader.read(Query(kinds=KINDS, scopes=(scope,)))}
    wanted: dict[Key, dict[Link, None]] = {key: dict.fromkeys(links) for key, links in spelled.items()}
    for record in records.values():
        for link in (*record.links, *spelled.get(record.key, ())):
            if (inverse := INVERSE.get(link.relation)) is not None:
                wanted.setdefault(link.to, {})[Link(inverse, record.key)] = None
    drafts = []
    for key, links in wanted.items():
        known = records.get(key)
        lacking = [link for link in links if known is not None and link not in known.links]
        if known is not None and lacking:
            drafts.append(redraft(known, links=(*known.links, *lacking), expected=known.version))
    return drafts


def _unless_there(draft: Draft) -> Callable[[Reader], list[Draft]]:
    def decide(reader: Reader) -> list[Draft]:
        known = reader.get(draft.key)
        return [] if known is not None and known.body == draft.body else [draft]

    return decide


def _named(kind: str, told: dict[str, Any]) -> dict[str, Any]:
    """A fact may be spelled under another name; what it says is needed."""
    if kind != FACT or "fact" in told:
        return told
    said = next((told[name] for name in ("text", "statement", "content") if isinstance(told.get(name), str)), None)
    return told if said is None else {**told, "fact": said}


def _episode_id(name: str) -> str:
    """An id for an episode that has none, the same each time: its day and the number of its file."""
    path = Path(name)
    number = re.search(r"(\d+)$", path.stem)
    day = path.parent.name
    if _DAY.fullmatch(day) and number:
        return f"ep-{day}-{int(number[1]):03d}"
    return f"ep-{_digest(name)}"


def _made_id(kind: str, told: Mapping[str, Any]) -> str:
    prefix = {PATTERN: "sem", ANTIPATTERN: "anti", FACT: "fact"}[kind]
    if kind == ANTIPATTERN and isinstance(told.get("what_fails"), str):  # as consolidation names the same error
        return Trouble(piece(told["what_fails"]), piece(told.get("why", "")), "").id
    said = {name: told[name] for name in ("pattern", "what_fails", "why", "fact", "text") if name in told} or told
    return f"{prefix}-{_digest(said)}"


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical.encode(value)).hexdigest()[:12]


# Out


def write(journal: Journal, target: Path, scope: str) -> int:
    """Writes the tree of one scope; returns the number of records. Files of other names are left alone."""
    writing = _Writing(journal, target, scope)
    return writing.episodes() + writing.knowledge() + writing.skills() + writing.teamwork() + writing.learnings()


class _Writing:
    """One tree on its way out."""

    def __init__(self, journal: Journal, root: Path, scope: str) -> None:
        self._journal = journal
        self._root = root
        self._scope = scope

    def _records(self, kind: str) -> Iterator[Record]:
        return self._journal.read(Query(kinds=(kind,), scopes=(self._scope,)))

    def episodes(self) -> int:
        index = []
        for record in self._records(EPISODE):
            episode = Episode(record)
            path = f"episodic/{episode.day}/{_file_of(episode)}.json"
            self._json(path, episode.as_json())
            told = {
                "task_id": episode.task_id,
                "agent": episode.agent,
                "outcome": episode.outcome,
                "goal": episode.goal,
            }
            index.append({"id": episode.id, "timestamp": record.body["timestamp"], **told, "path": path})
        if index:
            index.sort(key=lambda entry: (entry["timestamp"], entry["id"]))
            self._json("episodic/index.json", {"episodes": index})
        return len(index)

    def knowledge(self) -> int:
        links: list[dict[str, str]] = []
        count = 0
        for stem, kind in _SEMANTIC.items():
            items = [Knowing(record) for record in self._records(kind)]
            told = [_spelled(item) for item in items]
            links += [{"from": item.id, **link} for item in items for link in item.as_json().get("links", ())]
            if told:
                self._json(f"semantic/{stem}.json", told)
            count += len(told)
        if links:
            self._json("semantic/links.json", links)
        return count

    def skills(self) -> int:
        count = 0
        for record in self._records(SKILL):
            self._bytes(f"skills/{file_name(record.id)}.md", Skill(record).markdown.encode())
            count += 1
        return count

    def teamwork(self) -> int:
        count = 0
        for record in self._records(LEDGER):
            self._json(f"ledgers/{file_name(record.id)}.json", Ledger(record).as_json())
            count += 1
        for record in self._records(HANDOFF):
            self._json(f"handoffs/{file_name(record.id)}.json", Handoff(record).as_json())
            count += 1
        return count

    def learnings(self) -> int:
        days: dict[str, list[dict[str, Any]]] = {}
        for record in self._records(LEARNING):
            told = {name: value for name, value in record.body.items() if name != "date"}
            days.setdefault(str(record.body.get("date", "")), []).append(told)
        for day, told_of_day in days.items():
            self._json(f"learnings/{file_name(day)}.json", {"date": day, "learnings": told_of_day})
        return sum(map(len, days.values()))

    def _json(self, name: str, value: Any) -> None:
        self._bytes(name, json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n")

    def _bytes(self, name: str, data: bytes) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(data)


def _spelled(item: Knowing) -> dict[str, Any]:
    """An item as its file has it; an id that was only made up for it stays out."""
    told = item.as_json()
    return {name: value for name, value in told.items() if name != "id"} if _UNNAMED in item.record.labels else told


def _file_of(episode: Episode) -> str:
    """``task-001`` for the first of a day; other ids name their file themselves."""
    dated = _DATED.fullmatch(episode.id)
    return f"task-{dated[2]}" if dated and dated[1] == episode.day else file_name(episode.id)
