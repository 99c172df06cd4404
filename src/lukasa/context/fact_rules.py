"""Rules that find facts in a sentence: who a person is, what was decided, what a thing is, where and when.

A sentence is split into clauses (``lukasa.text.analysis``). A clause becomes a fact in its own words; only the first person
is replaced by the speaker. Clauses that ask, suppose or quote give no fact. One that denies gives none either, unless it
is a fact that says so in full: a prohibition, a dislike, something that is no longer so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from lukasa.context.state import Fact
from lukasa.text.analysis import (
    QUOTATION_PLACEHOLDER,
    Clause,
    cut_first_clause,
    cut_reasons,
    is_question,
    is_supposition,
    names_day,
    repair_line,
    split_clauses,
)
from lukasa.text.lexicon import WORDS
from lukasa.text.patterns import compile_on_use
from lukasa.text.terms import contains_phrase, plain_word, starts_with

_BE = frozenset({"is", "are", "am", "was", "were", "ist", "sind", "bin", "i'm"})
_SLOTS = {"live in": "home", "work at": "employer", "work for": "employer", "work as": "work", "come from": "origin"}
_LIST_SEPARATOR = compile_on_use(r",? (?:and|und|plus|sowie) (?:also )?|, | & | \+ ")
_TOOL_ITEM = compile_on_use(
    r"(?P<tool>(?:[A-Z][\w.+#-]*|[a-z]\w*[.+#-]?[A-Z]\w*|[a-z][\w.+#-]*(?= v?\d))(?: [A-Z][\w.+#-]*)?)(?: v?(?P<number>\d[\w.-]*))?"
    r"(?P<rest>(?: (?:for|as|with|in|on|via|since|from|für|als|seit|mit) .+)?)"
)
_PATH = compile_on_use(r"(?<!\S)(?:~|\.{1,2})?/[\w.@+/-]+|[A-Za-z]:\\[\w\\.@+ -]*\w|[\w-]+/[\w./-]*\.\w{1,8}")
_MOVED_TO = compile_on_use(r" (?:was |has been |got )?(?:moved|rescheduled|postponed|pushed|delayed) (?:to|until|auf) ")


FactRule = Callable[[Clause], Iterator[Fact]]
"""Finds the facts of a clause: none, one, or one for each item of a list."""


def find_facts(sentence: str, speaker: str, *, is_machine: bool = False) -> Iterator[Fact]:
    """Find the facts that a sentence states; of what a machine says, only decisions, tools, places and dates.

    Of what is so for the moment only, decisions and preferences are found.
    """
    if is_question(sentence) or QUOTATION_PLACEHOLDER in sentence:
        return
    text = repair_line(sentence)
    if not is_machine:
        head, rest = cut_first_clause(text)
        if (instruction := _find_instruction(head, speaker)) is not None:
            yield instruction
            text = rest
    if is_supposition(text):
        return
    if not is_machine and (tools := list(_list_tools(text.rstrip(" .!")))):
        yield from tools
        return
    for clause in split_clauses(text, speaker):
        if clause.is_uncertain:
            continue
        rules: Sequence[FactRule] = _MACHINE_RULES if is_machine else _RULES
        if contains_phrase(clause.lowered, WORDS["fleeting_phrases"]):
            rules = [rule for rule in rules if rule in (_find_decision, _find_preference)]
        while rules:
            rule, *rules = rules
            facts = [fact for fact in rule(clause) if fact.text.count("(") == fact.text.count(")")]
            yield from facts
            if facts:
                rules = (_find_tools,) if rule is _find_decision else ()  # a decision may name tools


def _list_tools(text: str) -> Iterator[Fact]:
    """Find the facts of a line that only lists tools: "stack: Go 1.22, Redis", "python 3.11, django 4.2"."""
    label, separator, listed = text.rpartition(": ")
    is_stack = bool(separator) and plain_word(label.split()[-1]) in ("stack", "tools", "frameworks")
    items = [_TOOL_ITEM.fullmatch(item) for item in _LIST_SEPARATOR.split(listed)]
    tools = [item for item in items if item is not None]
    if (
        (len(tools) > 1 or is_stack)
        and len(tools) == len(items)
        and (is_stack or all(item["number"] for item in tools))
    ):
        for tool in tools:
            name = f"{tool['tool']} {tool['number']}" if tool["number"] else tool["tool"]
            yield Fact(f"Project uses {name}", f"version {tool['tool'].lower()}" if tool["number"] else "", "version")


def _fact(clause: Clause, text: str, rule: str, slot: str = "") -> Fact:
    """Return a fact in the clause's setting."""
    setting = f" {to_third_person(clause.setting)}" if clause.setting else ""
    return Fact(" ".join(f"{text}{setting}".split()).rstrip(" ,;:!."), slot and f"{slot}{setting.lower()}", rule)


def _find_instruction(text: str, speaker: str) -> Fact | None:
    """Find a standing instruction or a prohibition; it is kept whole, with its conditions."""
    clause = Clause(text.rstrip(" .!"), speaker)
    rest = clause.without("please", "bitte")
    start = next((start for start in WORDS["instruction_starts"] if starts_with(rest.lowered, (start,))), None)
    after = rest.plain[len(start.split()) :] if start is not None else []
    is_order = (
        len(after) > (rest.text == clause.text)
        and after[0] not in WORDS["no_instruction"]
        and not after[0].endswith(("ing", "ed"))
    )
    if start in ("no", "kein", "keine", "nix", "nichts"):
        is_asked = rest.text != clause.text or not WORDS["prepositions"].keys().isdisjoint(after)
        is_order = is_order and is_asked and rest.vocabulary.isdisjoint(_BE - {"am"})
    is_order = is_order or clause.plain[-2:] in (["now", "on"], ["going", "forward"])
    is_order = is_order or (
        rest.plain[0] in ("keep", "make") and not WORDS["styles"].keys().isdisjoint(rest.plain[2:4])
    )
    is_order = is_order or (
        rest.plain[0] in WORDS["answering"] and not {"in", "auf", "with", "without", "ohne"}.isdisjoint(rest.plain[1:4])
    )
    what = " ".join(cut_reasons(rest.words))
    return Fact(f"{speaker} asks: {what[0].lower()}{what[1:]}", rule="preference") if is_order and what else None


def _find_name(clause: Clause) -> Iterator[Fact]:
    start = next((start for start in WORDS["name_starts"] if starts_with(clause.lowered, (start,))), "")
    words = clause.words[len(start.split()) :]
    name = []
    for word in words[:3]:
        if not word[:1].isupper() or word.strip(",.").lower() in WORDS["roles"]:
            break
        name.append(word.strip(",."))
        if word.endswith((",", ".")):
            break
    following = [word.strip(",").lower() for word in words[len(name) : len(name) + 1]]
    is_end = not following or words[len(name) - 1].endswith(",") or following[0] in ("and", "from", "und", "aus")
    if not start or not name or clause.is_negated or not is_end:
        return
    speaker, text = clause.speaker, " ".join(name)
    if start in ("i am", "ich bin") and text.endswith(tuple(WORDS["nationality_endings"])):
        yield _fact(clause, f"{speaker} is {text}", "identity")
        return
    yield _fact(clause, f"{speaker}'s name is {text}", "identity", f"name {speaker.lower()}")
    rest = " ".join(words[len(name) :])
    if rest.startswith(("a ", "an ", "the ")) and _starts_with_role(rest):
        yield _fact(clause, f"{speaker} is {rest}", "identity", f"work {speaker.lower()}")


def _find_decision(clause: Clause) -> Iterator[Fact]:
    plain = clause.without(
        "now", "finally", "just", "already", "all", "both", "have", "i've", "we've", "we", "i", "wir", "haben"
    )
    start = next((start for start in WORDS["decision_starts"] if starts_with(plain.lowered, (start,))), None)
    if start is None or clause.is_asked:
        return
    rest = " ".join(plain.words[len(start.split()) :])
    if "uns" in clause.plain and clause.plain[-1] == "entschieden" and "für" in clause.plain:
        rest = " ".join(clause.words[clause.plain.index("für") + 1 : -1])
    if rest and not _is_vague(rest):
        against = "against " if start.endswith("against") else "not " if start.endswith("not to") else ""
        use = "use " if "".join(WORDS["decision_starts"][start]) == "use" else ""
        yield _fact(clause, f"{'Plan' if 'plan' in start else 'Decision'}: {against}{use}{rest}", "decision")


def _find_location(clause: Clause) -> Iterator[Fact]:
    index = clause.find_verb(WORDS["places"])
    if index is None or clause.is_negated or not ("/" in clause.text or "\\" in clause.text):
        return
    rest = " ".join(clause.words[index + 1 :])
    path = _PATH.search(rest)
    if path is None or clause.plain[0] not in ("the", "our", "my"):
        return
    is_place = WORDS["before_places"].keys() >= {*rest[: path.start()].strip("`\"' ").lower().split()}
    thing = " ".join(clause.words[1:index])
    if is_place and thing and thing.split()[-1].lower() not in WORDS["empty_subjects"]:
        text = f"{thing[0].upper()}{thing[1:]} is at {path[0].rstrip('.,')}{rest[path.end() :]}"
        yield _fact(clause, text, "path", f"place {thing.lower()}")


def _find_date(clause: Clause) -> Iterator[Fact]:
    """Find the day of an event; a later one replaces it."""
    moved = _MOVED_TO.search(clause.text)
    index = clause.find_verb(WORDS["event_verbs"])
    if moved:
        subject, verb, rest = clause.text[: moved.start()], "is", clause.text[moved.end() :]
    elif index is not None:
        subject, verb, rest = clause.parts(index)
    else:
        return
    words = subject.lower().split()
    is_event = any(word in WORDS["events"] or word.endswith(tuple(WORDS["event_endings"])) for word in words)
    if is_event and not clause.is_negated and words[0] not in WORDS["excluded_subjects"] and names_day(rest):
        owned = _with_owner(subject, clause.speaker)
        thing = owned.lower().removeprefix("the ").removeprefix("der ").removeprefix("die ").removeprefix("das ")
        yield _fact(clause, f"{owned} {verb} {rest}", "date", f"date {thing}")


def _find_ending(clause: Clause) -> Iterator[Fact]:
    """Find what is no longer so; the fact says so in full and replaces the earlier one."""
    before, found, rest = clause.text.partition(" no longer ")
    is_self = clause.first_word in ("i", "ich")
    if not found:
        is_ending = "mehr" in clause.plain and not clause.vocabulary.isdisjoint({"nicht", "kein", "keine", "keinen"})
        if is_ending and len(clause.words) > 2 and (is_self or clause.first_word not in WORDS["excluded_subjects"]):
            verb = _third_person(clause.words[1]) if is_self else clause.words[1]
            who = clause.speaker if is_self else clause.words[0]
            text = to_third_person(" ".join(clause.words[2:]))
            yield _fact(clause, f"{who} {verb} {text}", "identity" if is_self else "statement")
        return
    if is_self:
        slot = next(
            (f"{name} {clause.speaker.lower()}" for start, name in _SLOTS.items() if rest.startswith(start)), ""
        )
        verb, _, what = rest.partition(" ")
        verb = verb if " am" in before or verb not in WORDS["first_person_verbs"] else _third_person(verb)
        be = "is " if " am" in before else ""
        yield _fact(clause, f"{clause.speaker} {be}no longer {verb} {to_third_person(what)}", "identity", slot)
    elif clause.first_word in ("we", "wir") or clause.first_word not in WORDS["excluded_subjects"]:
        yield _fact(clause, _with_owner(clause.text, clause.speaker), "statement")


def _find_preference(clause: Clause) -> Iterator[Fact]:
    if clause.first_word not in ("i", "ich"):
        return
    own = clause.speaker.lower()
    words = clause.without(*WORDS["adverbs"]).words[1:]
    text = " ".join(words).replace("’", "'").replace("do not", "don't").replace("cannot", "can't")
    verb = next((verb for verb in WORDS["preference_verbs"] if starts_with(text.lower(), (verb,))), None)
    if verb is None:
        return
    rest = text[len(verb) + 1 :]
    if not rest or _is_vague(rest) or not clause.vocabulary.isdisjoint(WORDS["listener"]):
        return
    third = "".join(WORDS["preference_verbs"][verb]) or _third_person(verb)
    if third == "prefers":
        yield _fact(
            clause, f"{clause.speaker} prefers {to_third_person(rest)}", "preference", f"prefers {own} {_topic(rest)}"
        )
        return
    for item in _split_list(rest, only_long=True):
        text = f"{clause.speaker} {third} {to_third_person(item)}"
        yield _fact(clause, text, "preference", f"likes {own} {item.lower()}")


def _topic(rest: str) -> str:
    """Return what a preference chooses between: "output" of "verbose output", "mocks / databases" of "databases to mocks"."""
    words = Clause(rest, "").plain
    break_at = next(
        (i for i, word in enumerate(words) if i and word in ("over", "to", "rather", "instead")), len(words)
    )
    heads = [_head_noun(words[:break_at]), _head_noun(words[break_at + 1 :])]
    return " / ".join(sorted(filter(None, heads)))


def _head_noun(words: Sequence[str]) -> str:
    """Return the last word of a phrase before its first preposition."""
    prepositions = ("for", "in", "when", "with", "on", "over", "at", "from", "to", "but")
    end = next((i for i, word in enumerate(words) if i and word in prepositions), len(words))
    return words[end - 1] if words else ""


def _find_tools(clause: Clause) -> Iterator[Fact]:
    """Find the tools that a project or a part of it uses, each with its version."""
    index = clause.find_verb(WORDS["version_verbs"])
    if index is None or clause.is_negated or clause.first_word == "you":
        return
    words, verb = clause.words, clause.plain[index]
    if verb.endswith("ing") and clause.plain[index - 1] not in (*_BE, *WORDS["adverbs"]):
        return  # "try using Python 3.12"
    follow, items_at = WORDS["version_verbs"][verb], index + 1
    while items_at < len(words) - 1 and clause.plain[items_at] in WORDS["adverbs"]:
        items_at += 1
    if follow or words[items_at : items_at + 1] == ["on"]:
        if items_at >= len(words) or (follow and words[items_at] not in follow):
            return
        items_at += 1
    items = [_TOOL_ITEM.fullmatch(item.removesuffix(" yesterday").removesuffix(" today"))
             for item in _LIST_SEPARATOR.split(" ".join(words[items_at:]))]  # fmt: skip
    tools = [item for item in items if item is not None]
    is_number_needed = verb not in WORDS["tool_verbs"] or clause.is_decision
    if not tools or len(tools) < len(items) or (is_number_needed and not any(tool["number"] for tool in tools)):
        return
    subject = " ".join(
        word for word in words[:index] if word.lower() not in (*WORDS["adverbs"], *_BE, "have", "has", "been")
    )
    is_need = verb.startswith(("require", "need"))
    if subject.lower().removeprefix("our ").removeprefix("the ") in WORDS["projects"]:
        owner, predicate = "", f"Project {'requires' if is_need else 'uses'}"
    elif subject in ("I", "Ich"):
        owner, predicate = f"{clause.speaker.lower()} ", f"{clause.speaker} {'needs' if is_need else 'uses'}"
    elif clause.first_word in WORDS["excluded_subjects"] or not subject or ":" in subject:
        return
    else:
        owner = f"{_with_owner(subject, clause.speaker).lower()} "
        predicate = _with_owner(" ".join(words[:items_at]), clause.speaker)
    for tool in tools:
        name = f"{tool['tool']} {tool['number']}" if tool["number"] else tool["tool"]
        slot = f"version {owner}{tool['tool'].lower()}" if tool["number"] else ""
        yield _fact(clause, f"{predicate} {name}{tool['rest']}", "version", slot)


def _find_identity(clause: Clause) -> Iterator[Fact]:
    """Find what the speaker is, has, does for long, or did once."""
    if clause.first_word not in ("i", "ich") or clause.is_negated or not clause.is_lasting:
        return
    speaker, own = clause.speaker, clause.speaker.lower()
    bare = clause.without(*(word for word in WORDS["adverbs"] if word not in WORDS["frequencies"]))
    verb, rest = (bare.plain[1], " ".join(bare.words[2:])) if len(bare.words) > 2 else ("", "")
    if bare.plain[0] == "i'm":
        verb, rest = "am", " ".join(bare.words[1:])
    if not rest:
        return
    if verb in ("am", "bin"):
        be = "ist" if verb == "bin" else "is"
        state = next((state for state in WORDS["state_phrases"] if starts_with(rest.lower(), (state,))), "")
        if state in WORDS["listed_states"]:
            for item in _split_list(rest[len(state) + 1 :]):
                yield _fact(clause, f"{speaker} {be} {state} {to_third_person(item)}", "identity")
        elif (
            state
            or starts_with(rest.lower(), WORDS["lasting_self"])
            or clause.is_on_team
            or (_starts_with_role(rest) and not _is_judgement(rest))
        ):
            slot = {"from": f"origin {own}", "based in": f"home {own}"}.get(state, "")
            is_work = _starts_with_role(rest) and WORDS["personal_roles"].keys().isdisjoint(rest.lower().split()[:5])
            yield _fact(
                clause, f"{speaker} {be} {to_third_person(rest)}", "identity", f"work {own}" if is_work else slot
            )
        return
    how = ""
    if verb in WORDS["frequencies"] and len(bare.words) > 3:
        how, verb, rest = f"{verb} ", bare.plain[2], " ".join(bare.words[3:])
    whole = f"{verb} {rest}"
    if starts_with(whole.lower(), WORDS["past_life"]):
        yield _fact(clause, f"{speaker} {to_third_person(whole)}", "identity", f"home {own}" if verb == "moved" else "")
        return
    phrase = next((known for known in WORDS["first_person_verbs"] if starts_with(whole, (known,))), "")
    is_habit = verb in WORDS["habit_verbs"] and verb not in ("have", "habe") and clause.is_habit and _is_hard(rest)
    has_been = verb == "have" and {"for", "since"} & clause.vocabulary and "been" in clause.plain
    owns = verb in ("have", "habe") and not WORDS["possessions"].keys().isdisjoint(Clause(rest, "").plain)
    if not (phrase or is_habit or has_been or owns) or _is_vague(whole[len(phrase or verb) + 1 :]):
        return
    slot = next((f"{name} {own}" for start, name in _SLOTS.items() if whole.startswith(start)), "")
    third = _third_person(phrase or verb)
    rest = whole[len(phrase or verb) + 1 :]
    for item in _split_list(rest) if verb in ("speak", "use", "play", "own", "spreche") else [rest]:
        yield _fact(clause, f"{speaker} {how}{third} {to_third_person(item)}", "identity", slot)


def _find_statement(clause: Clause) -> Iterator[Fact]:
    """Find what a team or a thing is or does, if the clause has a name, a number, a habit or a role in it."""
    first = clause.first_word
    if clause.is_negated and first not in WORDS["quantifiers"]:
        return
    if not clause.is_lasting or first in ("i", "ich"):
        return
    text = _with_owner(clause.text, clause.speaker)
    if first in WORDS["quantifiers"] and not clause.vocabulary.isdisjoint(WORDS["modals"]):
        yield _fact(clause, text, "regulation")
        return
    is_group = first in ("we", "wir")
    index = clause.find_verb(WORDS["we_verbs"] if is_group else WORDS["verbs"])
    if index is None or (first in WORDS["excluded_subjects"] and not is_group):
        return
    subject, verb, rest = clause.parts(index)
    last = subject.split()[-1].lower()
    is_pointed = not WORDS["pointing"].keys().isdisjoint(clause.plain[:index])
    is_pointed = is_pointed or clause.plain[-1] in WORDS["pointing"] or ":" in subject or first.endswith("ing")
    if not rest or is_pointed or _is_vague(rest) or last in WORDS["empty_subjects"] or clause.lists_subjects(index):
        return
    follow = WORDS["verbs"].get(verb.lower(), ())
    is_named = (subject[0].isupper() and first not in ("the", "a", "an", "we", "wir")) or first in WORDS["owners"]
    if verb.lower() in _BE:
        is_fact = _is_lasting_of(subject, rest)
    elif follow and clause.plain[index + 1] not in follow:
        is_fact = verb.lower() in WORDS["hard_verbs"] and _is_hard(rest)
    else:
        is_fact = _is_hard(rest) or (is_named and verb.lower() not in WORDS["hard_verbs"])
    if is_fact:
        has_one_value = last in WORDS["value_subjects"] and first in (*WORDS["owners"], "the", "der", "die", "das")
        slot = f"is {_with_owner(subject, clause.speaker).lower()}" if verb.lower() in _BE and has_one_value else ""
        is_favourite = "favourite" in clause.lowered or "favorite" in clause.lowered
        yield _fact(clause, text, "preference" if is_favourite else "statement", slot)


def _is_lasting_of(subject: str, rest: str) -> bool:
    """Tell whether "subject is rest" says what someone or something is, and not how it is at the moment."""
    words = Clause(rest, "").plain
    last = subject.split()[-1].lower()
    if _starts_with_role(rest):
        return not _is_judgement(rest)
    if "favourite" in subject or "favorite" in subject or "lieblings" in subject.lower():
        return True
    if _is_judgement(rest) or last in WORDS["momentary_subjects"]:
        return False
    if words[0].endswith("ing") and words[0] not in WORDS["lasting_progressives"]:
        return False
    is_state = starts_with(rest.lower(), WORDS["state_phrases"]) or (
        words[0] in WORDS["participles"] and len(words) > 1
    )
    is_named = len(words) == 1 and last in WORDS["naming_subjects"] and words[0] not in WORDS["adjectives"]
    return is_state or is_named or _is_hard(rest) or (words[0] in WORDS["prepositions"] and len(words) > 1)


_RULES: tuple[FactRule, ...] = (
    _find_name, _find_decision, _find_location, _find_date, _find_ending, _find_preference, _find_tools, _find_identity,
    _find_statement,
)  # fmt: skip
_MACHINE_RULES: tuple[FactRule, ...] = (_find_decision, _find_location, _find_date, _find_tools)


def _is_vague(rest: str) -> bool:
    """Tell whether a complement begins with a word that says nothing by itself: it, this, how."""
    return starts_with(rest.lower(), WORDS["vague"])


def _is_judgement(rest: str) -> bool:
    return starts_with(rest.lower(), WORDS["judgements"])


def _is_hard(rest: str) -> bool:
    """Tell whether a text has a number, a name, an address or a habit: what makes a complement worth keeping."""
    words = rest.split()
    return (
        any(character.isdigit() or character in "@/`" for character in rest)
        or any(word[0].isupper() and word not in ("I", "I'm") for word in words)
        or not WORDS["evidence"].keys().isdisjoint(Clause(rest, "").plain)
    )


def _starts_with_role(text: str) -> bool:
    """Check whether one of the first words after an article is a role: "our new product owner"."""
    words = Clause(text, "").plain[:6]
    if words[0] in ("a", "an", "the", "our", "my"):
        return not WORDS["roles"].keys().isdisjoint(words[1:])
    return words[0] in WORDS["roles"] or not WORDS["roles"].keys().isdisjoint(words[:3])


def _third_person(verb: str) -> str:
    """Return the third person of a verb in the first: "works" for "work", "arbeitet" for "arbeite"."""
    if known := ({**WORDS["first_person_verbs"], **WORDS["habit_verbs"]}).get(verb):
        return known[0]
    head, space, tail = verb.partition(" ")
    if head.endswith(("s", "sh", "ch", "x", "o", "z")):
        return f"{head}es{space}{tail}"
    if head.endswith("y") and head[-2:-1] not in tuple("aeou"):
        head = f"{head[:-1]}ie"
    return f"{head}s{space}{tail}"


def _replace_words(text: str, replacements: Mapping[str, str]) -> str:
    """Replace whole words, whatever punctuation follows them."""
    words = []
    for word in text.split(" "):
        bare = word.rstrip(",.!;:?)")
        replaced = replacements.get(bare)
        words.append(word if replaced is None else replaced + word[len(bare) :])
    return " ".join(words)


def to_third_person(text: str) -> str:
    """Replace the first person by the third."""
    return _replace_words(text.replace("I am ", "I'm "), _THIRD_PERSON)


_THIRD_PERSON = {word: "".join(other) for word, other in WORDS["third_person"].items()}


def _with_owner(text: str, speaker: str) -> str:
    """Return a text about others with the speaker in place of "my", and a capital at its beginning."""
    first, space, rest = text.partition(" ")
    if first.lower() in ("my", "mein", "meine"):
        first, own = f"{speaker}'s", "their"
    else:
        first, own = "The" if first.lower() == "our" else first, f"{speaker}'s"
    replaced = _replace_words(rest, {"my": own, "mein": own, "meine": own, "me": speaker, "I": speaker})
    owned = f"{first}{space}{replaced}"
    return owned[0].upper() + owned[1:]


def _split_list(text: str, *, only_long: bool = False) -> list[str]:
    """Split "nuts, soy and milk" into its items; a list of two stays whole if ``only_long``, as in "fish and chips"."""
    items = _LIST_SEPARATOR.split(text)
    is_list = len(items) > (2 if only_long else 1) and all(0 < len(item.split()) <= 4 for item in items)
    is_list = is_list and all(Clause(item, "").plain[0] not in (*WORDS["pointing"], "my", "our") for item in items)
    return items if is_list else [text]
