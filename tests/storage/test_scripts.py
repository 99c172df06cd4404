"""Words of every script are found by recall, with every embedder and on both engines."""

from __future__ import annotations

import pytest

import lukasa

TEXTS = {
    "zh": ("我们的部署方案周五之前确定", "部署方案"),
    "ja": ("明日の会議は三時から始まります", "会議"),
    "ko": ("금요일에 배포를 시작합니다", "배포"),
    "ko2": ("데이터베이스 이전은 끝났다", "데이터베이스를"),
    "th": ("เลื่อนการประชุมไปวันศุกร์", "การประชุม"),
    "mixed": ("毎回issue化してから直す", "issue化"),
    "ar": ("اللقاء يوم الخميس", "الخميس"),
    "hi": ("सब लोग दिल्ली जाएंगे", "दिल्ली"),
    "ru": ("Платёжный модуль переписан", "платежный"),
    "he": ("הַכֹּל בְּסֵדֶר גָּמוּר", "בסדר"),
}


def ask_in_every_script(store, embedder) -> dict[str, str]:
    with lukasa.open(store, embedder=embedder) as memory:
        for id, (text, _) in TEXTS.items():
            memory.journal.write("note", text, id=id)
        return {id: memory.recall(word, 1).records[0].id for id, (_, word) in TEXTS.items()}


@pytest.mark.requirement("RCL-10")
@pytest.mark.parametrize("embedder", ["hash", "static", "minilm"])
def test_recall_finds_words_of_every_script_with_every_embedder(tmp_path, embedder):
    assert ask_in_every_script(tmp_path / "store.db", embedder) == {id: id for id in TEXTS}


@pytest.mark.requirement("RCL-10")
def test_recall_finds_words_of_every_script_on_postgresql(fresh_store):
    assert ask_in_every_script(fresh_store(), "hash") == {id: id for id in TEXTS}
