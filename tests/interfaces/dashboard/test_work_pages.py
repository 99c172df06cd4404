"""Sessions, experience, trust, forecasts, agents, live and operations in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from lukasa.interfaces.auth import StoreTokenSource
from lukasa.interfaces.stores import Caller
from support.dashboard import Visitor, serve_dashboard

pytestmark = pytest.mark.requirement("DOO-5")
SignIn = Callable[..., Visitor]
VIEWS = (
    "/sessions?scope=dan&id=search-rollout",
    "/sessions?scope=dan&id=heron-incident&view=state",
    "/experience?tab=patterns",
    "/experience?tab=episodes",
    "/experience?tab=gain",
    "/experience?tab=skills",
    "/experience?tab=work",
    "/trust?agent=cleo",
    "/trust?tab=judge",
    "/trust?tab=dissents",
    "/trust?tab=overrides",
    "/trust?tab=rubric",
    "/forecasts?tab=settled&category=delivery",
    "/agents?agent=cleo",
    "/agents?agent=cleo&tab=handoffs",
    "/operations?tab=backups",
    "/operations?tab=tokens",
    "/operations?tab=jobs",
    "/operations?tab=export",
)
"""Views of the pages that draw something else than the first one."""


def press_until(page: Page, target: Locator, key: str = "Tab", most: int = 80) -> None:
    """Press a key until the focus is on an element; the keyboard alone must reach it."""
    for _ in range(most):
        if target.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{key} does not reach {target}")


@pytest.mark.parametrize("half", [0, 1])
def test_every_view_has_no_fault_and_reads_well_for_everybody(half: int, sign_in: SignIn) -> None:
    visitor = sign_in(narrow=half == 1, dark=half == 1)
    for path in VIEWS[half::2]:
        page = visitor.open(path)
        assert page.locator("h1").count() == 1, path
        assert page.locator("main .empty").count() == 0, f"{path}: the demo store has something to show"
        assert visitor.find_issues() == [], path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is wider than the screen"


def test_a_consolidation_is_approved_and_undone_with_the_keyboard_alone(sign_in: SignIn) -> None:
    visitor = sign_in()
    page, memory = visitor.open("/"), visitor.server.memory
    known = {item.id for item in memory.knowledge.patterns()}
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.wait_for_url("**/experience")
    approve = page.get_by_role("button", name=re.compile(r"^Approve \d+ proposals?$"))
    expect(approve).to_be_visible()
    assert page.locator(".proposal").first.inner_text()
    assert {item.id for item in memory.knowledge.patterns()} == known, "a dry run writes nothing"
    press_until(page, approve)
    page.keyboard.press("Enter")
    expect(page.get_by_text(re.compile(r"^Written: \d+ records?\."))).to_be_visible()
    written = {item.id for item in memory.knowledge.patterns()} - known
    assert written
    expect(page.get_by_text("Nothing to review.")).to_be_visible()
    page.keyboard.press("u")
    expect(page.get_by_text("Taken back.")).to_be_visible()
    assert {item.id for item in memory.knowledge.patterns()} == known
    expect(approve).to_be_visible()


def test_a_token_is_revoked_with_the_keyboard_alone(sign_in: SignIn) -> None:
    visitor = sign_in()
    tokens = StoreTokenSource(visitor.server.stores).open()
    secret = tokens.add("old-laptop", agent="ben")
    page = visitor.open("/")
    page.keyboard.press("g")
    page.keyboard.press("p")
    page.wait_for_url("**/operations")
    press_until(page, page.get_by_role("tab", name="Health"))
    press_until(page, page.get_by_role("tab", name="Tokens"), "ArrowRight", 5)
    revoke = page.get_by_role("button", name="Revoke old-laptop")
    expect(revoke).to_be_visible()
    press_until(page, revoke)
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Revoke a token")
    expect(dialog).to_be_visible()
    assert visitor.find_issues() == []
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert tokens.find(secret) is not None, "closing the dialog revokes nothing"
    page.keyboard.press("Enter")  # the focus is back on the button
    press_until(page, dialog.get_by_role("button", name="Revoke", exact=True), most=10)
    page.keyboard.press("Enter")
    expect(revoke).to_have_count(0)
    assert tokens.find(secret) is None


def test_a_new_token_is_shown_once_and_works(sign_in: SignIn) -> None:
    visitor = sign_in()
    page = visitor.open("/operations?tab=tokens")
    page.get_by_role("button", name="Make a token").click()
    page.get_by_label("Name").fill("tablet")
    make, everything = page.get_by_role("button", name="Make the token"), page.get_by_label("The rights of the owner")
    expect(make).to_be_disabled()
    everything.check()
    expect(make).to_be_enabled()
    page.get_by_label("Agent").fill("cleo")
    expect(everything).to_have_count(0)
    page.get_by_label("May only read").check()
    page.get_by_label("Ends after").select_option("30 days")
    make.click()
    dialog = page.get_by_role("dialog", name="The new token")
    secret = dialog.locator(".secret").inner_text()
    token = StoreTokenSource(visitor.server.stores).open().find(secret)
    assert token is not None
    assert (token.name, token.agent, token.access) == ("tablet", "cleo", "read")
    assert token.expires_at is not None
    assert timedelta(days=29) < token.expires_at - datetime.now(UTC) <= timedelta(days=30)
    dialog.get_by_role("button", name="I have stored it").click()
    expect(page.get_by_text("tablet")).to_be_visible()
    assert secret not in page.content()
    page.reload()
    visitor.wait()
    assert secret not in page.content()
    page.get_by_role("button", name="Make a token").click()
    page.get_by_label("Name").fill("tablet")
    page.get_by_label("Agent").fill("cleo")
    make.click()
    expect(page.get_by_role("alert")).to_contain_text("There is a token named 'tablet' already.")
    assert StoreTokenSource(visitor.server.stores).open().revoke("tablet")
    visitor.faults.clear()  # the browser reports the 409 that the page has shown


@pytest.mark.parametrize("who", ["reader", "ada"])
def test_what_a_token_may_not_do_is_not_offered(who: str, sign_in: SignIn) -> None:
    visitor = sign_in(who)
    page = visitor.open("/operations")
    assert page.get_by_role("tab").all_inner_texts() == ["Jobs", "Export"]
    page = visitor.open("/trust")
    assert page.get_by_role("tab").count() == 0
    expect(page.get_by_text("What the score is made of")).to_be_visible()
    page = visitor.open("/experience")
    assert ("Review" in page.get_by_role("tab").all_inner_texts()) == (who == "ada")
    page = visitor.open("/forecasts")
    expect(page.get_by_text("Will the old payment path be removed by next Friday?")).to_be_visible()
    assert page.get_by_role("button", name="Happened").count() == (2 if who == "ada" else 0)
    page = visitor.open("/agents?agent=ada&tab=inbox")
    assert page.get_by_role("button", name=re.compile("^(Take|Accept|Complete)$")).count() == 0
    page = visitor.open("/sessions")
    assert "dan" not in page.locator("main").inner_text()


def test_the_time_line_shows_the_state_at_any_point_and_its_url_is_kept(sign_in: SignIn) -> None:
    visitor = sign_in()
    page = visitor.open("/sessions")
    page.get_by_role("link", name="search-rollout").click()
    expect(page.get_by_text("nothing lost")).to_be_visible()
    entry = page.locator(".entry", has_text="655000")
    entry.get_by_role("button", name=re.compile("^State at")).click()
    changes = page.locator(".state-changes")
    expect(changes).to_contain_text("index.documents")
    expect(changes).to_contain_text(re.compile(r"412000\s*to\s*655000"))
    assert re.search(r"at=\d+", page.url)
    page.reload()
    visitor.wait()
    expect(page.locator(".state-changes")).to_contain_text(re.compile(r"412000\s*to\s*655000"))
    page.get_by_role("button", name="Earlier").click()
    expect(page.locator(".entry.chosen")).to_contain_text("Checkpoint 2")
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_text("sound").first).to_be_visible()


def test_a_compaction_shows_what_left_the_view_of_the_conversation(sign_in: SignIn) -> None:
    page = sign_in().open("/sessions?scope=dan&id=heron-incident")
    expect(page.locator(".entry.chosen")).to_contain_text("Compaction 2: 12 turns in the summary")
    changes = page.locator(".state-changes")
    expect(changes).to_contain_text(re.compile(r"conversation\.folded\s*changed\s*6\s*to\s*12"))
    expect(changes).to_contain_text("user: Why did nobody notice before nine?")
    page.get_by_label("Show").select_option("what was said")
    assert page.locator(".entry", has_text="Tasks, counters or settings").count() == 0


def test_a_filed_dissent_is_judged(sign_in: SignIn) -> None:
    visitor = sign_in()
    cleo = visitor.server.stores.for_caller(Caller("cleo"))
    text = "The figures of the report are sums of rounded numbers, so they do not add up to the total."
    cleo.trust.file_dissent(text, round_id="review-9", rubric_citations=["Correctness"])
    before = visitor.server.memory.trust.score("cleo").dissents
    page = visitor.open("/trust?tab=judge")
    card = page.locator(".proposal", has_text=text)
    card.get_by_role("button", name="It changed the output").click()
    expect(card).to_have_count(0)
    assert visitor.server.memory.trust.score("cleo").dissents == before + 1


def test_scores_over_time_have_a_table_behind_them(sign_in: SignIn) -> None:
    visitor = sign_in()
    page = visitor.open("/trust?agent=dan")
    page.get_by_text("Figures as a table").click()
    table = page.get_by_role("table", name="Scores over time")
    score = visitor.server.memory.trust.score("dan")
    expect(table.locator("tbody tr").first).to_contain_text(f"{score.trust:.2f}")
    expect(table.locator("tbody tr").first).to_contain_text(f"{score.low:.2f}")


def test_a_prediction_is_settled_and_the_figures_follow(sign_in: SignIn) -> None:
    visitor = sign_in()
    memory = visitor.server.stores.for_caller(Caller("ben"))
    memory.forecasts.predict("Will the lamp of the tower be lit tonight?", 0.9, prediction_id="lamp")
    count = visitor.server.memory.forecasts.scores().count
    page = visitor.open("/forecasts")
    expect(page.locator(".stat", has_text="Settled")).to_contain_text(str(count))
    page.get_by_text("Figures as a table").click()
    assert page.get_by_role("table", name="Reliability").locator("tbody tr").count() > 5
    row = page.get_by_role("row", name=re.compile("lamp of the tower"))
    row.get_by_role("button", name="Happened").click()
    expect(page.locator(".stat", has_text="Settled")).to_contain_text(str(count + 1))
    assert getattr(memory.forecasts.get("lamp"), "outcome", None) is True


def test_work_that_was_handed_over_is_accepted_and_completed(sign_in: SignIn) -> None:
    visitor = sign_in("ada")
    ben = visitor.server.stores.for_caller(Caller("ben"))
    ben.handoffs.create("ada", "Counted the lamps of the tower.")
    page = visitor.open("/agents?agent=ada&tab=handoffs")
    card = page.locator(".proposal", has_text="Counted the lamps")
    card.get_by_role("button", name="Accept").click()
    card.get_by_role("button", name="Complete").click()
    page.get_by_label("What came of it").fill("All are there.")
    page.get_by_role("dialog").get_by_role("button", name="Complete").click()
    expect(card).to_contain_text("completed")
    expect(card).to_contain_text("All are there.")


def test_events_come_by_themselves_pause_and_go_on_without_a_gap(sign_in: SignIn) -> None:
    visitor = sign_in()
    memory = visitor.server.memory
    page = visitor.open("/live?kind=note")
    expect(page.get_by_role("status").filter(has_text="live")).to_be_visible()
    memory.journal.write("note", "A boat came in.")
    expect(page.get_by_text("A boat came in.")).to_be_visible()
    page.keyboard.press("p")
    expect(page.get_by_text("paused")).to_be_visible()
    memory.journal.write("note", "Another boat came in.")
    page.wait_for_timeout(300)
    assert page.get_by_text("Another boat came in.").count() == 0
    page.keyboard.press("p")
    expect(page.get_by_text("Another boat came in.")).to_be_visible()
    page.get_by_label("Words").fill("another")
    expect(page.get_by_text("A boat came in.", exact=True)).to_have_count(0)
    assert visitor.find_issues() == []


def test_the_doctor_runs_and_the_log_is_downloaded_as_a_file(sign_in: SignIn, tmp_path: Path) -> None:
    visitor = sign_in()
    page = visitor.open("/operations")
    page.get_by_role("button", name="Run the doctor").click()
    expect(page.get_by_text("healthy")).to_be_visible(timeout=30_000)
    expect(page.locator(".checks")).to_contain_text("log and indexes")
    assert visitor.find_issues() == []
    page = visitor.open("/operations?tab=export")
    with page.expect_download() as download:
        page.get_by_role("link", name=re.compile("^Download")).click()
    download.value.save_as(tmp_path / "log.jsonl")
    assert download.value.suggested_filename.endswith(".jsonl")
    assert len((tmp_path / "log.jsonl").read_bytes().splitlines()) > 300


def test_a_backup_is_made_and_proved(sign_in: SignIn) -> None:
    page = sign_in().open("/operations?tab=backups")
    rows = page.get_by_role("table", name="Backups").locator("tbody tr")
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Back up now").click()
    expect(page.get_by_text("is made, read back and proved.")).to_be_visible()
    expect(rows).to_have_count(2)
    rows.first.get_by_role("button", name="Prove").click()
    expect(page.get_by_text("matches its manifest.")).to_be_visible()


def test_a_job_is_dropped(sign_in: SignIn) -> None:
    visitor = sign_in()
    visitor.server.memory.jobs.defer("experience.prune", key="soon", delay=3600)
    page = visitor.open("/operations?tab=jobs")
    row = page.get_by_role("row", name=re.compile(r"experience\.prune"))
    row.get_by_role("button", name="Drop").click()
    expect(row).to_have_count(0)
    assert [job.name for job in visitor.server.memory.jobs.list()] == ["experience.consolidate"]


def test_an_empty_store_says_what_to_do(sign_in: SignIn, tmp_path: Path) -> None:
    with serve_dashboard(tmp_path / "memory.db", embedder="hash") as server:
        visitor = sign_in(server=server)
        for path in (
            "/sessions",
            "/experience?tab=episodes",
            "/trust?tab=rubric",
            "/forecasts",
            "/operations?tab=jobs",
        ):
            page = visitor.open(path)
            expect(page.locator("main .empty code").first).to_be_visible()
        for path in ("/experience", "/trust?tab=judge", "/agents", "/live", "/operations?tab=backups"):
            assert visitor.open(path).locator("main .notice").count() == 0, path
