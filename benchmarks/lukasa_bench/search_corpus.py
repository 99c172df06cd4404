"""Conversations and vectors for millions of records, made in blocks at a fraction of the usual cost.

The texts have the word frequencies of ``ConversationCorpus``. A turn's vector is a mix of the directions of the topic words in
it and of random noise, half and half, so that the turns of a session are near each other and near questions about them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lukasa_bench.conversations import (
    FUNCTION_WORDS,
    LONG_SHARE,
    LONG_TURN_WORDS,
    MAX_WORDS,
    MIN_WORDS,
    TAGGED_SHARE,
    TOPIC_SHARE,
    TURNS_IN_SESSION,
    VECTOR_LENGTH,
    ConversationCorpus,
    CorpusTurn,
    RareWordEmbedder,
    join_sentences,
    list_vocabulary,
    session_profile,
    session_tag,
    turn_moment,
)

if TYPE_CHECKING:
    from lukasa.models.embedder import Vectors

_TOPIC_WEIGHT = 0.5


class MadeConversations(ConversationCorpus):
    """Makes whole sessions at once, and the vectors of their turns; the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        words, frequencies = list_vocabulary()
        self._words = np.array(words, dtype=object)
        self._shares = np.array(frequencies) / frequencies[-1]
        self._number_by_word = {word: number for number, word in enumerate(words)}
        self._directions = RareWordEmbedder().embed(words[len(FUNCTION_WORDS) :])

    def take_with_vectors(self, count: int) -> tuple[list[CorpusTurn], Vectors]:
        """Return the next turns, whole sessions of them, and their vectors."""
        rng = np.random.default_rng((self._seed, self.taken_count))
        start, sessions = self.taken_count // TURNS_IN_SESSION, count // TURNS_IN_SESSION
        profiles = [session_profile(self._seed, start + nr) for nr in range(sessions)]
        topics = np.array([[self._number_by_word[word] for word in topic] for _, topic in profiles])
        lengths = rng.integers(MIN_WORDS, MAX_WORDS + 1, count)
        lengths[rng.random(count) < LONG_SHARE] = LONG_TURN_WORDS
        turn_of_word = np.repeat(np.arange(count), lengths)
        numbers = np.searchsorted(self._shares, rng.random(len(turn_of_word)), side="right")
        of_topic = np.flatnonzero(rng.random(len(numbers)) < TOPIC_SHARE)
        slots = rng.integers(0, topics.shape[1], len(of_topic))
        numbers[of_topic] = topics[turn_of_word[of_topic] // TURNS_IN_SESSION, slots]
        words, ends = self._words[numbers].tolist(), np.cumsum(lengths).tolist()
        tagged = (rng.random(count) < TAGGED_SHARE).tolist()
        turns = []
        for index in range(count):
            speakers, _ = profiles[index // TURNS_IN_SESSION]
            nr, place = divmod(self.taken_count, TURNS_IN_SESSION)
            own = words[ends[index - 1] if index else 0 : ends[index]]
            if tagged[index]:
                own.insert(len(own) // 2, session_tag(self._seed, nr))
            self.taken_count += 1
            turns.append(
                CorpusTurn(
                    f"t{self.taken_count}", f"s{nr}", speakers[place % len(speakers)], join_sentences(own),
                    turn_moment(nr, place),
                )
            )  # fmt: skip
        counts = np.zeros((count, topics.shape[1]), dtype=np.float32)
        np.add.at(counts, (turn_of_word[of_topic], slots), 1)
        directions = self._directions[topics - len(FUNCTION_WORDS)]
        about = np.matmul(counts.reshape(sessions, TURNS_IN_SESSION, -1), directions).reshape(count, VECTOR_LENGTH)
        about /= np.maximum(np.linalg.norm(about, axis=1, keepdims=True), 1e-9)
        noise = rng.standard_normal((count, VECTOR_LENGTH), dtype=np.float32) / np.float32(VECTOR_LENGTH**0.5)
        return turns, _TOPIC_WEIGHT**0.5 * about + (1 - _TOPIC_WEIGHT) ** 0.5 * noise
