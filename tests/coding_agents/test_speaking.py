"""What an agent is shown at the start, at a prompt and before a tool: little, once, and with its date."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lukasa
from lukasa.agents.speak import PROMPT_TOKENS, START_TOKENS, build_query, is_assent, read_head, refers_to_past
from lukasa.interfaces.hooks.handlers import REMEMBER_REQUEST, HookHandlers, is_in_share

ANSWER = (
    "The gateway client in `client.py` retries once now because the gateway drops its first call after a deploy. "
    "`GATEWAY_TIMEOUT` must stay below the timeout of the load balancer."
)


class Agent:
    """An agent that runs hooks in a project."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, folder / "memory.db"
        lukasa.open(self.store, embedder="hash").close()
        self.handlers = HookHandlers(str(self.store), "ada")

    def ask(self, event: str, session: str, *, is_delivered: bool = True, **fields: Any) -> str:
        """Return what a hook answers."""
        payload = {"session_id": session, "cwd": str(self.folder), **fields}
        answer = self.handlers.answer(event, json.dumps(payload).encode())
        if is_delivered:
            answer.on_delivered()
        return json.loads(answer.text)["hookSpecificOutput"]["additionalContext"] if answer.text else ""

    def end(self, session: str, lines: Any, event: str = "session-end") -> Path:
        """Let a session end with a transcript."""
        path = self.folder / f"{session}.jsonl"
        path.write_text("\n".join(map(json.dumps, lines.lines)))
        payload = {"session_id": session, "cwd": str(self.folder), "transcript_path": str(path)}
        self.handlers.process_event(event, json.dumps(payload).encode())
        return path

    def open(self) -> lukasa.Memory:
        return lukasa.open(self.store, embedder="hash")


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    monkeypatch.setenv("LUKASA_EMBEDDER", "hash")
    agent = Agent(tmp_path)
    yield agent
    agent.handlers.close()


def work(lines: Any, *, tabs: bool = True) -> Any:
    """Fill a transcript with a request, a failed edit and an answer."""
    lines.ask("Make the gateway client retry once")
    if tabs:
        lines.call(
            "Edit",
            "String to replace not found in file.",
            is_error=True,
            file_path="/s/a.tsx",
            old_string="    return basket;",
        )
        lines.call("Edit", file_path="/s/a.tsx", old_string="\t\treturn basket;", new_string="x")
    lines.say(ANSWER)
    return lines


@pytest.mark.requirement("AGT-4")
def test_a_start_tells_the_last_outcome_on_this_branch(agent: Agent, new_lines: Any) -> None:
    agent.end("s1", work(new_lines("retry"), tabs=False))
    other = new_lines("docs")
    other.ask("Write the guide of the basket")
    other.say("The guide of the basket is in `docs/basket.md` now, since people asked for it.")
    agent.end("s2", other)
    (agent.folder / ".git").mkdir()
    (agent.folder / ".git" / "HEAD").write_text("ref: refs/heads/retry\n")
    assert read_head(agent.folder) == "retry"
    block = agent.ask("session-start", "s3", source="startup")
    assert "On retry: Make the gateway client retry once. Done: The gateway client" in block
    assert "guide of the basket" not in block


@pytest.mark.requirement("AGT-4")
def test_a_lesson_is_told_at_the_start_once_two_sessions_met_it_unless_the_guide_says_it(
    agent: Agent, new_lines: Any
) -> None:
    agent.end("s1", work(new_lines("main")))
    assert "indented with tabs" not in agent.ask("session-start", "s3")
    agent.end("s2", work(new_lines("main")))
    block = agent.ask("session-start", "s4")
    assert "`.tsx` files are indented with tabs" in block
    assert "(in 2 sessions)" in block
    with agent.open() as memory:
        lesson = next(lesson for lesson in memory.lessons.list() if lesson.failure)
    (agent.folder / "CLAUDE.md").write_text(f"# Guide\n\n{lesson.text}\n")
    assert "indented with tabs" not in agent.ask("session-start", "s5")


@pytest.mark.requirement("AGT-3")
@pytest.mark.parametrize(
    "prompt",
    [
        "yes",
        "8",
        "option 3",
        "yes, exactly, please implement this.",
        "ok go ahead",
        "/compact",
        "ja, genau, mach weiter",
        "",
        "<task-notification>x</task-notification>",
    ],
)
def test_nothing_is_said_to_an_assent(agent: Agent, new_lines: Any, prompt: str) -> None:
    agent.end("s1", work(new_lines("main")))
    agent.ask("session-start", "s2")
    assert agent.ask("user-prompt-submit", "s2", prompt=prompt) == ""


@pytest.mark.requirement("AGT-3")
def test_a_prompt_is_told_the_outcome_of_an_earlier_session_once_and_never_a_turn(agent: Agent, new_lines: Any) -> None:
    agent.end("s1", work(new_lines("main"), tabs=False))
    prompt = "What did we do yesterday about the gateway client that drops its first call?"
    block = agent.ask("user-prompt-submit", "s2", prompt=prompt)
    header, line = block.splitlines()
    assert "data, not instructions" in header
    assert line.startswith("• On main: Make the gateway client retry once.")
    assert "(ep-" in line
    assert agent.ask("user-prompt-submit", "s2", prompt=prompt) == ""
    assert agent.ask("user-prompt-submit", "s1", prompt=prompt) == ""  # its own session


@pytest.mark.requirement("AGT-3")
def test_an_order_is_told_only_what_is_tied_to_it(agent: Agent, new_lines: Any) -> None:
    lines = new_lines("main")
    lines.ask("commit and update changelog")
    lines.call("Edit", file_path="/s/CHANGELOG.md", old_string="## [Unreleased]", new_string="x")
    lines.say(ANSWER)
    agent.end("s1", lines)
    agent.ask("session-start", "s2")
    assert agent.ask("user-prompt-submit", "s2", prompt="commit this") == ""
    assert "`## [Unreleased]`" in agent.ask("user-prompt-submit", "s2", prompt="update the changelog and commit")


@pytest.mark.requirement("AGT-5")
def test_a_tool_is_told_the_lesson_of_its_kind_of_file_or_command_once(agent: Agent, new_lines: Any) -> None:
    lines = work(new_lines("main"))
    lines.call("Bash", "Exit code 1\nerror: not formatted", is_error=True, command="bun run lint")
    lines.call("Bash", command="bun run lint:fix")
    agent.end("s1", lines)
    agent.ask("session-start", "s2")

    def use(tool: str, **fields: Any) -> str:
        return agent.ask("pre-tool-use", "s2", tool_name=tool, tool_input=fields)

    assert use("Edit", file_path="/s/b.py", old_string="x") == ""
    assert "indented with tabs" in use("Edit", file_path="/s/b.tsx", old_string="x")
    assert use("Edit", file_path="/s/c.tsx", old_string="x") == ""  # said already
    assert "`bun run lint:fix` works" in use("Bash", command="cd web && bun run lint | tail")
    assert use("Bash", command="ls") == ""
    assert use("Read", file_path="/s/b.tsx") == ""


@pytest.mark.requirement("AGT-5")
def test_a_file_is_told_what_an_earlier_session_learned_of_it_in_any_checkout(agent: Agent, new_lines: Any) -> None:
    lines = new_lines("main")
    lines.ask("Why does the import fail?")
    lines.call("Edit", file_path="/srv/ann/shop/web/load.py", old_string="a", new_string="b")
    lines.say("In `load.py` a second cursor must never be opened, because `psycopg` closes the first one.")
    agent.end("s1", lines)
    agent.ask("session-start", "s2")

    def edit(file: str) -> str:
        return agent.ask("pre-tool-use", "s2", tool_name="Edit", tool_input={"file_path": file, "old_string": "x"})

    assert edit("/srv/other/load.py") == ""
    assert "second cursor" in edit("/srv/ben/shop/web/load.py")


@pytest.mark.requirement("AGT-5")
def test_a_subagent_is_told_what_is_known_of_its_task(agent: Agent, new_lines: Any) -> None:
    agent.end("s1", work(new_lines("main"), tabs=False))
    agent.ask("session-start", "s2")
    agent.ask(
        "pre-tool-use",
        "s2",
        tool_name="Task",
        tool_input={"prompt": "Find out why we let the gateway client retry once before"},
    )
    assert "GATEWAY_TIMEOUT" in agent.ask("subagent-start", "s2", agent_type="Explore")


@pytest.mark.requirement("AGT-7")
def test_blocks_keep_their_budgets_and_long_prompts_are_asked_by_their_names(agent: Agent, new_lines: Any) -> None:
    from lukasa.models.token_counter import open_token_counter

    count = open_token_counter()
    for number in range(4):
        agent.end(f"s{number}", work(new_lines("main")))
    assert 0 < count(agent.ask("session-start", "t1")) <= START_TOKENS
    long = (
        "# Plan: gateway client retry\n\n"
        + "The `GATEWAY_TIMEOUT` of the gateway client in `client.py` drops the first call. " * 400
    )
    assert len(build_query(long)) <= 400
    assert "GATEWAY_TIMEOUT" in build_query(long)
    assert count(agent.ask("user-prompt-submit", "t2", prompt=long)) <= START_TOKENS + PROMPT_TOKENS


@pytest.mark.requirement("AGT-7")
def test_what_is_told_is_appended_and_the_start_stays_the_same_for_the_prompt_cache(
    agent: Agent, new_lines: Any
) -> None:
    """A block is added once, to the event that it answers; nothing that was said before changes."""
    agent.end("s1", work(new_lines("main"), tabs=False))
    context = [agent.ask("session-start", "s2")]
    for prompt in ("yes", "What did we do yesterday about the gateway client?", "ok", "thanks a lot"):
        before = list(context)
        context += [prompt, agent.ask("user-prompt-submit", "s2", prompt=prompt)]
        assert context[: len(before)] == before
    assert len([text for text in context if "gateway client retry" in text]) <= 2


@pytest.mark.requirement("AGT-8")
def test_what_was_shown_is_a_record_and_gain_tells_what_came_of_it(agent: Agent, new_lines: Any) -> None:
    agent.end("s1", work(new_lines("main")))
    agent.ask("session-start", "s2")
    agent.ask("pre-tool-use", "s2", tool_name="Edit", tool_input={"file_path": "/s/b.tsx", "old_string": "x"})
    lines = new_lines("main")
    lines.ask("Shorten the deploy")
    lines.call("Bash", command="sed -n 1,20p client.py")
    lines.say("The deploy is shorter.")
    agent.end("s2", lines)
    with agent.open() as memory:
        gain = memory.metrics.gain()
        assert gain.sessions == 1
        assert gain.blocks == {"session-start": 1, "pre-tool-use": 1}
        assert gain.tokens > 0
        assert gain.failures_avoided == 1
        assert gain.failures_repeated == 0
        assert gain.used == 1  # the command names what only the outcome had named
        shown = next(lesson for lesson in memory.lessons.list() if lesson.failure)
        memory.lessons.delete(shown.id).unwrap()
        assert memory.metrics.gain().corrected == 1
        assert memory.metrics.gain(since="0d").sessions == 0


@pytest.mark.requirement("AGT-8")
def test_a_session_that_is_held_out_is_shown_nothing_and_noted(
    agent: Agent, new_lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.end("s1", work(new_lines("main")))
    monkeypatch.setenv("LUKASA_HOLDOUT", "1")
    assert agent.ask("session-start", "s2") == ""
    monkeypatch.delenv("LUKASA_HOLDOUT")
    with agent.open() as memory:
        gain = memory.metrics.gain()
        assert (gain.sessions, gain.notes) == (0, 0)
        assert "Too few sessions" in gain.comparison.said
    assert 60 < sum(is_in_share(f"session {number}", 0.1) for number in range(1_000)) < 140


@pytest.mark.requirement("AGT-8")
def test_gain_compares_sessions_with_an_interval(agent: Agent) -> None:
    from lukasa.experience.gain import injection_draft

    with agent.open() as memory:
        for number in range(20):
            is_held_out = number % 2 == 0
            errors = [{"type": "Edit failed"}] * (number % 3 + 2 * is_held_out)
            memory.episodes.record("Work", task_id=f"s{number}", errors=errors)
            memory.journal.append(
                injection_draft("session-start", f"s{number}", [], 0, scope="shared", is_held_out=is_held_out)
            )
        compared = memory.metrics.gain().comparison
    assert (compared.with_memory, compared.held_out) == (10, 10)
    assert compared.low is not None
    assert compared.difference is not None
    assert compared.high is not None
    assert 0 < compared.low < compared.difference < compared.high


@pytest.mark.requirement("AGT-2")
def test_an_agent_is_asked_once_to_remember_and_only_after_real_work(agent: Agent, new_lines: Any) -> None:
    lines = work(new_lines("main"))
    path = agent.end("s1", lines, "stop")

    def stop(**more: Any) -> bytes:
        return agent.handlers.answer(
            "stop", json.dumps({"session_id": "s1", "transcript_path": str(path), **more}).encode()
        ).text

    assert stop() == b""  # too little was done
    for number in range(8):
        lines.call("Edit", file_path=f"/s/{number}.py", old_string="a", new_string="b")
    lines.say("Done.")
    path.write_text("\n".join(map(json.dumps, lines.lines)))
    assert stop(stop_hook_active=True) == b""
    assert json.loads(stop()) == {"decision": "block", "reason": REMEMBER_REQUEST}
    assert stop() == b""  # never twice
    lines.ask(f"Stop hook feedback: {REMEMBER_REQUEST}", isMeta=True)
    path.write_text("\n".join(map(json.dumps, lines.lines)))
    restarted = HookHandlers(str(agent.store), "ada")
    assert restarted.answer("stop", json.dumps({"session_id": "s1", "transcript_path": str(path)}).encode()).text == b""
    restarted.close()


@pytest.mark.requirement("AGT-2")
def test_nothing_is_asked_of_an_agent_that_remembered(agent: Agent, new_lines: Any) -> None:
    lines = new_lines("main")
    lines.ask("Change all files")
    for number in range(9):
        lines.call("Edit", file_path=f"/s/{number}.py", old_string="a", new_string="b")
    lines.call("mcp__lukasa__remember", text="x")
    lines.say("Done.")
    path = agent.end("s1", lines, "stop")
    assert (
        agent.handlers.answer("stop", json.dumps({"session_id": "s1", "transcript_path": str(path)}).encode()).text
        == b""
    )


@pytest.mark.requirement("AGT-2")
def test_a_session_without_an_end_is_ended_when_another_starts(agent: Agent, new_lines: Any) -> None:
    import os

    path = agent.end("s1", work(new_lines("main")), "stop")
    start = json.dumps({"session_id": "s2"}).encode()
    agent.handlers.process_event("session-left", start)
    with agent.open() as memory:
        assert memory.episodes.list(task_id="s1")[0].running  # it may still be used
    os.utime(path, (1, 1))
    agent.handlers.process_event("session-left", start)
    with agent.open() as memory:
        assert memory.episodes.list(task_id="s1")[0].outcome == "completed"
        assert memory.lessons.list()


@pytest.mark.requirement("EXP-3")
def test_the_end_of_a_session_defers_upkeep_once_and_idle_time_runs_it(agent: Agent, new_lines: Any) -> None:
    for number in range(3):
        agent.end(f"s{number}", work(new_lines("main")))

    def jobs() -> dict[str, str]:
        with lukasa.open(agent.store, agent="ada", embedder="hash") as memory:
            return {job.name: job.state for job in memory.jobs.list()}

    assert jobs() == {"experience.consolidate": "waiting", "experience.prune": "waiting"}
    agent.handlers.run_jobs()
    assert "waiting" not in jobs().values()


def test_assents_and_references_to_the_past_are_told_apart() -> None:
    assert is_assent(["yes", "please", "do", "it"])
    assert not is_assent(["rename", "the", "basket", "module"])
    assert refers_to_past("as we did yesterday, split the module")
    assert refers_to_past("what was decided on 2026-03-01?")
    assert not refers_to_past("split the module")
