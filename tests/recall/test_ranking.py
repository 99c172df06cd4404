"""The ranking: its order, its reasons, and its independence of the order of candidates."""

import random
import re
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lukasa.recall import WEIGHTS, CorpusStatistics, RecallCandidate, parse_question, rank_candidates
from lukasa.recall.ranking import put_trusted_first
from lukasa.recall.signals import _cached_features, compute_features
from lukasa.text.terms import tokenize_text


def corpus_of(texts):
    kept = [set(tokenize_text(text)) for text in texts]
    return CorpusStatistics(len(texts), {token: sum(token in text for text in kept) for text in kept for token in text})


def ask(question, candidates, speakers=None, **more):
    speakers = {candidate.author for candidate in candidates} if speakers is None else speakers
    return rank_candidates(
        parse_question(question, speakers=speakers), candidates, corpus_of([c.text for c in candidates]), **more
    )


def talk(*turns, session="s1", start=0, day=15):
    """Return the turns of one session as candidates with the turns before and after."""
    moment = datetime(2024, 5, day, 12, tzinfo=UTC)
    texts = [text for _, text in turns]
    return [
        RecallCandidate(
            seq=start + index,
            text=text,
            author=author,
            moment=moment,
            session=session,
            before=texts[index - 1] if index else None,
            after=texts[index + 1] if index + 1 < len(texts) else None,
        )
        for index, (author, text) in enumerate(turns)
    ]


def value(hit, name):
    return next(signal.value for signal in hit.signals if signal.name == name)


def test_texts_by_the_subject_of_the_question_rank_first():
    turns = talk(
        ("Amara", "I adopted a grey parrot in the spring."),
        ("Bela", "I adopted a grey parrot too, what luck."),
        ("Amara", "We should let them meet one day."),
    )
    assert ask("Which parrot did Bela adopt?", turns)[0].candidate.author == "Bela"
    assert ask("Which parrot did Amara adopt?", turns)[0].candidate.author == "Amara"


def test_an_answer_ranks_by_the_words_of_the_turn_before_it():
    turns = talk(
        ("Amara", "What is the name of your sailing boat?"),
        ("Bela", "She is called the Wandering Gull."),
        ("Amara", "Lovely weather today."),
        ("Bela", "Indeed it is warm, I like that."),
    )
    places = [hit.candidate.seq for hit in ask("What is the name of the sailing boat of Bela?", turns)]
    assert places.index(1) < places.index(3)


def test_an_answer_ranks_by_the_meaning_of_the_question_before_it():
    asked, answer, other = talk(
        ("Amara", "Which dish do you like best?"), ("Bela", "Sushi, of course!"), ("Bela", "Rain, what else!")
    )
    question = asked._replace(cosine=0.7)
    after_question = answer._replace(cosine=0.1, asked_cosine=0.7)
    after_answer = other._replace(cosine=0.2)
    ranked = ask("What is the favourite meal of Bela?", [question, after_question, after_answer])
    meaning = {hit.candidate.seq: value(hit, "meaning") for hit in ranked}
    assert [hit.candidate.seq for hit in ranked].index(1) < [hit.candidate.seq for hit in ranked].index(2)
    assert meaning[0] > meaning[1] > meaning[2]


def test_an_answer_and_its_question_cover_the_question_together():
    turns = talk(
        ("Amara", "Which colour has your new bicycle?"),
        ("Bela", "Green, like the old bicycle."),
        ("Amara", "A bicycle in a colour I like."),
        ("Bela", "Green, like the old bicycle of my aunt."),
    )
    values = {
        hit.candidate.seq: value(hit, "coverage") for hit in ask("Which colour has the new bicycle of Bela?", turns)
    }
    assert values[1] == 1.0
    assert values[3] < 0.5


@pytest.mark.parametrize(
    "asked", ["新しい自転車の色は？", "ما لون دراجتك الجديدة؟", "Welche Farbe hat dein neues Rad?"]
)
def test_question_marks_of_other_scripts_ask_too(asked):
    turns = talk(("Amara", asked), ("Bela", "緑。 Grün."))
    values = {hit.candidate.seq: value(hit, "coverage") for hit in ask(asked, turns, speakers=())}
    assert values[1] == pytest.approx(1.0)


def test_a_long_question_lends_an_answer_no_words():
    asked = "Which colour has your new bicycle? " + "I was out in the garden all day long and saw nobody. " * 12
    turns = talk(("Amara", asked), ("Bela", "Green, like the old one."))
    values = {
        hit.candidate.seq: value(hit, "coverage") for hit in ask("Which colour has the new bicycle of Bela?", turns)
    }
    assert values[1] == 0.0


def test_a_near_answer_is_no_less_near_because_of_the_question_before_it():
    turns = [
        RecallCandidate(seq=1, text="Sushi, of course!", cosine=0.6, before="How are you?", asked_cosine=0.1),
        RecallCandidate(seq=2, text="Rain, what else!", cosine=0.2, before="How are you?"),
        RecallCandidate(seq=3, text="Note without a vector.", before="Ready?", asked_cosine=0.5),
    ]
    values = {hit.candidate.seq: value(hit, "meaning") for hit in ask("favourite meal", turns)}
    assert values[1] == pytest.approx(1.0)
    assert values[2] == 0.0
    assert 0.0 < values[3] < 1.0


def test_a_word_with_another_suffix_matches_like_the_word_of_the_question():
    (therapist,) = talk(("Amara", "My therapist moved to the old mill."), session="s1")
    (bakery,) = talk(("Amara", "The bakery moved to the new station."), session="s2", start=1)
    best, other = ask("Where is the therapy of Amara?", [therapist, bakery])
    assert best.candidate is therapist
    assert value(best, "words") > value(other, "words") == 0


def test_a_name_matches_no_other_name_that_begins_alike():
    (other,) = talk(("Bela", "Marian sold the blue boat."), session="s1")
    (named,) = talk(("Bela", "Maria sold the blue boat."), session="s2", start=1)
    question = parse_question("Did Maria sell the blue boat?", speakers={"Maria", "Marian", "Bela"})
    hits = rank_candidates(question, [other, named], corpus_of([other.text, named.text]))
    words = {hit.candidate.seq: value(hit, "words") for hit in hits}
    assert words[named.seq] > words[other.seq]


def test_meaning_ranks_candidates_whose_words_do_not_match():
    near = RecallCandidate(seq=1, text="The pup needs a vet.", cosine=0.8)
    far = RecallCandidate(seq=2, text="The tap needs a washer.", cosine=0.1)
    assert ask("Is the dog ill?", [far, near])[0].candidate == near


def test_a_record_without_a_vector_ranks_by_its_words():
    named = RecallCandidate(seq=1, text="The heron nests by the old mill.")
    others = [RecallCandidate(seq=2 + index, text=f"Note {index} about taxes.", cosine=0.2) for index in range(20)]
    assert ask("Where does the heron nest?", [*others, named])[0].candidate == named


def test_texts_from_the_asked_month_rank_first():
    june = talk(("Amara", "I went hiking and it was grand."), session="a", day=3)
    other = [
        RecallCandidate(seq=9, text=june[0].text + " Again.", author="Amara", moment=datetime(2024, 9, 3, tzinfo=UTC))
    ]
    assert ask("Where did Amara hike in May 2024?", [*other, *june])[0].candidate.seq == 0


def test_a_relative_date_is_resolved_by_the_day_of_the_record():
    moment = datetime(2024, 7, 2, tzinfo=UTC)
    relative = RecallCandidate(seq=1, text="I went hiking three weeks ago.", author="Amara", moment=moment)
    plain = RecallCandidate(
        seq=2, text="I went hiking, that was nice.", author="Amara", moment=datetime(2024, 8, 30, tzinfo=UTC)
    )
    hits = ask("When did Amara go hiking in June 2024?", [plain, relative])
    assert hits[0].candidate == relative
    assert [value(hit, "time") for hit in hits] == [1.0, 0.0]


def test_a_standing_rule_ranks_first_for_a_request_but_not_for_a_question_about_the_past():
    rule = RecallCandidate(seq=1, text="Always give the price when I ask about plants.", author="user", cosine=0.4)
    notes = [
        RecallCandidate(
            seq=2 + index, text=f"I saw tree number {index} by the gate.", author="user", cosine=0.2 + index / 100
        )
        for index in range(30)
    ]
    assert ask("Which fern is good for a hall?", [*notes, rule])[0].candidate == rule
    assert rule not in [hit.candidate for hit in ask("Which fern did I buy for the hall?", [*notes, rule], k=5)]


def test_the_rule_signal_ignores_assistants():
    rule = "Always give the price when I ask about plants."
    hits = ask(
        "Which fern is good?",
        [RecallCandidate(seq=index, text=rule, author=who) for index, who in enumerate(["user", "assistant"])],
    )
    assert {hit.candidate.author: value(hit, "rule") for hit in hits} == {"user": 1.0, "assistant": 0.0}


def test_a_preference_ranks_first_when_advice_is_asked_for():
    prefers = RecallCandidate(
        seq=1, text="I prefer trains over planes, since I like the views.", author="user", cosine=0.3
    )
    plain = RecallCandidate(seq=2, text="I took planes and trains, since I had to.", author="user", cosine=0.3)
    assert ask("How should I travel, by trains or planes?", [plain, prefers])[0].candidate == prefers


def test_a_wish_of_the_moment_is_not_a_preference():
    texts = ("I want to know how trains and planes work.", "I like to travel by trains or planes.")
    hits = ask(
        "How should I travel, by trains or planes?",
        [RecallCandidate(seq=index, text=text, author="user") for index, text in enumerate(texts)],
    )
    assert {hit.candidate.seq: value(hit, "preference") for hit in hits} == {0: 0.0, 1: 1.0}


def test_the_phrases_signal_matches_an_identifier_literally():
    texts = ["We fixed foo_bar() at last.", "The foo stands beside the bar.", "A bar of foo."]
    hits = ask("What about foo_bar()?", [RecallCandidate(seq=index, text=text) for index, text in enumerate(texts)])
    assert hits[0].candidate.seq == 0
    assert value(hits[0], "phrases") == 1.0
    assert value(hits[1], "phrases") == 0.0


def test_repeated_texts_of_one_author_are_moved_to_the_end():
    texts = ["The key is under the mat.", "The key is under the mat.", "Something else about a door."]
    hits = ask(
        "Where is the key?", [RecallCandidate(seq=index, text=text, author="user") for index, text in enumerate(texts)]
    )
    assert [hit.candidate.seq for hit in hits] == [1, 2, 0]
    assert [hit.repeats for hit in hits] == [None, None, 1]


@pytest.mark.parametrize(
    ("first", "second", "repeats"),
    [
        ("The key is under the mat.", "the key, is it under a mat?", True),
        ("The key is under the mat.", "The key is not under the mat.", False),
        ("The key is under the mat.", "The mat is under the key.", False),
        ("The port is 8080.", "The port is 8081.", False),
        ("I keep the key.", "I keep the key!", False),
    ],
)
def test_another_author_repeats_only_equal_content_words_that_are_not_about_themselves(first, second, repeats):
    asked = [RecallCandidate(seq=1, text=first, author="amara"), RecallCandidate(seq=2, text=second, author="bela")]
    assert any(hit.repeats for hit in ask("Where is the key to the port?", asked, speakers=())) is repeats


@pytest.mark.requirement("RCL-1")
@pytest.mark.parametrize(
    ("question", "day"), [("Which port is in use currently?", 9), ("Which port was in use originally?", 3)]
)
def test_the_newest_or_oldest_ranks_first_when_the_question_asks_for_it(question, day):
    candidates = [
        RecallCandidate(seq=on, text=f"Port {8080 + on} is in use.", moment=datetime(2024, 5, on, tzinfo=UTC))
        for on in (5, 3, 9, 7)
    ]
    assert ask(question, candidates)[0].candidate.moment.day == day


@pytest.mark.requirement("RCL-1")
@pytest.mark.parametrize("reason", ["tier", "trust"])
def test_tier_and_trust_decide_between_equal_matches(reason):
    advantage: dict[str, Any] = {reason: 0.9}
    candidates = [
        RecallCandidate(seq=1, text="The port is 8080.", **advantage),
        RecallCandidate(seq=2, text="The port is 8081."),
    ]
    best = ask("What is the port?", candidates)[0]
    assert best.candidate.seq == 1
    assert value(best, reason) == 0.9


@pytest.mark.requirement("TRU-17", "RCL-7")
def test_what_contradicts_a_more_trusted_hit_changes_places_with_it():
    hits = ask("port 8081 or 8080", [RecallCandidate(seq=seq, text=f"The port is {8079 + seq}.") for seq in (1, 2, 3)])
    seqs = [hit.candidate.seq for hit in hits]
    first, _, last = seqs
    assert [hit.candidate.seq for hit in put_trusted_first(hits, {first: last})] == seqs[::-1]
    assert put_trusted_first(hits, {last: first}) == put_trusted_first(hits, {}) == hits


@pytest.mark.requirement("RCL-1")
def test_a_link_to_a_good_hit_raises_a_candidate():
    candidates = [
        RecallCandidate(seq=1, text="The heron nests by the mill."),
        RecallCandidate(seq=2, text="Closed for repairs.", links=frozenset({1})),
        RecallCandidate(seq=3, text="Closed for holidays."),
    ]
    assert [hit.candidate.seq for hit in ask("Where does the heron nest?", candidates)] == [1, 2, 3]


def test_of_many_rules_only_the_five_nearest_count():
    rules = [
        RecallCandidate(
            seq=index, text=f"Always mention shop {index} when I ask about plants.", author="user", cosine=index / 100
        )
        for index in range(40)
    ]
    hits = ask("Which fern is good for a hall?", rules)
    assert [hit.candidate.seq for hit in hits if value(hit, "rule")] == [39, 38, 37, 36, 35]


def test_a_good_hit_raises_its_session():
    first = talk(("Amara", "My violin teacher is strict."), ("Bela", "Oh dear."), session="a")
    second = talk(("Amara", "The soup is ready."), ("Bela", "Oh dear!"), session="b", start=5)
    hits = {hit.candidate.seq: hit for hit in ask("Who teaches violin?", [*first, *second])}
    assert value(hits[1], "session") == value(hits[0], "session") > value(hits[6], "session")
    assert hits[1].score > hits[6].score


@pytest.mark.requirement("RCL-1")
@pytest.mark.requirement("RCL-1")
def test_a_summary_finds_what_shares_words_with_its_best_hits_but_not_with_the_question():
    garden = [("Amara", f"My garden got seedlings for the greenhouse in week {week}.") for week in range(6)]
    noise = [("Amara", f"The invoice {number} for the office was paid on time.") for number in range(30)]
    later = ("Amara", "The greenhouse is warm, and all seedlings are out by now.")
    turns = [
        candidate
        for number, turn in enumerate([*garden, *noise, later])
        for candidate in talk(turn, session=f"s{number}", start=number)
    ]

    def place(question, weights=WEIGHTS):
        return [hit.candidate.text for hit in ask(question, turns, weights=weights)].index(later[1])

    summary = "Can you give me a summary of the garden?"
    assert place(summary) == len(garden)
    assert place(summary, {**WEIGHTS, "topic": 0.0}) > len(garden)
    assert value(ask("Where is the garden?", turns)[0], "topic") == 0


def test_small_differences_among_few_candidates_stay_small():
    near = [RecallCandidate(seq, "tea", cosine=cosine) for seq, cosine in enumerate((0.70, 0.74))]
    far = [*near, RecallCandidate(2, "tea", cosine=0.1)]
    differences = []
    for candidates in (near, far):
        hits = {hit.candidate.seq: hit for hit in ask("What do I drink?", candidates)}
        differences.append(value(hits[1], "meaning") - value(hits[0], "meaning"))
    assert differences == [pytest.approx(0.1), pytest.approx(0.04 / 0.64)]


def test_ranking_no_candidates_returns_no_hits():
    assert rank_candidates(parse_question("anything"), [], CorpusStatistics(0)) == []


CANDIDATES = st.lists(
    st.builds(
        RecallCandidate,
        seq=st.integers(0, 10**6),
        text=st.text(max_size=80)
        | st.sampled_from(["I never met Amara.", "Always ask. " * 60, "In June I went home."]),
        author=st.sampled_from(["user", "assistant", "Amara", ""]),
        speaker=st.sampled_from(["", "Bela"]),
        moment=st.none() | st.datetimes(timezones=st.just(UTC)),
        session=st.none() | st.sampled_from(["a", "b"]),
        before=st.none() | st.text(max_size=40),
        after=st.none() | st.text(max_size=40),
        cosine=st.none() | st.floats(-1, 1),
        asked_cosine=st.none() | st.floats(-1, 1),
        tier=st.floats(0, 1),
        trust=st.floats(0, 1),
        links=st.frozensets(st.integers(0, 1_000_000), max_size=3),
    ),
    max_size=12,
    unique_by=lambda candidate: candidate.seq,
)
QUESTIONS = st.text(max_size=60) | st.sampled_from(
    ["When did Amara go home in June?", "Have I met Amara?", "Summarise my trips", 'How do I say "home"?']
)


@pytest.mark.requirement("RCL-1")
@given(QUESTIONS, CANDIDATES, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_order_of_candidates_does_not_change_the_ranking(question, candidates, rng):
    shuffled = list(candidates)
    rng.shuffle(shuffled)
    assert ask(question, candidates) == ask(question, shuffled)


@pytest.mark.requirement("RCL-2")
@given(QUESTIONS, CANDIDATES)
@settings(max_examples=60, deadline=None)
def test_signals_add_up_to_the_score_and_every_candidate_is_ranked(question, candidates):
    hits = ask(question, candidates)
    assert {hit.candidate.seq for hit in hits} == {candidate.seq for candidate in candidates}
    for hit in hits:
        assert sum(signal.share for signal in hit.signals) == pytest.approx(hit.score)
        assert {signal.name for signal in hit.signals} == set(WEIGHTS)
        assert all(-1e-9 <= signal.value <= 1 + 1e-9 for signal in hit.signals)
    fresh = [hit.score for hit in hits if hit.repeats is None]
    assert fresh == sorted(fresh, reverse=True)


def test_k_returns_the_best_of_the_full_ranking():
    turns = talk(*[("Amara", f"Note {index} on kites and wind.") for index in range(30)])
    assert ask("kites", turns, k=5) == ask("kites", turns)[:5]


_THINGS = [
    "anchor",
    "barrel",
    "candle",
    "drum",
    "easel",
    "flute",
    "goblet",
    "hammer",
    "icon",
    "jug",
    "kettle",
    "lantern",
    "mirror",
    "needle",
    "oar",
    "pipe",
    "quilt",
    "rug",
]
_PLACES = [
    "attic",
    "barn",
    "cellar",
    "dairy",
    "eaves",
    "forge",
    "garage",
    "hall",
    "inn",
    "jetty",
    "kitchen",
    "loft",
    "mill",
    "nursery",
    "orchard",
    "pantry",
    "quay",
]
_OWNERS = [
    "Ilse",
    "Marek",
    "Noor",
    "Otis",
    "Petra",
    "Quinn",
    "Rosa",
    "Sven",
    "Tara",
    "Umar",
    "Vera",
    "Wim",
    "Xenia",
    "Yusuf",
    "Zora",
]
_FILLER = [
    "the",
    "plan",
    "for",
    "spring",
    "needs",
    "a",
    "careful",
    "look",
    "at",
    "costs",
    "and",
    "time",
    "before",
    "anyone",
    "can",
    "agree",
    "on",
    "the",
    "next",
    "step",
]


@pytest.mark.requirement("RCL-1")
@pytest.mark.parametrize(("seed", "words"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_ranking_finds_facts_deep_in_long_messages(seed, words):
    rng = random.Random(seed)

    def filler(sentences):
        return " ".join(
            " ".join(rng.choices(_FILLER + _THINGS + _PLACES, k=12)).capitalize() + "." for _ in range(sentences)
        )

    facts = [
        (owner, thing, place)
        for owner, thing, place in zip(
            [" ".join(rng.sample(_OWNERS, words)) for _ in range(150)],
            rng.choices(_THINGS, k=150),
            rng.choices(_PLACES, k=150),
            strict=True,
        )
    ]
    messages = [
        RecallCandidate(
            seq=index,
            text=f"{filler(20)} The {thing} of {owner} stands in the {place}. {filler(rng.randint(0, 20))}",
            author=rng.choice(["user", "assistant"]),
            cosine=rng.gauss(0.2, 0.1),
        )
        for index, (owner, thing, place) in enumerate(facts)
    ]
    corpus = corpus_of([message.text for message in messages])
    found = 0.0
    for owner, thing in dict.fromkeys((owner, thing) for owner, thing, _ in facts):
        right = {index for index, fact in enumerate(facts) if fact[:2] == (owner, thing)}
        question = parse_question(f"Where does the {thing} of {owner} stand?", speakers=["user", "assistant"])
        best = {hit.candidate.seq for hit in rank_candidates(question, messages, corpus, k=10)}
        found += len(right & best) / len(right) / len({fact[:2] for fact in facts})
    assert found >= 0.97


def test_of_turns_next_to_each_other_one_is_enough_for_a_question_that_asks_for_several_things():
    texts = ["My hobbies are chess and hobbies like it.", "Such hobbies as chess!", "I sing."]
    turns = [
        RecallCandidate(
            seq=index,
            text=text,
            author="user",
            session="monday",
            cosine=0.6 - index / 100,
            before=texts[index - 1] if index == 1 else None,
            after=texts[1] if index == 0 else None,
        )
        for index, text in enumerate(texts)
    ]
    several = {hit.candidate.seq: value(hit, "adjacent") for hit in ask("Which hobbies do I have?", turns)}
    assert several == {0: 0.0, 1: 0.5, 2: 0.0}
    assert not any(value(hit, "adjacent") for hit in ask("Which hobby do I have?", turns))


PIECES = "I My my we We our Your you Yours Al Bo Ida Ann x, e m. Imy _I you_ ourr 7 é ?"
TEXTS = st.lists(st.lists(st.sampled_from(PIECES.split()), max_size=12).map(" ".join), max_size=6)


@given(TEXTS)
def test_text_features_count_persons_and_names(texts):
    features = compute_features(texts)
    for index, text in enumerate(texts):
        first, second = re.findall(r"\b(?:I|[Mm]y|[Ww]e|[Oo]ur)\b", text), re.findall(r"\b[Yy]ou(?:rs?)?\b", text)
        names = len(re.findall("[a-z,] [A-Z][a-z]", text)) + ("7" in text)
        assert features.personal[index] == min(1.0, len(first) / 3)
        assert features.about_speaker[index] == (len(first) + 1) / (len(first) + len(second) + 1.5)
        assert features.specific[index] == min(1.0, names / 2)
        assert (features.question_share[index] > 0) == bool(re.search(r"[^.? ] \?", text))


@given(st.lists(TEXTS, max_size=5))
def test_cached_text_features_are_those_of_the_text(lists_of_texts):
    for texts in lists_of_texts:
        assert np.array_equal(_cached_features(texts), compute_features(texts))


def test_a_question_about_a_time_prefers_a_text_that_names_one():
    texts = ["We painted the fence of the garden.", "We painted the fence of the garden last week."]
    turns = [
        RecallCandidate(seq=-index, text=text, author="user", cosine=0.5, moment=datetime(2024, 5, 6, tzinfo=UTC))
        for index, text in enumerate(texts)
    ]
    asked_when = ask("When did we paint the fence of the garden?", turns)
    assert [hit.candidate.text for hit in asked_when] == texts[::-1]
    assert [value(hit, "dated") for hit in asked_when] == [1.0, 0.0]
    assert not any(value(hit, "dated") for hit in ask("Why did we paint the fence of the garden?", turns))


def test_dates_are_looked_for_in_the_best_texts_only():
    turns = [
        RecallCandidate(
            seq=index,
            text=f"Fence number {index} was painted yesterday.",
            author="user",
            cosine=0.9 - index / 100,
            moment=datetime(2024, 5, 6, tzinfo=UTC),
        )
        for index in range(60)
    ]
    dated = [value(hit, "dated") for hit in ask("When was the fence painted?", turns)]
    assert 0 < sum(dated) < len(turns)
    assert dated == sorted(dated, reverse=True)
