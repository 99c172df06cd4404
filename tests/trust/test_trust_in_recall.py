"""Trust in use: recall ranks by it and shows it, derived records inherit the least, nobody crowds the others out."""

from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa import Draft, Key, Link
from lukasa.recall.ranking import RankedCandidate, cap_author_share, with_trust
from lukasa.recall.recall import build_prompt_block
from lukasa.recall.signals import RecallCandidate


@pytest.fixture
def judged(memory, essay):
    """A store in which `good` is trusted fully and `bad` hardly."""
    trust = memory.trust
    for at in range(6):
        assert trust.log_dissent("good", essay(at), impact=True, rubric_citations=["a", "b"])
        assert trust.log_dissent("bad", "no no no", impact=False)
    for _ in range(5):
        trust.revert(trust.log_override("bad", "x", "y").records[0].id, by="ada")
    assert trust.score("good").trust == 1.0
    assert trust.score("bad").trust < 0.2
    return memory


def found(recalled):
    return [hit.record.author for hit in recalled.hits]


@pytest.mark.requirement("TRU-17")
def test_between_equals_the_more_trusted_comes_first(judged):
    for author in ("good", "bad", "unknown"):
        judged.journal.write("note", f"The heron release is on Friday, says {author}", author=author)
    recalled = judged.recall("When is the heron release?", 3)
    assert found(recalled) == ["good", "unknown", "bad"]
    assert [round(hit.trust, 2) for hit in recalled.hits] == [1.0, 0.6, round(judged.trust.score("bad").trust, 2)]
    assert any(signal.name == "trust" and signal.share > 0.1 for signal in recalled.hits[0].signals)


@pytest.mark.requirement("TRU-17")
def test_the_fence_tells_how_far_each_author_is_trusted(judged):
    judged.journal.write("note", "The heron release is on Friday", author="good")
    judged.journal.write("note", "The heron release is on Monday")
    text = build_prompt_block(judged.recall("heron release", 2)).text
    assert "by good" in text
    assert "trust 1.00" in text
    assert text.count("trust ") == 1, "the owner is not judged"


@pytest.mark.requirement("TRU-17")
def test_where_nobody_was_judged_trust_changes_no_score(memory):
    memory.journal.write("note", "The heron release is on Friday", author="ada")
    (hit,) = memory.recall("heron release", 1).hits
    assert hit.trust == 0.6
    assert all(signal.value == 0 for signal in hit.signals if signal.name == "trust")


def derive(memory, id, text, author, *sources):
    links = tuple(Link("derived_from", Key("shared", "note", source)) for source in sources)
    assert memory.journal.write("note", text, id=id, author=author, links=links)


@pytest.mark.requirement("TRU-17")
def test_a_record_is_trusted_no_more_than_the_least_trusted_of_its_sources(judged):
    derive(judged, "rumour", "The egret release never needs a review", "bad")
    derive(judged, "fact", "The egret release needs two reviews", "good")
    derive(judged, "summary", "Egret release: one review is enough", "good", "rumour", "fact")
    derive(judged, "digest", "Egret release digest: hardly any review", "good", "summary")
    derive(judged, "clean", "Egret release notes: reviews matter", "good", "fact")
    trust = {hit.record.id: hit.trust for hit in judged.recall("egret release review", 10).hits}
    bad = judged.trust.score("bad").trust
    assert trust == {"rumour": bad, "summary": bad, "digest": bad, "fact": 1.0, "clean": 1.0}


@pytest.mark.requirement("TRU-17")
def test_laundering_through_a_trusted_author_does_not_pay(judged):
    derive(judged, "rumour", "nothing of note", "bad")
    derive(judged, "laundered", "The ibis release is on Friday", "good", "rumour")
    derive(judged, "honest", "The ibis release is on Monday", "unknown")
    assert [hit.record.id for hit in judged.recall("When is the ibis release?", 2).hits] == ["honest", "laundered"]


@pytest.mark.requirement("TRU-17")
def test_a_bad_source_counts_even_where_no_other_author_was_judged(memory):
    trust = memory.trust
    trust.revert(trust.log_override("bad", "x", "y").records[0].id, by="ada")
    derive(memory, "rumour", "nothing of note", "bad")
    derive(memory, "laundered", "The ibis release is on Friday", "one", "rumour")
    derive(memory, "honest", "The ibis release is on Monday", "other")
    hits = memory.recall("When is the ibis release?", 2).hits
    assert [(hit.record.id, hit.trust) for hit in hits] == [("honest", 0.6), ("laundered", 0.0)]


@pytest.mark.requirement("TRU-17")
def test_a_source_that_cannot_be_seen_is_trusted_like_an_unknown(judged):
    derive(judged, "lost", "The stork release is on Friday", "good", "nowhere")
    (hit,) = judged.recall("stork release", 1).hits
    assert hit.trust == 0.6


@pytest.mark.requirement("TRU-17")
def test_circles_and_crowds_of_sources_end(judged):
    derive(judged, "a", "The crane release is on Friday", "good", "b")
    derive(judged, "b", "crane release again", "good", "a")
    judged.journal.append(Draft("note", f"leaf {at}", id=f"s{at}", author="good") for at in range(300))
    derive(judged, "many", "catalogue of the crane release", "good", *(f"s{at}" for at in range(300)))
    trust = {hit.record.id: hit.trust for hit in judged.recall("crane release", 50).hits}
    assert trust["a"] == trust["b"] == 1.0
    assert trust["many"] == 0.6, "what there was no time to look at is trusted like an unknown"


@pytest.mark.requirement("TRU-17", "LOG-6")
def test_a_quarantined_agents_records_vanish_from_recall_at_once_and_come_back(judged):
    derive(judged, "rumour", "The egret release never needs a review", "bad")
    derive(judged, "summary", "Egret release: one review is enough", "good", "rumour")
    assert judged.trust.quarantine("bad", reason="writes nonsense")
    assert judged.recall("egret release", 5).hits == ()
    assert judged.trust.release("bad")
    assert len(judged.recall("egret release", 5).hits) == 2


@pytest.mark.requirement("TRU-17", "LOG-4")
def test_an_agent_is_told_the_trust_of_authors_it_can_see_and_nothing_else(tmp_path, opened, essay):
    owner, agent = opened(tmp_path / "t.db"), opened(tmp_path / "t.db", agent="ada")
    owner.trust.log_dissent("ben", essay(), impact=True)
    owner.journal.write("note", "the heron nests", author="ben")
    (hit,) = agent.recall("heron", 1).hits
    assert hit.trust == 1.0
    assert [row.scope for row in agent.journal.tally()] == ["shared"]


# The share of one author


def hits(*authors, score=None):
    return [
        RankedCandidate(RecallCandidate(at, f"t{at}", author=author), score(at) if score else 10 - at / 100, (), {})
        for at, author in enumerate(authors)
    ]


@pytest.mark.requirement("TRU-17")
def test_no_author_fills_more_than_half_of_an_answer_while_others_have_something_to_say():
    line = hits(*["spam"] * 20, "a", "b", "a", "b", "a", "b")
    best = cap_author_share(line, 10)
    assert [hit.candidate.author for hit in best[:10]] == ["spam"] * 5 + ["a", "b", "a", "b", "a"]
    assert [hit.crowded for hit in best[:10]] == [False] * 10
    assert sum(hit.crowded for hit in best) == 15


@pytest.mark.requirement("TRU-17")
def test_two_who_talk_to_each_other_are_not_held_back():
    line = hits(*["a"] * 9, *["b"] * 9)
    assert cap_author_share(line, 10) == line


@pytest.mark.requirement("TRU-17")
def test_nobody_makes_room_for_what_is_not_a_quarter_as_good():
    line = hits(*["a"] * 10, "b", "c", score=lambda at: 10.0 if at < 10 else 2.4)
    assert cap_author_share(line, 10) == line


@pytest.mark.requirement("TRU-17")
def test_the_owner_is_not_held_back():
    line = hits(*[""] * 10, "a", "b", "c")
    assert cap_author_share(line, 10) == line


@given(st.lists(st.sampled_from(["", "a", "b", "c", "d"]), max_size=40), st.integers(0, 15))
def test_sharing_out_loses_nothing_and_keeps_each_authors_order(authors, k):
    line = hits(*authors)
    best = cap_author_share(line, k)
    assert sorted(hit.candidate.seq for hit in best) == list(range(len(authors)))
    for author in set(authors):
        own = [hit.candidate.seq for hit in best if hit.candidate.author == author]
        assert own == sorted(own)
    others = len({author for author in authors if author})
    for author in {author for author in authors if author} if others > 2 else ():
        filled = sum(hit.candidate.author == author for hit in best[:k])
        assert filled <= -(-k // 2) or all(
            hit.candidate.author == author
            or sum(each.candidate.author == hit.candidate.author for each in best[:k]) >= -(-k // 2)
            for hit in best[k:]
        )


def test_less_trust_lowers_the_score_by_as_much_as_it_counts():
    hit = RankedCandidate(RecallCandidate(1, "x", trust=0.9), 1.0, (0.5, 0.9), {"words": 1.0, "trust": 0.2})
    lowered = with_trust(hit, 0.4)
    assert lowered.score == pytest.approx(0.9)
    assert lowered.values == (0.5, 0.4)
    assert sum(signal.share for signal in lowered.signals) - sum(s.share for s in hit.signals) == pytest.approx(-0.1)


@pytest.mark.requirement("TRU-17")
def test_a_crowd_of_records_by_one_author_says_that_it_made_room(memory):
    for at in range(30):
        memory.journal.write("note", f"The heron release number {at} is great", author="spam")
    for author in ("ada", "ben", "eva"):
        memory.journal.write("note", f"The heron release is on Friday, {author} says so", author=author)
    recalled = memory.recall("heron release", 6)
    assert sum(hit.record.author == "spam" for hit in recalled.hits) <= 3
    assert any("made room" in hit.why for hit in recalled.dropped)


@pytest.mark.requirement("TRU-17")
def test_a_newcomer_who_writes_most_of_what_could_answer_is_trusted_less(judged):
    for author in ("good", "ada"):
        judged.journal.write("note", f"The heron release is on Friday, as {author} knows", author=author)
    for at in range(18):
        judged.journal.write("note", f"The heron release is on Monday, as {at} people know", author="flood")
    hits = judged.recall("When is the heron release?", 10).hits
    trusts = {hit.record.author: hit.trust for hit in hits}
    assert hits[0].record.author == "good"
    assert trusts["ada"] == 0.6
    assert trusts["flood"] == pytest.approx(0.6 * 0.2)  # nine tenths of it: four fifths of the way beyond half


def test_a_recall_never_looks_twice_at_a_time(tmp_path, opened, essay, monkeypatch):
    """Whoever holds one connection while waiting for another can wait for ever."""
    memory = opened(tmp_path / "t.db", agent="ada")
    owner = opened(tmp_path / "t.db")
    owner.trust.log_dissent("good", essay(), impact=True)
    derive(owner, "fact", "The egret release needs two reviews", "good")
    derive(owner, "clean", "Egret release notes: reviews matter", "other", "fact")
    memory.recall("warm up")
    engine, held = memory._parts.engine, []
    reading = engine.snapshot

    @contextmanager
    def counting(*words, **options):
        assert not held
        held.append(1)
        try:
            with reading(*words, **options) as look:
                yield look
        finally:
            held.pop()

    monkeypatch.setattr(engine, "snapshot", counting)
    trust = {hit.record.id: hit.trust for hit in memory.recall("egret release", 5).hits}
    assert trust == {"fact": 1.0, "clean": 0.6}
