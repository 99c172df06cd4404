"""Skills: parsed from Markdown, versioned, searched, counted and synchronised with a folder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.experience.skill_markdown import SkillText, parse_skill, render_skill
from lukasa.experience.skills import Skill, file_stem

pytestmark = pytest.mark.requirement("EXP-5")
GOOD = "# Skill: Tidy Up\n\n## Steps\n1. Look\n2. Sweep\n"


def test_a_skill_document_is_parsed_and_kept_unchanged(memory, loki_tree):
    text = (loki_tree / "skills/api-implementation.md").read_text()
    skill = Skill(memory.skills.add(text, id="api-implementation").record)
    assert skill.title == "API Endpoint Implementation"
    assert skill.markdown == text
    body = skill.record.body
    assert body["prerequisites"] == ["OpenAPI spec exists at .loki/specs/openapi.yaml", "Database schema defined"]
    assert len(body["steps"]) == 8
    assert body["steps"][1] == "Create route handler in src/routes/{resource}.ts"
    assert body["common_errors"][0] == {"error": "Missing return type", "fix": "Add `: void` to handler"}
    assert body["exit_criteria"][-1] == "No TypeScript errors"
    parsed = parse_skill(text)
    assert isinstance(parsed, SkillText)
    assert render_skill(parsed) == text


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", [(1, "no title"), (1, "no steps")]),
        ("# Skill: X\n", [(2, "no steps")]),
        ("hello\n# Skill: X\n## Steps\n1. a\n", [(1, "text before the title"), (2, "second title")]),
        ("# Skill:\n## Steps\n1. a\n", [(1, "title is empty")]),
        ("# Skill: X\n## Steps\n1. a\n3. b\n", [(4, "step 3 where step 2")]),
        ("# Skill: X\n## Steps\n- a\n", [(3, "not a step")]),
        ("# Skill: X\n## Steps\n1. a\n## Common Errors & Fixes\n- no fix\n", [(5, "without its fix")]),
        ("# Skill: X\n## Prerequisites\nloose\n## Steps\n1. a\n", [(3, "not an entry")]),
        ("# Skill: X\n## Steps\n1. a\n## Steps\n1. b\n", [(4, "second section")]),
    ],
)
def test_faults_are_reported_with_their_line(local, text, faults):
    found = parse_skill(text)
    assert isinstance(found, list)
    assert [fault.line for fault in found][: len(faults)] == [line for line, _ in faults]
    for line, part in faults:
        assert any(fault.line == line and part in fault.what for fault in found)
    refused = local.skills.add(text)
    assert refused.code == "bad_skill"
    assert f"line {faults[0][0]}" in refused.reason


def test_headings_in_fenced_code_are_not_headings():
    parsed = parse_skill("# Skill: X\n## Steps\n1. Write\n```\n# not a title\n## Steps\n```\n2. Run\n")
    assert isinstance(parsed, SkillText)
    assert len(parsed.steps) == 2


words = (
    st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1)
    .map(lambda text: " ".join(text.replace(":", "").split()))
    .filter(lambda text: text and text[0].isalnum() and not text.endswith("#"))
)


@given(
    words,
    st.lists(words, min_size=1, max_size=4),
    st.lists(st.tuples(words, words), max_size=3),
    st.lists(words, max_size=3),
)
def test_a_rendered_skill_parses_to_the_same_skill(title, steps, errors, criteria):
    text = SkillText(title, (), tuple(steps), tuple(errors), tuple(criteria))
    assert parse_skill(render_skill(text)) == text


@given(st.text())
def test_any_text_parses_to_a_skill_or_to_faults(text):
    found = parse_skill(text)
    assert isinstance(found, SkillText) or found


def test_a_changed_skill_gets_a_new_version_and_keeps_its_counts(memory):
    id = memory.skills.add(GOOD).record.id
    memory.skills.record_use(id, success=True)
    memory.skills.record_use(id, success=True)
    memory.skills.record_use(id, success=False)
    assert not memory.skills.add(GOOD).records
    memory.skills.add(GOOD + "3. Rest\n")
    skill = memory.skills.get("tidy-up")
    assert (skill.successes, skill.failures, len(skill.steps)) == (2, 1, 3)
    assert skill.success_rate == pytest.approx(2 / 3)
    assert memory.skills.record_use("nothing", success=True).code == "not_found"


def test_skills_are_found_by_keyword(memory, loki_tree):
    for path in sorted((loki_tree / "skills").glob("*.md")):
        memory.skills.add(path.read_text(), id=path.stem)
    assert memory.skills.search("write contract tests")[0].id == "test-writing"
    assert memory.skills.search("implementing an API endpoint")[0].id == "api-implementation"
    assert list(memory.skills.search("zebra")) == []
    assert list(memory.skills.search("the of and")) == []


def test_a_folder_is_synced_both_ways(memory, tmp_path):
    (tmp_path / "tidy.md").write_text(GOOD)
    memory.skills.add(GOOD.replace("Tidy Up", "Cook"), id="cook")
    first = memory.skills.sync(tmp_path)
    assert (first.taken, first.written) == (("tidy",), ("cook",))
    assert memory.skills.sync(tmp_path) == type(first)()
    (tmp_path / "cook.md").write_text(GOOD.replace("Tidy Up", "Cook") + "3. Eat\n")
    memory.skills.add(GOOD + "3. Rest\n", id="tidy")
    second = memory.skills.sync(tmp_path)
    assert (second.taken, second.written) == (("cook",), ("tidy",))
    assert len(memory.skills.get("cook").steps) == 3
    assert (tmp_path / "tidy.md").read_text() == GOOD + "3. Rest\n"


def test_a_skill_changed_on_both_sides_is_a_conflict(memory, tmp_path):
    memory.skills.add(GOOD, id="tidy")
    memory.skills.sync(tmp_path)
    memory.skills.record_use("tidy", success=True)  # a use does not count as a change
    (tmp_path / "tidy.md").write_text(GOOD + "3. Mine\n")
    memory.skills.add(GOOD + "3. Theirs\n", id="tidy")
    done = memory.skills.sync(tmp_path)
    assert (done.taken, done.written, done.conflicts) == ((), (), ("tidy",))
    assert (tmp_path / "tidy.md").read_text() == GOOD + "3. Mine\n"


def test_files_that_are_not_skills_are_reported_and_unchanged(local, tmp_path):
    (tmp_path / "notes.md").write_text("just notes")
    (tmp_path / "binary.md").write_bytes(b"\xff\xfe")
    (tmp_path / "link.md").symlink_to("/etc/hostname")
    done = local.skills.sync(tmp_path)
    assert [name for name, _ in done.faults] == ["binary.md", "link.md", "notes.md"]
    assert (tmp_path / "notes.md").read_text() == "just notes"


@pytest.mark.parametrize("id", ["../../etc/passwd", "CON", "a/b", "user:agent:123", "nul.md", "ü"])
def test_no_id_escapes_from_the_synced_folder(local, tmp_path, id):
    folder = tmp_path / "skills"
    local.skills.add(GOOD, id=id)
    local.skills.sync(folder)
    (written,) = list(tmp_path.rglob("*.md"))
    assert written.parent == folder
    assert written.stem == file_stem(id)
    assert local.skills.sync(folder).taken == ()  # the file name leads back to the same id
