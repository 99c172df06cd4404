"""Commands of recall: recall and reembed."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lukasa.core.clock import to_iso
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import (
    AsOfOption,
    BlockBudgetOption,
    Call,
    KindsOption,
    LabelsOption,
    ScopesOption,
    SinceOption,
    UntilOption,
    argument,
    choice,
    flag,
    option,
    parse_time,
    progress_bar,
    require_scopes,
    require_utf8,
)
from lukasa.interfaces.serialise import recall_json
from lukasa.models.embedders import EMBEDDER_ORDER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lukasa.recall.recall import RecallHit

_SIGNS = {"=": "eq", "!=": "ne", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}


def recall(
    call: Call,
    query: Annotated[str, argument("QUERY", "A question, or key words.")],
    k: Annotated[int, option("N", "Maximum number of records.", "-k", min=0)] = 10,
    kind: KindsOption = None,
    scope: ScopesOption = None,
    author: Annotated[list[str] | None, option("NAME", "Only what this author wrote (repeatable).")] = None,
    conversation: Annotated[list[str] | None, option("ID", "Only this conversation (repeatable).")] = None,
    label: LabelsOption = None,
    any_label: Annotated[list[str] | None, option("LABEL", "Only with one of these labels (repeatable).")] = None,
    exclude: Annotated[list[str] | None, option("LABEL", "Only without this label (repeatable).")] = None,
    where: Annotated[
        list[str] | None, option("FIELD=VALUE", "Compare a field with =, !=, <, <=, > or >= (repeatable).")
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    as_of: AsOfOption = None,
    explain: Annotated[bool, flag("--explain", "Show why each record was found, and the next candidates.")] = False,
    include_expired: Annotated[bool, flag("--include-expired", "Include memories that have expired.")] = False,
    min_relevance: Annotated[
        float | None, option("0..1", "Only records of this relevance; 0 shows the best in any case.", min=0, max=1)
    ] = None,
    budget: BlockBudgetOption = None,
    deadline: Annotated[
        float | None,
        option("SECONDS", "How long to wait for the embedder; then words alone find the records.", min=0.001),
    ] = None,
) -> None:
    """Find the records that answer a question, by words and by meaning, best first.

    Example: lukasa recall "when do we deploy?" -k 5
    """
    require_utf8(query)
    require_scopes(call.existing_memory.journal, *(scope or ()))
    filters: dict[str, Any] = {"kinds": kind or (), "scopes": scope or (), "author": author, "labels": label or ()}
    filters |= {"any_labels": any_label or (), "exclude": exclude or (), "where": _parse_conditions(where or ())}
    times: Any = {"since": parse_time(since), "until": parse_time(until), "as_of": parse_time(as_of)}
    options: Any = {
        "conversation": conversation,
        "include_expired": include_expired,
        "deadline": deadline,
        "min_relevance": min_relevance,
    }
    result = call.existing_memory.recall(query, k, **options, **filters, **times)
    if budget is not None and not call.json:
        from lukasa.recall.recall import build_prompt_block

        typer.echo(build_prompt_block(result, budget).text)
        return
    if result.note:
        call.warn(result.note)
    if result.unindexed:
        texts = render.format_count(result.unindexed, "text")
        call.warn(f"{texts} not yet indexed by meaning; only words were searched in them.")
    if result.left_out:
        expired = render.format_count(len(result.left_out), "record")
        ids = ", ".join(entry.record.id for entry in result.left_out)
        call.warn(f"{expired} left out because expired: {ids}. --include-expired shows them.")
    columns: tuple[render.Column, ...] = (
        "score:.2f, relevance:.2f, scope=record.scope, kind=record.kind, id=record.id, author=record.author",
        ("text", _describe_hit),
        *(("why",) if explain else ()),
    )
    table: dict[str, Any] = {"columns": columns, "wrap": "text, why"}
    call.show(recall_json(result, explain=explain), rows=result.hits, empty="Nothing was found.", **table)
    if explain and result.dropped:
        call.show_more("The next candidates, which were left out:", rows=result.dropped[:5], **table)


def _parse_conditions(conditions: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Parse conditions such as ``price>=10``; a value that is JSON is a number, a truth value or null, any other is text."""
    found: dict[str, dict[str, Any]] = {}
    for condition in conditions:
        end = next((place for place, character in enumerate(condition) if character in "=!<>"), 0)
        sign = next((sign for sign in ("!=", "<=", ">=", "=", "<", ">") if condition.startswith(sign, end)), "")
        if not end or not sign:
            raise InvalidInput(f"{condition!r:.80} is no condition.", hint="Write FIELD=VALUE, FIELD>=VALUE and so on.")
        value: Any = condition[end + len(sign) :]
        with suppress(ValueError):
            value = json.loads(value)
        found.setdefault(condition[:end], {})[_SIGNS[sign]] = value
    return found


def _describe_hit(hit: RecallHit) -> str:
    """Return the text of a hit on one line, and the record that supersedes it or is trusted more."""
    text = " ".join(hit.record.text.split())[:200]
    if hit.orders:
        return f"{text} (gives orders that nobody confirmed)"
    if (newest := hit.superseded_by) is not None:
        return f"{text} (superseded by {newest.id}, {to_iso(newest.at)[:10]})"
    if (trusted := hit.contradicts) is not None:
        return f"{text} (contradicts {trusted.id} by {trusted.record.author or 'the owner'}, who is trusted more)"
    return text


def reembed(
    call: Call, embedder: Annotated[str, choice("NAME", "minilm, static, hash or http:URL#model.", EMBEDDER_ORDER)]
) -> None:
    """Change the embedding model of the store and compute all vectors again.

    The old vectors are used until the new ones are complete. If the command is interrupted, run it again.

    Example: lukasa reembed --embedder minilm
    """
    with progress_bar("Computing vectors") as bar:
        model = call.existing_memory.recall.reembed(embedder, bar)
    call.show({"embedder": embedder, "model": model}, f"The store now uses the vectors of {model}.")
