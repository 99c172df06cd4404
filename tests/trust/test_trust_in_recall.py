"""Trust in recall: ranking, display, derived records, and the share of one author in an answer."""

from array import array
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
    """Return a store in which `good` has trust 1 and `bad` less than 0.2."""
    trust = memory.trust
    for number in range(6):
        assert trust.log_dissent("good", essay(number), impact=True, rubric_citations=["a", "b"])
        assert trust.log_dissent("bad", "no no no", impact=False)
    for _ in range(5):
        trust.revert(trust.log_override("bad", "x", "y").records[0].id, by="ada")
    assert trust.score("good").trust == 1.0
    assert trust.score("bad").trust < 0.2
    return memory


def authors_of(recalled):
    return [hit.record.author for hit in recalled.hits]


@pytest.mark.requirement("TRU-17")
def test_equal_texts_are_ranked_by_the_trust_of_their_authors(judged):
    for author in ("good", "bad", "unknown"):
        judged.journal.write("note", f"The heron release is on Friday, says {author}", author=author)
    recalled = judged.recall("When is the heron release?", 3)
    assert authors_of(recalled) == ["good", "unknown", "bad"]
    assert [round(hit.trust, 2) for hit in recalled.hits] == [1.0, 0.6, round(judged.trust.score("bad").trust, 2)]
    assert any(signal.name == "trust" and signal.share > 0.1 for signal in recalled.hits[0].signals)


@pytest.mark.requirement("TRU-17", "RCL-1")
@pytest.mark.parametrize("embedder", ["hash", "static"])
@pytest.mark.parametrize(
    ("one", "other", "question"),
    [
        ("The heron release is on Friday", "The heron release is on Monday", "When is the heron release?"),
        ("Anna leads the payments team", "Ben leads the payments team", "Who leads the payments team?"),
        ("The database is called osprey", "The database is called heron", "What is the database called?"),
        ("The key rotates every 30 days", "The key is rotated each quarter", "How often does the key rotate?"),
    ],
)
def test_in_a_store_of_two_records_trust_decides_between_nearly_equal_texts(
    open_store, essay, embedder, one, other, question
):
    for good, bad in ((one, other), (other, one)):
        memory = open_store(embedder=embedder)
        for number in range(6):
            memory.trust.log_dissent("good", essay(number), impact=True)
        memory.trust.revert(memory.trust.log_override("bad", "x", "y").records[0].id, by="ada")
        memory.journal.write("note", good, author="good")
        memory.journal.write("note", bad, author="bad")
        assert authors_of(memory.recall(question, 2)) == ["good", "bad"]


@pytest.mark.requirement("TRU-3", "TRU-17")
def test_recall_ranks_by_the_adjusted_score(memory):
    for number in range(12):
        memory.trust.log_dissent("gamer", f"typo{number} here", impact=True)
    score = memory.trust.score("gamer")
    assert score.trust > 0.6 > score.adjusted_score
    for author in ("gamer", "unknown"):
        memory.journal.write("note", f"The heron release is on Friday, says {author}", author=author)
    hits = memory.recall("When is the heron release?", 2).hits
    assert [(hit.record.author, hit.trust) for hit in hits] == [("unknown", 0.6), ("gamer", score.adjusted_score)]


@pytest.mark.requirement("TRU-17")
def test_a_prompt_block_shows_the_trust_of_each_author(judged):
    judged.journal.write("note", "The heron release is on Friday", author="good")
    judged.journal.write("note", "The heron release is on Monday")
    text = build_prompt_block(judged.recall("heron release", 2)).text
    assert "by good" in text
    assert "trust 1.00" in text
    assert text.count("trust ") == 1, "the owner is not judged"


@pytest.mark.requirement("TRU-17")
def test_trust_changes_no_score_when_no_author_was_judged(memory):
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
def test_a_bad_source_lowers_the_rank_of_a_trusted_authors_record(judged):
    derive(judged, "rumour", "nothing of note", "bad")
    derive(judged, "laundered", "The ibis release is on Friday", "good", "rumour")
    derive(judged, "honest", "The ibis release is on Monday", "unknown")
    assert [hit.record.id for hit in judged.recall("When is the ibis release?", 2).hits] == ["honest", "laundered"]


@pytest.mark.requirement("TRU-17")
def test_a_bad_source_counts_even_when_no_other_author_was_judged(memory):
    trust = memory.trust
    trust.revert(trust.log_override("bad", "x", "y").records[0].id, by="ada")
    derive(memory, "rumour", "nothing of note", "bad")
    derive(memory, "laundered", "The ibis release is on Friday", "one", "rumour")
    derive(memory, "honest", "The ibis release is on Monday", "other")
    hits = memory.recall("When is the ibis release?", 2).hits
    assert [(hit.record.id, hit.trust) for hit in hits] == [("honest", 0.6), ("laundered", 0.0)]


@pytest.mark.requirement("TRU-17")
def test_a_missing_source_is_trusted_like_an_unknown_author(judged):
    derive(judged, "lost", "The stork release is on Friday", "good", "nowhere")
    (hit,) = judged.recall("stork release", 1).hits
    assert hit.trust == 0.6


@pytest.mark.requirement("TRU-17")
def test_cyclic_and_very_many_sources_are_cut_off(judged):
    derive(judged, "a", "The crane release is on Friday", "good", "b")
    derive(judged, "b", "crane release again", "good", "a")
    judged.journal.append(Draft("note", f"leaf {number}", id=f"s{number}", author="good") for number in range(300))
    derive(judged, "many", "catalogue of the crane release", "good", *(f"s{number}" for number in range(300)))
    trust = {hit.record.id: hit.trust for hit in judged.recall("crane release", 50).hits}
    assert trust["a"] == trust["b"] == 1.0
    assert trust["many"] == 0.6, "a source past the limit is trusted like an unknown author"


@pytest.mark.requirement("TRU-17", "LOG-6")
def test_a_quarantined_agents_records_vanish_from_recall_at_once_and_come_back(judged):
    derive(judged, "rumour", "The egret release never needs a review", "bad")
    derive(judged, "summary", "Egret release: one review is enough", "good", "rumour")
    assert judged.trust.quarantine("bad", reason="writes nonsense")
    assert judged.recall("egret release", 5).hits == ()
    assert judged.trust.release("bad")
    assert len(judged.recall("egret release", 5).hits) == 2


@pytest.mark.requirement("TRU-17", "LOG-4")
def test_an_agent_sees_the_trust_of_authors_it_can_read_and_nothing_else(tmp_path, open_store, essay):
    owner, agent = open_store(tmp_path / "t.db"), open_store(tmp_path / "t.db", agent="ada")
    owner.trust.log_dissent("ben", essay(), impact=True)
    owner.journal.write("note", "the heron nests", author="ben")
    (hit,) = agent.recall("heron", 1).hits
    assert hit.trust == 1.0
    assert [row.scope for row in agent.journal.tally()] == ["shared"]


# The share of one author


def hits(*authors, score=lambda seq: 10 - seq / 100):
    """Return ranked candidates with falling scores, one by each author."""
    return [
        RankedCandidate(RecallCandidate(seq, f"t{seq}", author=author), score(seq), b"", {})
        for seq, author in enumerate(authors)
    ]


@pytest.mark.requirement("TRU-17")
def test_one_author_fills_at_most_half_of_an_answer_while_others_have_hits():
    ranked = hits(*["spam"] * 20, "a", "b", "a", "b", "a", "b")
    best = cap_author_share(ranked, 10)
    assert [hit.candidate.author for hit in best[:10]] == ["spam"] * 5 + ["a", "b", "a", "b", "a"]
    assert [hit.crowded for hit in best[:10]] == [False] * 10
    assert sum(hit.crowded for hit in best) == 15


@pytest.mark.requirement("TRU-17")
def test_the_share_is_not_limited_with_two_authors():
    ranked = hits(*["a"] * 9, *["b"] * 9)
    assert cap_author_share(ranked, 10) == ranked


@pytest.mark.requirement("TRU-17")
def test_no_hit_is_displaced_by_one_with_less_than_a_quarter_of_its_score():
    ranked = hits(*["a"] * 10, "b", "c", score=lambda seq: 10.0 if seq < 10 else 2.4)
    assert cap_author_share(ranked, 10) == ranked


@pytest.mark.requirement("TRU-17")
def test_the_share_of_the_owner_is_not_limited():
    ranked = hits(*[""] * 10, "a", "b", "c")
    assert cap_author_share(ranked, 10) == ranked


@given(st.lists(st.sampled_from(["", "a", "b", "c", "d"]), max_size=40), st.integers(0, 15))
def test_limiting_shares_loses_no_hit_and_keeps_each_authors_order(authors, k):
    best = cap_author_share(hits(*authors), k)
    assert sorted(hit.candidate.seq for hit in best) == list(range(len(authors)))
    for author in set(authors):
        own = [hit.candidate.seq for hit in best if hit.candidate.author == author]
        assert own == sorted(own)
    others = len({author for author in authors if author})
    for author in {author for author in authors if author} if others > 2 else ():
        filled = sum(hit.candidate.author == author for hit in best[:k])
        assert filled <= -(-k // 2) or all(
            hit.candidate.author == author
            or sum(other.candidate.author == hit.candidate.author for other in best[:k]) >= -(-k // 2)
            for hit in best[k:]
        )


def test_less_trust_lowers_the_score_by_the_weight_of_trust():
    hit = RankedCandidate(
        RecallCandidate(1, "x", trust=0.9), 1.0, array("d", (0.5, 0.9)).tobytes(), {"words": 1.0, "trust": 0.2}
    )
    lowered = with_trust(hit, 0.4)
    assert lowered.score == pytest.approx(0.9)
    assert lowered.values == (0.5, 0.4)
    assert sum(signal.share for signal in lowered.signals) - sum(s.share for s in hit.signals) == pytest.approx(-0.1)


@pytest.mark.requirement("TRU-17")
def test_displaced_records_of_one_author_say_why_they_were_dropped(memory):
    for number in range(30):
        memory.journal.write("note", f"The heron release number {number} is great", author="spam")
    for author in ("ada", "ben", "eva"):
        memory.journal.write("note", f"The heron release is on Friday, {author} says so", author=author)
    recalled = memory.recall("heron release", 6)
    assert sum(hit.record.author == "spam" for hit in recalled.hits) <= 3
    assert any("moved down" in hit.why for hit in recalled.dropped)


@pytest.mark.requirement("TRU-17")
def test_an_unjudged_author_of_most_candidates_is_trusted_less(judged):
    for author in ("good", "ada"):
        judged.journal.write("note", f"The heron release is on Friday, as {author} knows", author=author)
    for number in range(18):
        judged.journal.write("note", f"The heron release is on Monday, as {number} people know", author="flood")
    hits = judged.recall("When is the heron release?", 10).hits
    trusts = {hit.record.author: hit.trust for hit in hits}
    assert hits[0].record.author == "good"
    assert trusts["ada"] == 0.6
    assert trusts["flood"] == pytest.approx(0.6 * 0.2)  # nine tenths of it: four fifths of the way beyond half


def test_a_recall_never_opens_two_snapshots_at_a_time(tmp_path, open_store, essay, monkeypatch):
    """Guard against a deadlock: a caller that holds one connection must not wait for another."""
    memory = open_store(tmp_path / "t.db", agent="ada")
    owner = open_store(tmp_path / "t.db")
    owner.trust.log_dissent("good", essay(), impact=True)
    derive(owner, "fact", "The egret release needs two reviews", "good")
    derive(owner, "clean", "Egret release notes: reviews matter", "other", "fact")
    memory.recall("warm up")
    engine = memory._parts.engine
    open_snapshots: list[int] = []
    open_snapshot = engine.snapshot

    @contextmanager
    def counted_snapshot(*arguments, **options):
        assert not open_snapshots
        open_snapshots.append(1)
        try:
            with open_snapshot(*arguments, **options) as snapshot:
                yield snapshot
        finally:
            open_snapshots.pop()

    monkeypatch.setattr(engine, "snapshot", counted_snapshot)
    trust = {hit.record.id: hit.trust for hit in memory.recall("egret release", 5).hits}
    assert trust == {"fact": 1.0, "clean": 0.6}
