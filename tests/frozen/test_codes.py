"""The errors that are raised, and the codes of refusals: a caller decides by them, so they stay what they are."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import lukasa
import lukasa.errors
from lukasa import Accepted, Conflict, Draft, Key, Link, Refused
from lukasa.memory_graph import Entity
from lukasa.testing import CountingIds, FrozenClock

Frozen = Callable[[str, str], None]
SOURCE = Path(inspect.getfile(lukasa)).parent
GOLDEN = Path(__file__).parent / "golden"
CODES = "refusal_codes.txt"


def test_the_tree_of_errors_stays_the_same(frozen: Frozen) -> None:
    """Compare each error's name, parents and attributes with the frozen file."""
    lines = []
    for name, kind in sorted(vars(lukasa.errors).items()):
        if inspect.isclass(kind) and issubclass(kind, lukasa.LukasaError):
            parents = ", ".join(base.__name__ for base in kind.__bases__)
            attributes = ", ".join(sorted(vars(kind("message", hint="hint"))))
            own = sorted(each for each in vars(kind) if not each.startswith("_"))
            lines.append(f"{name}({parents}): {attributes}{''.join(f', {each}' for each in own)}\n")
    frozen("errors.txt", "".join(lines))


def test_an_error_tells_its_message_and_hint() -> None:
    """Check how message and hint come together, and that the default message is there."""
    for kind in vars(lukasa.errors).values():
        if inspect.isclass(kind) and issubclass(kind, lukasa.LukasaError):
            assert str(kind("What.", hint="Do.")) == "What. Do."
            assert (kind("What.").message, kind("What.").hint) == ("What.", None)
            assert kind().message


def test_the_refusal_codes_in_the_source_stay_the_same(frozen: Frozen) -> None:
    """Compare the codes that the source gives to Refused, and patterns of codes, with the frozen file.

    A code that is known already also counts where it stands as any other string, so that it may be passed on.
    """
    found: set[str] = set()
    strings: set[str] = set()
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant | ast.JoinedStr):
                strings.update(_codes(node))
            if isinstance(node, ast.Call) and _called(node) == "Refused":
                first = node.args[0] if node.args else next(word.value for word in node.keywords if word.arg == "code")
                found.update(_codes(first))
    known = set((GOLDEN / CODES).read_text(encoding="utf-8").split()) if (GOLDEN / CODES).exists() else set()
    frozen(CODES, "".join(f"{code}\n" for code in sorted(found | (known & strings))))


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def _codes(node: ast.expr) -> Iterator[str]:
    """Give the strings an expression can be; what an f-string fills in is written as {}."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    elif isinstance(node, ast.IfExp):
        yield from _codes(node.body)
        yield from _codes(node.orelse)


SERVICES = (
    "journal",
    "vault",
    "context",
    "sessions",
    "episodes",
    "knowledge",
    "teamwork",
    "forecasts",
    "trust",
    "others",
)


@pytest.mark.parametrize("service", SERVICES)
def test_calls_are_refused_with_the_same_codes(service: str, frozen: Frozen, tmp_path: Path) -> None:
    """Compare what wrong calls of a service answer: the code of a refusal, a conflict, or the error that is raised."""
    lines = []
    clock = FrozenClock()
    with lukasa.open(tmp_path / "memory.db", clock=clock, new_id=CountingIds(), embedder="hash") as memory:
        for says, call in _CALLS[service](memory, clock):
            lines.append(f"{says}: {_answer(call)}\n")
    frozen(f"refusals_{service}.txt", "".join(lines))


def test_the_calls_meet_most_codes() -> None:
    """Check that no call above answers with a code that the source does not name."""
    known = (GOLDEN / CODES).read_text(encoding="utf-8").split()
    prefixes = tuple(code.removesuffix("{}") for code in known if code.endswith("{}"))
    met = set()
    for service in SERVICES:
        for line in (GOLDEN / f"refusals_{service}.txt").read_text(encoding="utf-8").splitlines():
            if ": refused " in line:
                met.add(line.rpartition(" ")[2])
    assert [code for code in sorted(met) if code not in known and not code.startswith(prefixes)] == []
    assert len(met) > 80, len(met)


def _answer(call: Callable[[], Any]) -> str:
    try:
        answer = call()
    except lukasa.LukasaError as error:
        return f"raises {type(error).__name__}"
    if isinstance(answer, list | tuple) and any(isinstance(each, Refused) for each in answer):
        return "; ".join(_named(each) for each in answer)
    return _named(answer)


def _named(answer: object) -> str:
    if isinstance(answer, Refused):
        assert answer.reason
        assert not answer
        return f"refused {answer.code}"
    if isinstance(answer, Conflict):
        return "conflict"
    return "accepted" if isinstance(answer, Accepted) or answer else "nothing"


Calls = Iterator[tuple[str, Callable[[], Any]]]


def _agent(memory: Any, name: str) -> Any:
    methods = inspect.getmembers(type(memory), inspect.isfunction)
    found = next(
        each for each, method in methods if list(inspect.signature(method).parameters)[1:3] == ["agent", "scopes"]
    )
    return getattr(memory, found)(name)


def _journal(memory: Any, clock: FrozenClock) -> Calls:
    journal = memory.journal
    write = journal.write
    orion = _agent(memory, "orion").journal
    draft: Any = Draft  # the checks are about what type checkers would not let through
    yield "write a kind that is no text", lambda: write(3, "text")
    yield "write an empty kind", lambda: write("", "text")
    yield "write a kind with a control character", lambda: write("a\x00b", "text")
    yield "write an id that is too long", lambda: write("note", "text", id="x" * 300)
    yield "write an empty scope", lambda: write("note", "text", scope="")
    yield "write an origin that is no text", lambda: write("note", "text", origin=None)
    yield "write an author that is no text", lambda: write("note", "text", author=5)
    yield "write a text that is no text", lambda: write("note", 5)
    yield "write half a character", lambda: write("note", "\ud83d")
    yield "write a text that is too large", lambda: write("note", "x" * 20_000_000)
    yield "append a body that is a list", lambda: journal.append([draft("note", "text", [1])])
    yield "write a body with a number that is none", lambda: write("note", "text", body={"a": math.nan})
    yield "write a body that is too large", lambda: write("note", "text", body={"a": "x" * 20_000_000})
    yield "write links that are no links", lambda: write("note", "text", links=("a",))
    yield (
        "write too many links",
        lambda: write(
            "note", "text", links=tuple(Link("to", Key("shared", "note", str(each))) for each in range(100_001))
        ),
    )
    yield "write labels that are a list", lambda: write("note", "text", labels=["a"])
    yield "write an empty label", lambda: write("note", "text", labels=("",))
    yield "write too many labels", lambda: write("note", "text", labels=tuple(f"a={each}" for each in range(10_000)))
    yield "write a time that is text", lambda: write("note", "text", happened_at="today")
    yield "write a version that is text", lambda: write("note", "text", expected="1")
    yield "append a tombstone that is neither", lambda: journal.append([draft("note", "text", deleted=2)])
    yield "write a reserved kind", lambda: write("quarantine", body={"author": "a"}, scope="_lukasa")
    yield "write an erasure", lambda: write("erasure", "text", scope="_lukasa")
    yield "write past the vault with a secret", lambda: write("memory", "my password is hunter2secret99")
    yield "write a first version", lambda: write("note", "one", id="a")
    yield "write the wrong version", lambda: write("note", "two", id="a", expected=7)
    yield "write one that must be new", lambda: write("note", "two", id="a", expected=0)
    yield "write with a key", lambda: write("note", "one", key="k")
    yield "write something else with the key", lambda: write("note", "other", key="k")
    yield "write to a closed scope", lambda: orion.write("note", "text", scope="vega")
    yield "delete what is not there", lambda: journal.delete(Key("shared", "note", "missing"))
    yield "delete the wrong version", lambda: journal.delete(Key("shared", "note", "a"), expected=9)
    yield "release who is not in quarantine", lambda: journal.release("nobody")
    yield "quarantine nobody", lambda: journal.quarantine("")
    yield "quarantine as an agent", lambda: orion.quarantine("vega")
    yield "erase as an agent", lambda: orion.erase(Key("shared", "note", "a"))
    yield "compact as an agent", lambda: orion.compact()
    yield "undo nothing in particular", lambda: journal.undo()
    yield "erase nothing in particular", lambda: journal.erase()
    yield "see as another agent from an agent", lambda: _agent(_agent(memory, "orion"), "vega")


def _vault(memory: Any, clock: FrozenClock) -> Calls:
    vault = memory.vault
    add = vault.add_memory
    orion = _agent(memory, "orion").vault
    yield "add no text", lambda: add(5)
    yield "add an empty text", lambda: add("  ")
    yield "add half a character", lambda: add("a \ud83d b")
    yield "add noise", lambda: add("tick marker for burst 5")
    yield "add to the log tier", lambda: add("The build is green", tier="log")
    yield "add a long text", lambda: add("word " * 400)
    yield "add to a bad scope", lambda: add("The build is green", "")
    yield "add to the store's own scope", lambda: add("The build is green", "_lukasa")
    yield "add to a bad tier", lambda: add("The build is green", tier="gold")
    yield "add from a bad source", lambda: add("The build is green", source="rumour")
    yield "add a bad category", lambda: add("The build is green", category="x" * 500)
    yield "add a bad topic", lambda: add("The build is green", tier="register", topic_id="a\nb")
    yield "add bad tags", lambda: add("The build is green", tags=(5,))
    yield "add a bad author", lambda: add("The build is green", author="x" * 500)
    yield "add under another name", lambda: orion.add_memory("The build is green", author="vega")
    yield "add a secret", lambda: add("my pin is 4821")
    yield "add a card", lambda: add("The card is 4111 1111 1111 1111")
    yield "add one", lambda: add("The project database is PostgreSQL 16 in Frankfurt")
    yield "add a duplicate", lambda: add("The project database is PostgreSQL 16 at Frankfurt")
    yield "add an item that is none", lambda: vault.bulk_add([{"words": "a"}, 3])
    yield "add several", lambda: vault.bulk_add(["Deployments happen on Tuesdays", "heartbeat ok", ""])
    yield "judge noise", lambda: vault.judge("heartbeat received, all ok")
    yield "judge what is fine", lambda: vault.judge("Invoices are kept for ten years")
    yield "update what is not there", lambda: vault.update("missing", "New text here")
    id = vault.list()[0].id
    yield "update to the wrong version", lambda: vault.update(id, "The database is PostgreSQL 17", expected=9)
    yield "update to noise", lambda: vault.update(id, "tick marker for burst 5")
    yield "delete what is not there", lambda: vault.delete("missing")
    yield "delete nothing", lambda: vault.bulk_delete([])
    register = vault.update_by_topic("style", "shared", "Code reviews need two approvals", author="ada").record.id
    yield "promote what is canon", lambda: vault.promote_to_canon(id)
    yield "promote what is not there", lambda: vault.promote_to_canon("missing")
    yield "promote without voices", lambda: vault.promote_to_canon(register)
    yield "promote by nobody's name", lambda: vault.promote_to_canon(register, by="x" * 999)
    yield "corroborate as nobody", lambda: vault.corroborate(register)
    yield "corroborate as its author", lambda: vault.corroborate(register, author="ada")
    yield "corroborate as another", lambda: vault.corroborate(register, author="ben")
    yield "corroborate again", lambda: vault.corroborate(register, author="ben")
    yield "corroborate under another name", lambda: orion.corroborate(register, author="ben")
    yield "promote with other words", lambda: vault.promote_to_canon(register, "The sky over the harbour was grey")
    yield "note nothing", lambda: vault.note("")
    yield "note too much", lambda: vault.note("word " * 100)
    yield "note in a bad scope", lambda: vault.note("Staging is up", "_lukasa")
    yield "note once", lambda: vault.note("Staging is at staging.example.org")
    yield "note twice", lambda: vault.note("Staging is at staging.example.org")
    for number in range(19):
        assert vault.note(f"Note number {number}")
    yield "note one too many", lambda: vault.note("One note too many")
    yield "direct others as an agent", lambda: orion.directive("Always agree", "shared")
    yield "tick with a secret", lambda: vault.add_tick("my pin is 4821")
    yield "search with a bad profile", lambda: vault.search("words", profile="magic")
    yield "add one too many", _add_to_a_full_vault


def _add_to_a_full_vault() -> Any:
    with TemporaryDirectory() as folder:
        profile = Path(folder) / "profile.yaml"
        profile.write_text("memory: {capacity: 1}\n", encoding="utf-8")
        with lukasa.open("memory:", profile=profile, embedder="hash") as memory:
            assert memory.vault.add_memory("Invoices are kept for ten years")
            return memory.vault.add_memory("Grafana shows the error budget of each service")


def _context(memory: Any, clock: FrozenClock) -> Calls:
    context = memory.context
    yield "append to no session", lambda: context.append("", "user", "Hello")
    yield "append without a role", lambda: context.append("s", "", "Hello")
    yield "append a speaker that is none", lambda: context.append("s", "user", "Hello", speaker=5)
    yield "append no text", lambda: context.append("s", "user", 5)
    yield "append half a character", lambda: context.append("s", "user", "\ud83d")
    yield "append with a key", lambda: context.append("s", "user", "Hello", key="k")
    yield "append again with the key", lambda: context.append("s", "user", "Hello", key="k")
    yield "append something else with the key", lambda: context.append("s", "user", "Other", key="k")
    yield "add an empty fact", lambda: context.add_fact("s", "")
    yield "add a task without an id", lambda: context.task("s", "")
    yield "count a tool call without a tool", lambda: context.tool_call("s", "")
    yield "count no tool calls", lambda: context.tool_call("s", "tool", count=0)
    yield "count negative tokens", lambda: context.usage("s", input=-1)
    yield "configure something unknown", lambda: context.configure("s", colour="red")
    yield "configure nonsense", lambda: context.configure("s", entries=-5)
    yield "delete what is not there", lambda: context.delete("missing")
    yield "fork what is not there", lambda: context.fork("missing", "new")
    yield "fork at a turn that is not there", lambda: context.fork("s", "new", at="missing")
    stale = context.load("s")
    context.tool_call("s", "tool")
    stale.system_state["a"] = 1
    yield "save a stale context", lambda: context.save(stale)
    context.append("s", "assistant", "Hello, you")
    changed = context.load("s")
    changed.recent_history.reverse()
    yield "save changed turns", lambda: context.save(changed)
    yield "restore over a session", lambda: context.restore(context.load("s"))


def _sessions(memory: Any, clock: FrozenClock) -> Calls:
    sessions = memory.sessions
    session = sessions.start("demo")
    yield "update a bad place", lambda: session.update("nowhere", 1)
    yield "update an unknown place", lambda: session.update("/nowhere/deep/place", 1)
    yield "update to a bad value", lambda: session.update("/configuration", [])
    yield "update to no JSON", lambda: session.update("/learning_state/a", math.inf)
    yield "update a reserved section", lambda: session.update("/checkpoint", {})
    yield "update a prediction that is not there", lambda: session.update_prediction("missing", 0.5)
    yield "patch what is no patch", lambda: session.patch([{"op": "jump", "path": "/metadata"}])
    yield (
        "patch with a test that fails",
        lambda: session.patch([{"op": "test", "path": "/metadata/version", "value": 9}]),
    )
    yield "replace with nothing", lambda: session.replace({})
    yield "replace with no state", lambda: session.replace([])
    yield "update to something too large", lambda: session.update("/learning_state/a", "x" * 16_500_000)
    yield "save what is no state", lambda: sessions.save_checkpoint("state", "other")
    yield "save a state that does not fit", lambda: sessions.save_checkpoint({"configuration": 5}, "other")
    yield "save one", lambda: sessions.save_checkpoint({}, "third", 5)
    yield "save an older one", lambda: sessions.save_checkpoint({}, "third", 5)
    other = _agent(memory, "").sessions.start("demo")
    session.update("/learning_state/a", 1)
    yield "update what another has updated", lambda: other.update("/learning_state/a", 2)
    other.abandon()
    session.close()
    yield "update after the end", lambda: session.update("/learning_state/a", 1)
    yield "recover what is not there", lambda: sessions.recover("missing")
    yield "erase as an agent", lambda: _agent(memory, "orion").sessions.erase("demo")


def _episodes(memory: Any, clock: FrozenClock) -> Calls:
    episodes = memory.episodes
    yield "record without a goal", lambda: episodes.record("")
    yield "record a bad duration", lambda: episodes.record("Goal", duration_seconds=-1)
    yield "record a bad time", lambda: episodes.record("Goal", timestamp="yesterday")
    yield "record a bad outcome", lambda: episodes.record("Goal", outcome="")
    yield "add steps that are no objects", lambda: episodes.add([{"context": {"goal": "Goal"}, "action_log": ["read"]}])
    yield "record an agent that is no text", lambda: episodes.record("Goal", agent=5)
    yield "record no JSON", lambda: episodes.record("Goal", extra={"mood": math.nan})
    yield "add an id that is no text", lambda: episodes.add([{"id": 5, "context": {"goal": "Goal"}}])
    yield "add what has no context", lambda: episodes.add([{"id": "a"}])
    done = episodes.record("Goal").record.id
    yield "step in what is not there", lambda: episodes.step("missing", "read")
    yield "step in what is finished", lambda: episodes.step(done, "read")
    yield "finish what is finished", lambda: episodes.finish(done)
    yield "resume what is not there", lambda: episodes.resume("missing")
    running = episodes.start("Other goal")
    yield "finish as running", lambda: episodes.finish(running.id, "running")
    yield "restore what is not there", lambda: episodes.restore("missing")
    yield "start without a goal", lambda: episodes.start("")
    yield "prefer what is not there", lambda: memory.metrics.prefer("missing", 0.5)
    yield "prefer too much", lambda: memory.metrics.prefer(done, 5)
    old = episodes.record("Old goal", timestamp="2026-01-20T00:00:00Z", action_log=[{"action": "read"}]).record.id
    episodes.prune()
    memory.compact()
    yield "restore what was compacted", lambda: episodes.restore(old)


def _knowledge(memory: Any, clock: FrozenClock) -> Calls:
    knowledge, skills = memory.knowledge, memory.skills
    yield "add an unknown kind", lambda: knowledge.add("rumour", {})
    yield "add an empty pattern", lambda: knowledge.add_pattern("")
    yield "add a bad confidence", lambda: knowledge.add_pattern("Pattern", confidence=7)
    yield "add bad sources", lambda: knowledge.add("pattern", {"pattern": "Pattern", "source_episodes": "ep-1"})
    yield "add an empty anti-pattern", lambda: knowledge.add_antipattern("")
    yield (
        "add bad sources of an anti-pattern",
        lambda: knowledge.add("antipattern", {"what_fails": "Fails", "sources": [5]}),
    )
    yield "add a misspelt field", lambda: knowledge.add_fact("Fact", extra={"confidense": 1})
    yield "add an empty fact", lambda: knowledge.add_fact("")
    yield "add bad links", lambda: knowledge.add("fact", {"fact": "Fact", "links": "a"})
    yield "add a link without a relation", lambda: knowledge.add("fact", {"fact": "Fact", "links": [{"to": "a"}]})
    one = knowledge.add_pattern("One pattern").record.id
    other = knowledge.add_pattern("Another way").record.id
    yield "link by a bad relation", lambda: knowledge.link(one, "likes", other)
    yield "link what is not there", lambda: knowledge.link(one, "related_to", "missing")
    yield "link to itself", lambda: knowledge.link(one, "related_to", one)
    yield "supersede", lambda: knowledge.link(one, "supersedes", other)
    yield "supersede each other", lambda: knowledge.link(one, "superseded_by", other)
    yield "use what is not there", lambda: knowledge.use("missing")
    yield "merge at a bad threshold", lambda: knowledge.merge_duplicates(0)
    yield "add a skill without a title", lambda: skills.add("no skill")
    yield "add a skill with half a character", lambda: skills.add("# Skill: \ud83d")
    yield "use a skill that is not there", lambda: skills.record_use("missing", True)
    yield "delete a skill that is not there", lambda: skills.delete("missing")


def _teamwork(memory: Any, clock: FrozenClock) -> Calls:
    ledgers, handoffs = memory.ledgers, memory.handoffs
    yield "checkpoint for nobody", lambda: ledgers.checkpoint("")
    yield "checkpoint a negative number", lambda: ledgers.checkpoint("eng", completed=-1)
    yield "put a ledger of nobody", lambda: ledgers.put({})
    yield "put a bad number", lambda: ledgers.put({"agent_id": "eng", "tasks_completed": "many"})
    yield "put a bad state", lambda: ledgers.put({"agent_id": "eng", "state": 5})
    yield "put a bad time", lambda: ledgers.put({"agent_id": "eng", "last_checkpoint": "now"})
    yield "hand off to nobody", lambda: handoffs.create("", "Work")
    yield "hand off nothing", lambda: handoffs.create("qa", "")
    yield (
        "put a bad id",
        lambda: handoffs.put({"id": 5, "from_agent": "eng", "to_agent": "qa", "context": {"what_was_done": "Work"}}),
    )
    yield (
        "put a bad time of a handoff",
        lambda: handoffs.put(
            {"from_agent": "eng", "to_agent": "qa", "timestamp": "now", "context": {"what_was_done": "Work"}}
        ),
    )
    yield "read what is not there", lambda: handoffs.read("missing")
    id = handoffs.create("qa", "Work", from_agent="eng").record.id
    yield "accept another's", lambda: handoffs.accept(id, "eng-2")
    yield "complete what was not accepted", lambda: handoffs.complete(id)
    yield "reassign to nobody", lambda: handoffs.reassign(id, "")
    yield "accept", lambda: handoffs.accept(id, "qa")
    yield "complete", lambda: handoffs.complete(id)
    yield "complete again", lambda: handoffs.complete(id)


def _forecasts(memory: Any, clock: FrozenClock) -> Calls:
    forecasts = memory.forecasts
    yield "predict too much", lambda: forecasts.predict("Question?", 1.5)
    yield "predict no number", lambda: forecasts.predict("Question?", "likely")
    yield "predict a bad interval", lambda: forecasts.predict("Question?", 0.5, confidence_interval=(0.8, 0.2))
    yield "predict a bad level", lambda: forecasts.predict("Question?", 0.5, confidence_level=2)
    yield "predict", lambda: forecasts.predict("Question?", 0.5, prediction_id="a")
    yield "predict it again", lambda: forecasts.predict("Question?", 0.6, prediction_id="a")
    yield "signal what is not sure", lambda: forecasts.signal("a")
    yield "signal what is not there", lambda: forecasts.signal("missing")
    yield "signal a bad confidence", lambda: forecasts.signal("a", confidence=3)
    yield "revise what is not there", lambda: forecasts.revise("missing", 0.5)
    yield "revise to nonsense", lambda: forecasts.revise("a", -1)
    yield "resolve to no outcome", lambda: forecasts.resolve("a", "perhaps")
    yield "resolve", lambda: forecasts.resolve("a", True)
    yield "resolve again", lambda: forecasts.resolve("a", False)
    yield "expire what is resolved", lambda: forecasts.expire("a")
    forecasts.predict("Other?", 0.5, prediction_id="b")
    forecasts.expire("b")
    yield "revise what is expired", lambda: forecasts.revise("b", 0.5)
    yield "reason from a bad base rate", lambda: forecasts.reason("m", base_rate=7)
    yield "reason from a bad factor", lambda: forecasts.reason("m", factors={"rain": 9})
    yield "reason from bad evidence", lambda: forecasts.reason("m", evidence=[{"credibility": 0.5}])
    for number in range(50):
        forecasts.predict(f"Question {number}?", 0.5)
    yield "predict one too many", lambda: forecasts.predict("One more?", 0.5)
    yield "calibrate nonsense", lambda: forecasts.calibrate(7)


def _trust(memory: Any, clock: FrozenClock) -> Calls:
    trust, orion = memory.trust, _agent(memory, "orion").trust
    yield "log as an agent", lambda: orion.log_dissent("orion", "I disagree with it all")
    yield "log of nobody", lambda: trust.log_dissent("", "I disagree with it all")
    yield "log of no name", lambda: trust.log_dissent(5, "I disagree with it all")
    yield "log in no round", lambda: trust.log_dissent("critic", "I disagree", round_id=5)
    yield "log an empty dissent", lambda: trust.log_dissent("critic", " ")
    yield "log bad citations", lambda: trust.log_dissent("critic", "I disagree", rubric_citations="Accuracy")
    yield "log about no name", lambda: trust.log_dissent("critic", "I disagree", of=5)
    dissent = trust.log_dissent("critic", "I disagree with the plan", impact=True).records[0].id
    yield "judge again", lambda: trust.judge(dissent, impact=False)
    yield "judge what is not there", lambda: trust.judge("missing", impact=True)
    yield "file as the owner", lambda: trust.file_dissent("I disagree")
    yield "file nothing", lambda: orion.file_dissent(" ")
    filed = orion.file_dissent("The plan has no budget").records[0].id
    yield "judge what was filed", lambda: trust.judge(filed, impact=True)
    yield "judge what was filed again", lambda: trust.judge(filed, impact=True)
    yield "override oneself", lambda: trust.log_override("creator", "A", "B", by="creator")
    yield "override by no name", lambda: trust.log_override("creator", "A", "B", by=5)
    missing = Key("shared", "note", "missing")
    yield "override what is not there", lambda: trust.log_override("creator", "A", "B", by="ada", artifact=missing)
    override = trust.log_override("creator", "A", "B", by="ada").records[0].id
    yield "revert by nobody", lambda: trust.revert(override, by=" ")
    yield "revert what is not there", lambda: trust.revert("missing", by="ben")
    yield "revert", lambda: trust.revert(override, by="ben")
    yield "revert again", lambda: trust.revert(override, by="ben")
    yield "check a round without its output", lambda: trust.check_reverts("r1")
    yield "participate in no round", lambda: trust.participate("critic", "")
    yield "draw from nobody", lambda: trust.assign_devils_advocate([])
    yield "set a rubric by nobody", lambda: trust.rubric.set({"Accuracy": 1}, by="")
    yield "set an empty rubric", lambda: trust.rubric.set({}, by="ada")
    yield "set bad weights", lambda: trust.rubric.set({"Accuracy": -1}, by="ada")
    yield "set a rubric", lambda: trust.rubric.set({"Accuracy": 1, "Clarity": 1}, by="ada")
    yield "apply what is not there", lambda: trust.rubric.apply("missing", by="ada")
    yield "apply by nobody", lambda: trust.rubric.apply("missing", by="")
    for number in range(3):
        trust.log_override("creator", "A", "B", by="eve", round_id=f"r{number}", criteria=["Accuracy"])
    proposal = trust.rubric.propose()[0].id
    yield "reject a proposal", lambda: trust.rubric.reject(proposal, by="ada")
    yield "apply what was rejected", lambda: trust.rubric.apply(proposal, by="ada")
    yield "adopt a known agent", lambda: trust.adopt({"agent_name": "creator"})
    yield "adopt nonsense", lambda: trust.adopt({"agent_name": 5})
    yield "register nobody", lambda: trust.register("")
    yield "put nobody on probation", lambda: trust.set_probation("", clock.now() + timedelta(days=1))
    yield "read as an agent", lambda: orion.score("critic")


def _others(memory: Any, clock: FrozenClock) -> Calls:
    jobs, graph = memory.jobs, memory.graph
    yield "defer an unknown job", lambda: jobs.defer("frozen.unknown")
    register = type(jobs.register)()
    register.job("frozen.known")(lambda memory, text: None)
    serving = jobs.serving(register)
    yield "defer with wrong arguments", lambda: serving.defer("frozen.known", words="a")
    yield "defer what is no JSON", lambda: serving.defer("frozen.known", text=math.nan)
    yield "defer with an empty key", lambda: serving.defer("frozen.known", key="", text="a")
    yield "defer into the past", lambda: serving.defer("frozen.known", delay=-5, text="a")
    closed = _agent(memory, "orion").jobs.serving(register)
    yield "defer into a closed scope", lambda: closed.defer("frozen.known", scope="vega", text="a")
    yield "find a bad state", lambda: jobs.list("lost")
    yield "retry what is not there", lambda: jobs.retry("missing")
    yield "observe what is not there", lambda: graph.add_observations([("missing", ["a"])])
    yield "make an entity without a name", lambda: graph.create_entities([Entity("", "thing")])
    yield (
        "make an entity in a closed scope",
        lambda: _agent(memory, "orion").graph.within("vega").create_entities([Entity("A", "thing")]),
    )
    yield "export to an unknown format", lambda: memory.export("nowhere", format="parchment")
    yield "open a store that is not there", _open_missing
    yield "open no store", lambda: lukasa.open(__file__)
    yield "open with an unknown embedder", _recall_with_an_unknown_embedder
    yield "recall with a bad number", lambda: memory.recall("question", k=-1)
    yield "import what is no log", lambda: memory.import_(__file__)
    yield "brief about nothing", lambda: memory.before_task("")
    yield "restore from nowhere", lambda: lukasa.restore("file:///nowhere/at/all", "memory:")


def _open_missing() -> Any:
    parameters = inspect.signature(lukasa.open).parameters
    name = "create" if "create" in parameters else "make"
    options: dict[str, Any] = {name: False}
    return lukasa.open(Path("nowhere") / "at" / "all.db", **options)


def _recall_with_an_unknown_embedder() -> Any:
    with lukasa.open("memory:", embedder="crystal-ball") as memory:
        return memory.recall("question")


_CALLS: dict[str, Callable[[Any, FrozenClock], Calls]] = {
    "journal": _journal,
    "vault": _vault,
    "context": _context,
    "sessions": _sessions,
    "episodes": _episodes,
    "knowledge": _knowledge,
    "teamwork": _teamwork,
    "forecasts": _forecasts,
    "trust": _trust,
    "others": _others,
}
