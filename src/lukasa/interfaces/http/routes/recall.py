"""``/v1/recall``: answers from everything the caller may read."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from lukasa.interfaces.http.prefix_router import PrefixRouter
from lukasa.interfaces.http.requests import CallerMemory, Moment, Name, RequestModel, to_moment
from lukasa.interfaces.http.responses import JsonResponse
from lukasa.interfaces.serialise import recall_json
from lukasa.recall.recall import build_prompt_block

router = PrefixRouter(prefix="/v1/recall", tags=["recall"])


class Question(RequestModel):
    """A question, and filters that every hit must meet."""

    query: Annotated[str, Field(max_length=10_000)]
    k: Annotated[int, Field(ge=1, le=100)] = 10
    kinds: list[Name] = Field(default=[], max_length=50)
    scopes: list[Name] = Field(default=[], max_length=100)
    author: Name | list[Name] | None = Field(None, description="One author, or several of which any will do.")
    conversation: Name | list[Name] | None = Field(
        None, description="One conversation, or several of which any will do."
    )
    labels: list[Name] = Field(default=[], max_length=20, description="All of these.")
    any_labels: list[Name] = Field(default=[], max_length=20, description="One of these.")
    exclude: list[Name] = Field(default=[], max_length=20, description="None of these labels.")
    where: dict[Name, Any] = Field(
        default={}, max_length=20, description='Fields of the body: {"status": "open", "price": {"gte": 10, "lt": 20}}.'
    )
    since: Moment | None = None
    until: Moment | None = None
    as_of: Moment | None = Field(None, description="Answer as the store was at this time.")
    deadline: Annotated[float, Field(gt=0, le=60)] | None = Field(
        None, description="Seconds; if the embedder has not answered by then, words alone find the records."
    )
    min_relevance: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Only hits of this relevance; 0 returns the best in any case."
    )
    explain: bool = Field(False, description="Return the signals of each hit, and what was dropped.")
    block_tokens: Annotated[int, Field(ge=100, le=50_000)] | None = Field(
        None, description="Also return a fenced block for a prompt with at most so many tokens."
    )


@router.post("")
def recall(memory: CallerMemory, body: Question) -> Any:
    """Return the records that answer a question, best first."""
    result = memory.recall(
        body.query,
        body.k,
        kinds=tuple(body.kinds),
        scopes=tuple(body.scopes),
        author=body.author,
        conversation=body.conversation,
        labels=tuple(body.labels),
        any_labels=tuple(body.any_labels),
        exclude=tuple(body.exclude),
        where=body.where,
        since=to_moment(body.since),
        until=to_moment(body.until),
        as_of=to_moment(body.as_of),
        deadline=body.deadline,
        min_relevance=body.min_relevance,
    )
    answer = recall_json(result, explain=body.explain)
    if body.block_tokens is not None:
        block = build_prompt_block(result, body.block_tokens)
        answer["block"] = {"text": block.text, "tokens": block.tokens}
    return JsonResponse(answer)
