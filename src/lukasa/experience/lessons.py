"""Lessons: one-sentence learnings of sessions, counted across them, with what they are about.

A lesson that says nearly the same as a known one, or is about the same failure, counts the session there. It is derived from
the episode that it was first drawn from, and is erased with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lukasa.core.argument_types import check_arguments
from lukasa.core.body_fields import list_field, text_field
from lukasa.core.choices import LessonSubject
from lukasa.core.clock import Clock, to_iso
from lukasa.core.outcome import Outcome, Refused
from lukasa.core.record import DERIVED_FROM, Draft, Key, Link, Record
from lukasa.core.scope import SHARED
from lukasa.experience.record_view import RecordView, change_by_id
from lukasa.journal import CallerService, Journal
from lukasa.storage.engine import Query, Reader
from lukasa.text.terms import distinct_words

LESSON = "lesson"
MAX_LISTED = 100
_MAX_COMPARED = 1_000
_MAX_SESSIONS, _MAX_FILES = 100, 20
_SAME_WORDS = 0.75


@dataclass(frozen=True, slots=True)
class Lesson(RecordView):
    """A lesson, read from its record."""

    about = text_field("about")
    command = text_field("command")
    failure = text_field("failure")
    files = list_field("files")
    sessions = list_field("sessions")

    @property
    def text(self) -> str:
        return self.record.text

    @property
    def count(self) -> int:
        """In how many sessions it was seen."""
        return max(1, len(self.sessions))

    @property
    def last_seen(self) -> datetime:
        return self.record.moment

    def as_json(self) -> dict[str, Any]:
        """Return the lesson with its evidence."""
        return {
            "id": self.id,
            "text": self.text,
            "count": self.count,
            **self.record.body,
            "last_seen": to_iso(self.last_seen),
        }


@dataclass(frozen=True, slots=True)
class LessonDraft:
    """A lesson to add: a text, what it is about, and where it holds."""

    text: str
    about: LessonSubject = "note"
    files: Sequence[str] = ()
    command: str = ""
    failure: str = ""
    """What a failure is known by in every session; empty if the lesson is about none."""


@check_arguments
class Lessons(CallerService):
    """The lessons of one caller."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def add(
        self,
        text: str,
        *,
        about: LessonSubject = "note",
        files: Sequence[str] = (),
        command: str = "",
        session: str = "",
        scope: str = SHARED,
    ) -> Outcome:
        """Add a lesson, or count it if it is known.

        Args:
            text: The lesson, in one sentence.
            about: What it is: a convention, a decision, a remedy, a preference, a place, or a note.
            files: The files that it is about.
            command: The shell command that it is about, by its first words.
            session: The session that it was drawn from; each session counts once.
            scope: The scope to write to.

        Example:
            memory.lessons.add("Run `make lint` before a commit.", about="convention", command="git commit")
        """
        if not text.strip():
            return Refused("empty", "A lesson is a sentence.")
        return self.extend([LessonDraft(text, about, files, command)], session=session, scope=scope)

    def extend(
        self, lessons: Iterable[LessonDraft], *, session: str = "", source: Key | None = None, scope: str = SHARED
    ) -> Outcome:
        """Add several lessons of one session, derived from its episode.

        Args:
            lessons: The lessons.
            session: The session that they were drawn from; each session counts once.
            source: The episode that they are derived from, and erased with.
            scope: The scope to write to.

        Example:
            from lukasa.experience import LessonDraft
            memory.lessons.extend([LessonDraft("Run `make lint` before a commit.")], session="s1")
        """
        drafts = list(lessons)

        def build_drafts(reader: Reader) -> Sequence[Draft]:
            known = list(
                map(
                    Lesson, reader.read(Query(kinds=(LESSON,), scopes=(scope,), newest_first=True, limit=_MAX_COMPARED))
                )
            )
            built: dict[str, Draft] = {}
            for lesson in drafts:
                same = find_same_lesson(lesson, known)
                draft = self._draft(lesson, same, session, source, scope)
                if draft is not None:
                    built.setdefault(draft.id, draft)
            return list(built.values())

        return self._journal.append_if(build_drafts)

    def _draft(
        self, lesson: LessonDraft, known: Lesson | None, session: str, source: Key | None, scope: str
    ) -> Draft | None:
        sessions = [] if known is None else list(known.sessions)
        files = list(dict.fromkeys([*(() if known is None else known.files), *lesson.files]))[-_MAX_FILES:]
        if known is not None and (session in sessions or not session):
            return None
        body: dict[str, Any] = {
            "about": lesson.about,
            "sessions": [*sessions, *([session] if session else [])][-_MAX_SESSIONS:],
        }
        command = lesson.command or ("" if known is None else known.command)
        body |= {
            name: value
            for name, value in (("files", files), ("command", command), ("failure", lesson.failure))
            if value
        }
        text = lesson.text
        if known is not None and not (lesson.failure and lesson.about == "remedy"):
            text, body["about"] = known.text, known.about or lesson.about
        first = body["sessions"][0] if body["sessions"] else ""
        labels = [
            f"about={body['about']}",
            *([f"task={first}"] if first else ()),
            *(f"file={file.rpartition('/')[2]}"[:200] for file in files),
        ]
        if command:
            labels.append(f"command={command}"[:200])
        identity = lesson.failure or " ".join(sorted(distinct_words(lesson.text)))
        return Draft(
            LESSON, text, body, id=known.id if known else hashlib.sha256(identity.encode()).hexdigest()[:8], scope=scope,
            labels=tuple(dict.fromkeys(labels)), origin="tool", happened_at=self._clock.now(),
            links=() if known is not None else (Link(DERIVED_FROM, source),) if source else (),
        )  # fmt: skip

    def list(
        self, *, about: LessonSubject | None = None, file: str = "", command: str = "", limit: int = MAX_LISTED
    ) -> Sequence[Lesson]:
        """List the lessons, those of most sessions first.

        Args:
            about: Only those of this subject.
            file: Only those about a file of this name.
            command: Only those about this command.
            limit: How many to return at most.

        Example:
            memory.lessons.list(about="convention")
        """
        wanted = (("about", about), ("file", file.rpartition("/")[2]), ("command", command))
        labels = tuple(f"{name}={value}"[:200] for name, value in wanted if value)
        with self._journal.snapshot() as reader:
            records = reader.read(Query(kinds=(LESSON,), labels=labels, newest_first=True, limit=_MAX_COMPARED))
        return sorted(map(Lesson, records), key=lambda lesson: -lesson.count)[:limit]

    def of_session(self, session: str) -> Sequence[Lesson]:
        """List the lessons that were first drawn from a session.

        Args:
            session: The id of the session.

        Example:
            memory.lessons.add("Run `make lint` before a commit.", session="s1")
            memory.lessons.of_session("s1")
        """
        return [*map(Lesson, self._journal.read(Query(kinds=(LESSON,), labels=(f"task={session}",))))]

    def delete(self, id: str, *, scope: str | None = None) -> Outcome:
        """Delete a lesson; its history stays.

        Args:
            id: The id of the lesson.
            scope: The scope; default: wherever it is.

        Example:
            lesson = memory.lessons.add("Run `make lint` before a commit.").unwrap()
            memory.lessons.delete(lesson.id)
        """

        def build_tombstone(_: Reader, record: Record) -> Sequence[Draft]:
            return [Draft(LESSON, id=record.id, scope=record.scope, deleted=True, expected=record.version)]

        return change_by_id(self._journal, LESSON, id, build_tombstone, scope=scope)


def find_same_lesson(lesson: LessonDraft, known: Sequence[Lesson]) -> Lesson | None:
    """Return the lesson about the same failure, or the one that says nearly the same."""
    if lesson.failure:
        return next((other for other in known if other.failure == lesson.failure), None)
    words = frozenset(distinct_words(lesson.text))
    for other in known:
        others = frozenset(distinct_words(other.text))
        if words and len(words & others) >= _SAME_WORDS * len(words | others):
            return other
    return None
