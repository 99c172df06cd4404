"""A session is distilled into one outcome and few learnings; lessons come from failures that were measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lukasa
from lukasa.agents.distil import describe_outcome, find_learnings, find_places
from lukasa.agents.failures import command_head, find_failures
from lukasa.agents.keep import keep_session
from lukasa.experience.lessons import LessonDraft
from lukasa.transfer.layouts.agent_transcripts import parse_transcript
from support.json_endpoint import JsonEndpoint, serve_endpoint


@pytest.mark.requirement("AGT-2")
def test_the_outcome_says_what_was_asked_done_and_left_open(lines: Any) -> None:
    lines.ask("Make the checkout retry once")
    lines.call("Bash", "[main 1a2b3c4] Retry the checkout", command="git commit -m x")
    lines.say("The checkout in `client.py` retries once now.\n\nShould the timeout of the gateway be raised as well?")
    lines.ask("no. raise the limit of the basket to twenty instead")
    outcome = describe_outcome(parse_transcript(lines.lines))
    assert outcome.asked == "Make the checkout retry once"
    assert "retries once now" in outcome.done
    assert "Retry the checkout" in outcome.done
    assert "raise the limit" in outcome.open


@pytest.mark.requirement("AGT-2")
def test_learnings_name_things_and_give_reasons_and_leave_out_steps(lines: Any) -> None:
    lines.ask("Why does the import fail?")
    lines.say(
        "Let me summarise what I did.\n\n- The importer in `load_rows` must never open a second cursor, because "
        "`psycopg` closes the first one.\n- All tests pass.\n```\ncode_sample = because_of_this\n```\n"
        + "\n".join(
            f"- `module_{i}.py` requires `setting_{i}` since it {i} reads it only at the start." for i in range(9)
        )
    )
    learnings = find_learnings(parse_transcript(lines.lines))
    texts = " ".join(learning.text for learning in learnings)
    assert 1 <= len(learnings) <= 5
    assert all(len(learning.text) <= 280 for learning in learnings)
    assert "summarise" not in texts
    assert "code_sample" not in texts


@pytest.mark.requirement("AGT-6")
def test_an_edit_that_missed_the_indentation_tells_how_files_are_indented(lines: Any) -> None:
    lines.ask("Rename it")
    lines.call(
        "Edit",
        "String to replace not found in file.",
        is_error=True,
        file_path="/s/App.tsx",
        old_string="    return <Basket />;",
    )
    lines.call("Read", "     7→\t\treturn <Basket />;", file_path="/s/App.tsx")
    lines.call("Edit", file_path="/s/App.tsx", old_string="\t\treturn <Basket />;", new_string="x")
    (failure,) = find_failures(parse_transcript(lines.lines).calls)
    assert failure.remedy.startswith("`.tsx` files are indented with tabs")
    assert failure.signature.endswith(" in .tsx")


@pytest.mark.requirement("AGT-6")
def test_a_command_that_failed_is_told_with_the_variant_that_works(lines: Any) -> None:
    lines.ask("Clean up")
    lines.call(
        "Bash",
        "Exit code 1\n$ biome check\nerror: 3 files are not formatted",
        is_error=True,
        command="cd web && bun run lint 2>&1 | tail -5",
    )
    lines.call("Bash", "fixed", command="bun run lint:fix")
    (failure,) = find_failures(parse_transcript(lines.lines).calls)
    assert failure.remedy == "`bun run lint` failed (error: 3 files are not formatted); `bun run lint:fix` works."


@pytest.mark.requirement("AGT-6")
@pytest.mark.parametrize(
    ("output", "remedy"),
    [
        (
            "error: unrecognized subcommand 'bun'",
            "`rtk bun run test` failed (error: unrecognized subcommand 'bun'); `bun run test` works.",
        ),
        ("error: 3 tests failed", ""),
    ],
)
def test_a_shorter_command_is_a_remedy_only_of_an_error_about_the_command(lines: Any, output: str, remedy: str) -> None:
    lines.ask("Run the tests")
    lines.call("Bash", f"Exit code 1\n{output}", is_error=True, command="rtk bun run test")
    lines.call("Bash", "ok", command="bun run test")
    assert find_failures(parse_transcript(lines.lines).calls)[0].remedy == remedy


@pytest.mark.requirement("AGT-6")
def test_a_failed_commit_is_a_lesson_only_if_its_cause_lay_outside_of_the_work(lines: Any, new_lines: Any) -> None:
    for session, remedy in (
        (lines, {"name": "Bash", "command": "rm -rf tmp/clones"}),
        (new_lines(), {"name": "Edit", "file_path": "a.py"}),
    ):
        session.ask("commit")
        session.call("Edit", file_path="a.py", old_string="a", new_string="b")
        session.call("Bash", "error: hook failed", is_error=True, command="git commit -m x")
        session.say("The pre-commit hook picks up tests in `tmp/clones`.")
        session.call(**remedy)
        session.call("Bash", "[main 1a2b3c4] x", command="git commit -m x")
    outside, own = (find_failures(parse_transcript(session.lines).calls)[0] for session in (lines, session))
    assert outside.remedy == "`git commit` failed: The pre-commit hook picks up tests in `tmp/clones`."
    assert own.remedy == ""


@pytest.mark.requirement("AGT-6")
@pytest.mark.parametrize(
    ("command", "head"),
    [
        ("bun run lint 2>&1 | tail -5", "bun run lint"),
        ("cd a && FOO=1 npm test -- --watch", "npm test"),
        ("ls -la", ""),
        ("git commit -m 'x y'", "git commit"),
        ("./run.sh all", ""),
        ("", ""),
    ],
)
def test_a_command_is_known_by_its_first_words(command: str, head: str) -> None:
    assert command_head(command) == head


@pytest.mark.requirement("AGT-2")
def test_a_short_request_tells_where_its_file_is_edited(lines: Any) -> None:
    lines.ask("commit and update changelog")
    lines.call("Edit", file_path="/s/CHANGELOG.md", old_string="## [Unreleased]\n\n### Added", new_string="x")
    (place,) = find_places(parse_transcript(lines.lines))
    assert place.text.startswith("`CHANGELOG.md` was edited under `## [Unreleased]`, `### Added`")
    assert place.command == "changelog"


@pytest.mark.requirement("AGT-6")
def test_lessons_merge_across_sessions_with_count_and_evidence() -> None:
    with lukasa.open("memory:", embedder="hash") as memory:
        memory.lessons.add("Run `make lint` before a commit.", command="git commit", session="s1")
        memory.lessons.add("Run `make lint` before a commit", session="s2", files=["/s/a.py"])
        memory.lessons.add("Run `make lint` before a commit", session="s2")
        memory.lessons.extend([LessonDraft("`a` failed", failure="command a")], session="s1")
        memory.lessons.extend([LessonDraft("`a` failed; `a b` works", "remedy", failure="command a")], session="s3")
        (lint,) = memory.lessons.list(command="git commit")
        assert (lint.count, lint.sessions, lint.files) == (2, ["s1", "s2"], ["/s/a.py"])
        assert memory.lessons.list(file="b/a.py")[0].id == lint.id
        (remedy,) = memory.lessons.list(about="remedy")
        assert (remedy.text, remedy.count) == ("`a` failed; `a b` works", 2)
        assert memory.lessons.delete(lint.id)
        assert not memory.lessons.list(command="git commit")
        assert not memory.lessons.add("  ")


@pytest.mark.requirement("AGT-2")
def test_keeping_a_session_again_changes_nothing_and_its_lessons_end_with_their_episode(lines: Any) -> None:
    lines.ask("Why does the import fail?")
    lines.say("The importer in `load_rows` must never open a second cursor, because `psycopg` closes the first one.")
    transcript = parse_transcript(lines.lines)
    with lukasa.open("memory:", agent="ada", embedder="hash") as memory:
        for _ in range(2):
            keep_session(memory, "s1", transcript, "", "", is_ended=True)
        (lesson,) = memory.lessons.list()
        (episode,) = memory.episodes.list(task_id="s1")
        assert (lesson.count, episode.context["branch"]) == (1, "main")
        assert [link.to.id for link in lesson.record.links] == [episode.id]


@pytest.mark.requirement("AGT-3")
def test_tool_output_is_readable_in_its_conversation_and_found_nowhere_else(lines: Any) -> None:
    lines.ask("Look at the heron table")
    lines.call("Bash", "The quokka database is called pelican.", command="psql -c quokka")
    with lukasa.open("memory:", agent="ada", embedder="hash") as memory:
        keep_session(memory, "s1", parse_transcript(lines.lines), "", "", is_ended=False)
        contents = [turn.content for turn in memory.context.transcript("s1")]
        assert "The quokka database is called pelican." in contents
        assert not memory.recall("quokka database pelican", kinds=["turn", "fact"]).hits
        assert not memory.context.facts("s1")
        memory.context.compact("s1", keep=0)
        assert "pelican" not in memory.context.load("s1").long_term_summary


@pytest.mark.requirement("AGT-2")
def test_a_models_learnings_take_the_place_of_sentences_and_are_checked(
    lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines.ask("Why does the import fail? The key is AKIAZ3MKQ7TPLW2XNC5D")
    lines.say("The importer in `load_rows` must never open a second cursor, because `psycopg` closes the first one.")
    answer = [
        "`load_rows` must use one cursor only, since psycopg closes the first when a second one is opened.",
        "Zebras graze quietly under violet thunderclouds every morning.",
        {"not": "a sentence"},
    ]

    class Model(JsonEndpoint):
        def answer(self, request: dict[str, Any]) -> Any:
            assert "load_rows" in request["messages"][1]["content"]
            assert "AKIAZ3MKQ7TPLW2XNC5D" not in request["messages"][1]["content"]
            return {"choices": [{"message": {"content": f"```json\n{json.dumps(answer)}\n```"}}]}

    with serve_endpoint(Model) as url:
        monkeypatch.setenv("LUKASA_LLM", f"{url.removeprefix('http:')}#recorded")
        with lukasa.open("memory:", agent="ada", embedder="hash") as memory:
            keep_session(memory, "s1", parse_transcript(lines.lines), "", "", is_ended=True)
            assert [lesson.text for lesson in memory.lessons.list()] == [answer[0]]
    with lukasa.open("memory:", agent="ada", embedder="hash") as memory:  # nobody answers any more
        keep_session(memory, "s1", parse_transcript(lines.lines), "", "", is_ended=True)
        assert [lesson.text[:12] for lesson in memory.lessons.list()] == ["The importer"]


@pytest.mark.requirement("AGT-4")
def test_continuity_says_what_was_done_last_and_which_lessons_cost_time(new_lines: Any, tmp_path: Path) -> None:
    (tmp_path / "CONTINUITY.md").write_text("# Our page\n")
    with lukasa.open("memory:", agent="ada", embedder="hash") as memory:
        for session in ("s1", "s2"):
            lines = new_lines("main")
            lines.ask("5")
            lines.ask("Make the gateway client retry once")
            lines.call(
                "Edit",
                "String to replace not found in file.",
                is_error=True,
                file_path="/s/a.tsx",
                old_string="  return basket;",
            )
            lines.call("Edit", file_path="/s/a.tsx", old_string="\treturn basket;", new_string="x")
            lines.say("The gateway client retries once now, because the gateway drops its first call.")
            keep_session(memory, session, parse_transcript(lines.lines), str(tmp_path), "", is_ended=True)
    page = (tmp_path / "CONTINUITY.md").read_text()
    assert page.startswith("# Our page\n")
    assert "## Current Goal\nMake the gateway client retry once" in page
    assert "Done: The gateway client retries once now" in page
    assert "`.tsx` files are indented with tabs" in page
