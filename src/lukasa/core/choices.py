"""Words with a fixed choice: types for editors and type checkers, and the same words as lists."""

from __future__ import annotations

from typing import Literal, get_args

Tier = Literal["canon", "register"]
"""A lasting fact of the vault, or a fact of a topic that is replaced."""
Role = Literal["user", "assistant", "system", "tool", "developer"]
"""The role of a speaker. A turn with another role, from another program, is stored with ``context.extend``."""
EpisodeOutcome = Literal["success", "failure", "partial", "running", "abandoned", "aborted", "cancelled", "timeout"]
"""How a task ended. An episode with another word, from another program, is stored with ``episodes.add``."""
KnowledgeKind = Literal["pattern", "antipattern", "fact"]
KnowledgeRelation = Literal[
    "derived_from", "related_to", "contradicts", "elaborates", "example_of", "supersedes", "superseded_by"
]
PredictionStatus = Literal["active", "resolved", "expired", "recovering"]
LessonSubject = Literal["convention", "decision", "remedy", "preference", "place", "note"]
"""What a lesson is: a rule of the project, a decision, what ended an error, a person's wish, where something is, or another."""
ProposalState = Literal["open", "accepted", "refused"]
SearchProfile = Literal["hybrid", "lexical"]

TIERS: tuple[Tier, ...] = get_args(Tier)
ROLES: tuple[Role, ...] = get_args(Role)
EPISODE_OUTCOMES: tuple[EpisodeOutcome, ...] = get_args(EpisodeOutcome)
KNOWLEDGE_KINDS: tuple[KnowledgeKind, ...] = get_args(KnowledgeKind)
RELATIONS: tuple[KnowledgeRelation, ...] = get_args(KnowledgeRelation)
PREDICTION_STATUSES: tuple[PredictionStatus, ...] = get_args(PredictionStatus)
LESSON_SUBJECTS: tuple[LessonSubject, ...] = get_args(LessonSubject)
PROPOSAL_STATES: tuple[ProposalState, ...] = get_args(ProposalState)
SEARCH_PROFILES: tuple[SearchProfile, ...] = get_args(SearchProfile)
