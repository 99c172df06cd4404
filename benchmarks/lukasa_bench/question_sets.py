"""Question sets: conversations with questions whose evidence is known, in the layouts in which they are published.

- the plain format of this benchmark, see ``lukasa_bench.recall``;
- LoCoMo: ``locomo10.json``, a list of samples with sessions and ``qa``;
- LongMemEval: ``longmemeval_s.json``, a list of questions, each with its own history; turns marked ``has_answer`` are the evidence;
- BEAM: a folder of chats, each a folder with ``chat.json`` and ``probing_questions.json``;
- a folder of your own talks: files that each hold one of the formats above, or one conversation of the plain format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lukasa.core import canonical_json
from lukasa.core.clock import from_iso
from lukasa.errors import FormatError, InvalidInput

ADVERSARIAL_CATEGORY = "adversarial"
"""Questions of this category have no answer in the conversation and are reported separately."""
_TIME_FORMATS = ("%I:%M %p on %d %B, %Y", "%B-%d-%Y", "%Y/%m/%d (%a) %H:%M")
_LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: ADVERSARIAL_CATEGORY}
_BEAM_CHAT, _BEAM_QUESTIONS = "chat.json", "probing_questions.json"


def load_question_set(place: Path) -> Mapping[str, Any]:
    """Read a question set in any of the layouts; raise ``FormatError`` if it is none."""
    try:
        conversations = list(_read_folder(place) if place.is_dir() else _read_file(place))
        for conversation in conversations:
            for turn in conversation["turns"]:
                turn["moment"] = parse_time(turn["time"])
            for question in conversation["questions"]:
                question["question"], question["category"], question["evidence"]
    except (InvalidInput, KeyError, TypeError, AttributeError, ValueError) as error:
        raise FormatError(f"{place} is not a set of conversations with questions ({error}).") from error
    if not conversations:
        raise FormatError(f"{place} has no conversations.")
    return {"set": conversations[0].get("set", place.stem), "conversations": conversations}


def parse_time(text: str) -> datetime:
    """Parse the time of a turn: ISO 8601, or one of the formats of the public sets."""
    for format in _TIME_FORMATS:
        try:
            return datetime.strptime(text, format).replace(tzinfo=UTC)
        except ValueError:
            continue
    return from_iso(text)


def _read_folder(folder: Path) -> Iterator[dict[str, Any]]:
    chats = sorted(folder.rglob(_BEAM_CHAT))
    for chat in chats:
        yield _read_beam_chat(chat)
    if not chats:
        for file in sorted(folder.glob("*.json")):
            yield from _read_file(file)


def _read_file(file: Path) -> Iterator[dict[str, Any]]:
    found: Any = canonical_json.decode(file.read_bytes())
    if isinstance(found, list):
        for entry in found:
            yield _read_longmemeval(entry) if "haystack_sessions" in entry else _read_locomo(entry)
    elif "conversations" in found:
        for conversation in found["conversations"]:
            yield {"set": found["set"], **conversation}
    else:
        yield {"id": file.stem, **found}


def _read_locomo(sample: Mapping[str, Any]) -> dict[str, Any]:
    sessions = sample["conversation"]
    names = sorted(
        (name for name in sessions if name.startswith("session_") and name.removeprefix("session_").isdecimal()),
        key=lambda name: int(name.removeprefix("session_")),
    )
    turns = [
        {"id": turn["dia_id"], "session": name, "time": sessions[f"{name}_date_time"], "speaker": turn["speaker"],
         "text": turn["text"]}
        for name in names
        for turn in sessions[name]
    ]  # fmt: skip
    questions = [
        {
            "id": f"{sample['sample_id']}-{number}",
            "question": entry["question"],
            "category": _LOCOMO_CATEGORIES.get(entry["category"], str(entry["category"])),
            "evidence": [id for text in entry.get("evidence", ()) for id in text.replace(";", " ").split()],
        }
        for number, entry in enumerate(sample["qa"])
    ]
    return {"id": sample["sample_id"], "turns": turns, "questions": questions}


def _read_longmemeval(entry: Mapping[str, Any]) -> dict[str, Any]:
    turns, evidence = [], []
    sessions = zip(entry["haystack_session_ids"], entry["haystack_dates"], entry["haystack_sessions"], strict=True)
    for place, (session, date, said) in enumerate(sessions):
        marked = any(turn.get("has_answer") for turn in said)
        for number, turn in enumerate(said):
            id = f"{place}-{session}-{number}"
            turns.append(
                {
                    "id": id,
                    "session": f"{place}-{session}",
                    "time": date,
                    "speaker": turn["role"],
                    "text": turn["content"],
                }
            )
            if turn.get("has_answer") or (not marked and session in entry.get("answer_session_ids", ())):
                evidence.append(id)
    category = ADVERSARIAL_CATEGORY if entry["question_id"].endswith("_abs") else entry["question_type"]
    question = {"id": entry["question_id"], "question": entry["question"], "category": category, "evidence": evidence}
    return {"id": entry["question_id"], "turns": turns, "questions": [question]}


def _read_beam_chat(chat: Path) -> dict[str, Any]:
    turns: list[dict[str, Any]] = []
    time = "January-01-2024"
    for session, messages in enumerate(_list_beam_sessions(canonical_json.decode(chat.read_bytes()))):
        for message in messages:
            time = message.get("time_anchor") or time
            turns.append(
                {"id": str(message["id"]), "session": f"s{session}", "time": time, "speaker": message["role"],
                 "text": message["content"]}
            )  # fmt: skip
    file = next(iter(sorted(chat.parent.rglob(_BEAM_QUESTIONS))), chat.with_name(_BEAM_QUESTIONS))
    asked: Any = canonical_json.decode(file.read_bytes())
    questions = [
        {
            "id": f"{category}-{number}",
            "question": entry["question"],
            "category": category,
            "evidence": list(dict.fromkeys(_list_ids(entry.get("source_chat_ids", ())))),
        }
        for category, entries in asked.items()
        for number, entry in enumerate(entries)
    ]
    return {"id": chat.parent.name, "turns": turns, "questions": questions}


def _list_beam_sessions(found: Any) -> Iterator[list[Any]]:
    """List the innermost lists of messages, in order."""
    if isinstance(found, dict):
        found = found.get("turns", list(found.values()))
    if found and all(isinstance(entry, dict) and "role" in entry for entry in found):
        yield found
        return
    for entry in found:
        if isinstance(entry, dict | list):
            yield from _list_beam_sessions(entry)


def _list_ids(found: Any) -> Iterator[str]:
    """List the ids in a number, a list or a mapping of any depth."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list | tuple):
        for entry in found:
            yield from _list_ids(entry)
    else:
        yield str(found)
