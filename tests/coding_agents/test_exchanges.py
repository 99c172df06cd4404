"""Transcripts are read as exchanges; what nobody said is no turn."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lukasa.transfer.layouts.agent_transcripts import parse_transcript, spoken_text

pytestmark = pytest.mark.requirement("AGT-1")


def test_an_exchange_has_request_calls_and_final_answer(lines: Any) -> None:
    lines.ask("Make the checkout retry once")
    lines.say("I look at the client first.")
    lines.call("Edit", file_path="/srv/shop/client.py", old_string="a", new_string="b")
    lines.call("Bash", "[main 1a2b3c4] Retry the checkout once\n 1 file changed", command="git commit -am 'Retry'")
    lines.call("Bash", "https://github.com/acme/shop/pull/12", command="gh pr create --fill")
    lines.say("The checkout retries once because the gateway drops the first call.")
    lines.ask("thanks")
    lines.lines.append({"type": "summary", "summary": "Checkout retry"})
    transcript = parse_transcript(lines.lines)
    first, second = transcript.exchanges
    assert (first.request, len(first.calls), second.request) == ("Make the checkout retry once", 3, "thanks")
    assert first.answer == "The checkout retries once because the gateway drops the first call."
    assert (transcript.branch, transcript.folder, transcript.title) == ("main", "/srv/shop", "Checkout retry")
    assert transcript.commits == (("1a2b3c4", "Retry the checkout once"),)
    assert transcript.pull_requests == ("https://github.com/acme/shop/pull/12",)
    assert transcript.files == ("/srv/shop/client.py",)
    assert not transcript.is_finished


@pytest.mark.parametrize(
    "text",
    [
        "<system-reminder>Be brief.</system-reminder>",
        "<local-command-stdout>Bye!</local-command-stdout>",
        "<bash-stdout>total 0</bash-stdout><bash-stderr></bash-stderr>",
        "<task-notification>done</task-notification>",
        "[Request interrupted by user for tool use]",
        "# AGENTS.md instructions for /srv/shop\n\n<INSTRUCTIONS>Use tabs.</INSTRUCTIONS>",
        "This session is being continued from a previous conversation that ran out of context.",
    ],
)
def test_what_nobody_said_is_no_turn(lines: Any, text: str) -> None:
    assert spoken_text(text) == ""
    lines.ask(text)
    assert parse_transcript(lines.lines).turns == ()


def test_a_command_is_said_with_its_arguments_and_a_reminder_beside_a_request_is_not(lines: Any) -> None:
    command = "<command-name>/review</command-name>\n<command-message>review</command-message>\n<command-args>the diff</command-args>"
    assert spoken_text(command) == "/review the diff"
    assert spoken_text("Fix it.<ide_opened_file>The user opened a.py</ide_opened_file>") == "Fix it."
    lines.ask(
        "<command-name>/exit</command-name><command-args></command-args>"
    )  # the program's own: nothing came of it
    lines.ask("Fix it")
    assert [item.turn["content"] for item in parse_transcript(lines.lines).turns] == ["Fix it"]


def test_calls_and_their_output_are_turns_that_are_not_said(lines: Any) -> None:
    lines.ask("Fix it")
    lines.call("Bash", "a.py b.py", command="ls")
    said = {item.turn["content"]: item.is_said for item in parse_transcript(lines.lines).turns}
    assert said == {"Fix it": True, "[Bash ls]": False, "a.py b.py": False}


def test_a_session_of_codex_is_read_with_its_calls_and_branch() -> None:
    def item(**payload: Any) -> dict[str, Any]:
        return {"timestamp": "2026-03-01T10:00:00Z", "type": "response_item", "payload": payload}

    def message(role: str, text: str) -> dict[str, Any]:
        kind = "input_text" if role == "user" else "output_text"
        return item(type="message", role=role, content=[{"type": kind, "text": text}])

    failed = json.dumps({"output": "error: no such target", "metadata": {"exit_code": 2}})
    transcript = parse_transcript(
        [
            {"type": "session_meta", "payload": {"id": "s", "cwd": "/srv/shop", "git": {"branch": "retry"}}},
            message("user", "# AGENTS.md instructions for /srv/shop\n\n<INSTRUCTIONS>Use tabs.</INSTRUCTIONS>"),
            message("user", "<environment_context><cwd>/srv/shop</cwd></environment_context>"),
            message("user", "Run the tests"),
            item(type="function_call", name="shell", call_id="c1", arguments=json.dumps({"command": ["bash", "-lc", "make tets"]})),
            item(type="function_call_output", call_id="c1", output=failed),
            item(type="custom_tool_call", name="apply_patch", call_id="c2", input="*** Begin Patch\n*** Update File: Makefile\n"),
            item(type="custom_tool_call_output", call_id="c2", output="Exit code: 0\nDone!"),
            message("assistant", "The target is called test."),
        ]
    )  # fmt: skip
    (exchange,) = transcript.exchanges
    assert (transcript.goal, transcript.branch, exchange.answer) == (
        "Run the tests",
        "retry",
        "The target is called test.",
    )
    assert [(call.command, call.is_failed, call.output) for call in exchange.calls[:1]] == [
        ("make tets", True, "error: no such target")
    ]
    assert transcript.files == ("Makefile",)


def test_an_error_of_the_program_is_no_failure(lines: Any) -> None:
    lines.ask("Fix it")
    lines.call("Bash", "<tool_use_error>Sibling tool call errored</tool_use_error>", is_error=True, command="make lint")
    lines.call("Bash", "Exit code 1\nerror: lint", is_error=True, command="make lint")
    assert [call.is_failed for call in parse_transcript(lines.lines).calls] == [False, True]
