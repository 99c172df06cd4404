"""``lukasa bench recall``: the layouts of public sets, intervals, and what each signal is worth."""

import json

import pytest

from lukasa.errors import FormatError
from lukasa.recall import WEIGHTS
from lukasa_bench.question_sets import load_question_set
from lukasa_bench.recall import TUNED_ON, run

SAID = ("I adopted a greyhound.", "How is the new job?", "The job at the museum is great.")

LOCOMO = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ada",
            "session_2_date_time": "1:56 pm on 9 May, 2023",
            "session_2": [{"speaker": "Ben", "dia_id": "D2:1", "text": SAID[2]}],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ada", "dia_id": "D1:1", "text": SAID[0]},
                {"speaker": "Ada", "dia_id": "D1:2", "text": SAID[1]},
            ],
        },
        "qa": [
            {"question": "Which dog did Ada adopt?", "answer": "a greyhound", "evidence": ["D1:1"], "category": 4},
            {"question": "Where does Ben work, and is it good?", "evidence": ["D1:2; D2:1"], "category": 1},
            {"question": "Which dog did Ben adopt?", "evidence": ["D1:1"], "category": 5},
        ],
    }
]
LONGMEMEVAL = [
    {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "Which dog did I adopt?",
        "haystack_session_ids": ["a", "b"],
        "haystack_dates": ["2023/05/08 (Mon) 13:56", "2023/05/09 (Tue) 10:00"],
        "haystack_sessions": [
            [{"role": "user", "content": SAID[0], "has_answer": True}, {"role": "assistant", "content": SAID[1]}],
            [{"role": "user", "content": SAID[2]}],
        ],
        "answer_session_ids": ["a"],
    }
]
BEAM_CHAT = [
    {
        "batch_number": 1,
        "turns": [
            [
                {"role": "user", "id": 0, "content": SAID[0], "time_anchor": "March-15-2024"},
                {"role": "assistant", "id": 1, "content": SAID[1]},
            ],
            [{"role": "user", "id": 2, "content": SAID[2]}],
        ],
    }
]
BEAM_QUESTIONS = {
    "information_extraction": [{"question": "Which dog did I adopt?", "source_chat_ids": {"first": [0], "then": [[2]]}}]
}


@pytest.fixture
def places(tmp_path):
    (tmp_path / "locomo10.json").write_text(json.dumps(LOCOMO))
    (tmp_path / "longmemeval_s.json").write_text(json.dumps(LONGMEMEVAL))
    chat = tmp_path / "beam" / "1"
    (chat / "probing_questions").mkdir(parents=True)
    (chat / "chat.json").write_text(json.dumps(BEAM_CHAT))
    (chat / "probing_questions" / "probing_questions.json").write_text(json.dumps(BEAM_QUESTIONS))
    own = tmp_path / "own"
    own.mkdir()
    turns = [{"id": "1", "session": "s", "time": "2024-05-01T10:00:00+00:00", "speaker": "Ada", "text": SAID[0]}]
    questions = [{"id": "q", "question": "Which dog?", "category": "fact", "evidence": ["1"]}]
    (own / "talk.json").write_text(json.dumps({"turns": turns, "questions": questions}))
    return {"locomo": tmp_path / "locomo10.json", "longmemeval": tmp_path / "longmemeval_s.json"} | {
        "beam": tmp_path / "beam",
        "own": own,
    }


@pytest.mark.requirement("RCL-6")
@pytest.mark.parametrize(
    ("layout", "turns", "evidence"),
    [
        ("locomo", ["D1:1", "D1:2", "D2:1"], [["D1:1"], ["D1:2", "D2:1"], ["D1:1"]]),
        ("longmemeval", ["0-a-0", "0-a-1", "1-b-0"], [["0-a-0"]]),
        ("beam", ["0", "1", "2"], [["0", "2"]]),
        ("own", ["1"], [["1"]]),
    ],
)
def test_the_layouts_of_public_sets_are_read(places, layout, turns, evidence):
    (conversation,) = load_question_set(places[layout])["conversations"]
    assert [turn["id"] for turn in conversation["turns"]] == turns
    assert [question["evidence"] for question in conversation["questions"]] == evidence
    assert all(turn["moment"].year in (2023, 2024) for turn in conversation["turns"])


@pytest.mark.requirement("RCL-6")
def test_a_report_has_intervals_by_category_and_says_what_was_tuned(places):
    (report,) = run([places["locomo"]], embedder="hash", ablate=True)
    found = report.ways[0]
    assert set(found.by_category) == {"single-hop", "multi-hop", "adversarial"}
    assert found.figures.questions == 2
    assert found.figures.interval[0] <= found.figures.recall_10 <= found.figures.interval[1]
    assert report.tuned_on == TUNED_ON
    assert [way.way for way in report.ways[1:]] == [f"without {signal}" for signal in WEIGHTS]


@pytest.mark.requirement("RCL-6")
@pytest.mark.parametrize("content", ["[]", "{}", '[{"a": 1}]', "3", '{"conversations": [{"turns": [{}]}]}'])
def test_a_file_that_is_no_question_set_is_refused(tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(FormatError):
        load_question_set(tmp_path / "x.json")
