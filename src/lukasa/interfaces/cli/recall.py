"""Commands that find by meaning: recall, reembed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import JsonOption, get_options, parse_time, progress_bar, require_utf8

if TYPE_CHECKING:
    from lukasa.recall.recall import RecallHit, RecallResult

_TIME = "TIME"


def recall(
    ctx: typer.Context,
    question: Annotated[str, typer.Argument(metavar="QUERY", help="What to find, in any words.")],
    k: Annotated[int, typer.Option("-k", min=0, help="At most so many records.")] = 10,
    kind: Annotated[list[str] | None, typer.Option(metavar="KIND", help="Only this kind; may be repeated.")] = None,
    scope: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this scope; may be repeated.")] = None,
    author: Annotated[str | None, typer.Option(metavar="NAME", help="Only what this author wrote.")] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Only what was said in this session.")] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="LABEL", help="Only with this label; all of them.")] = None,
    since: Annotated[str | None, typer.Option(metavar=_TIME, help="Only what happened at or after this time.")] = None,
    until: Annotated[str | None, typer.Option(metavar=_TIME, help="Only what happened at or before it.")] = None,
    as_of: Annotated[str | None, typer.Option(metavar=_TIME, help="As the store was at this time.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say why each is there, and what came next.")] = False,
    budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", min=1, help="Print a fenced block for a prompt instead.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the records that answer a question, by words and by meaning, best first.

    Example: lukasa recall "When is the release?" -k 3 --explain
    """
    call = get_options(ctx, as_json)
    require_utf8(question)
    with call.open() as memory:
        recalled = memory.recall(
            question,
            k,
            kinds=kind or (),
            scopes=scope or (),
            author=author,
            session=session,
            labels=label or (),
            since=parse_time(since),
            until=parse_time(until),
            as_of=parse_time(as_of),
        )
    if call.json:
        render.print_json(_result_json(recalled, explain=explain))
    elif budget is not None:
        from lukasa.recall.recall import build_prompt_block

        typer.echo(build_prompt_block(recalled, budget).text)
    else:
        _print_result(recalled, explain=explain)


def reembed(
    ctx: typer.Context,
    embedder: Annotated[str, typer.Option(help="minilm, static, hash or http:URL#model.")],
    as_json: JsonOption = False,
) -> None:
    """Change the store's embedder: make all vectors anew while the old ones serve. After a break, run it again.

    Example: lukasa reembed --embedder minilm
    """
    call = get_options(ctx, as_json)
    with call.open(create=False) as memory, progress_bar("Making vectors") as bar:
        name = memory.recall.reembed(embedder, bar)
    if call.json:
        render.print_json({"embedder": embedder, "model": name})
    else:
        render.print_line(f"The vectors of this store are now those of {name}.")


def _print_result(recalled: RecallResult, *, explain: bool) -> None:
    if recalled.note:
        render.print_to_stderr(recalled.note)
    if recalled.unindexed:
        render.print_to_stderr(
            f"{render.format_count(recalled.unindexed, 'text')} not yet indexed by meaning, found by words alone."
        )
    if not recalled.hits:
        render.print_line("Nothing was found.")
        return
    columns = ("score", "scope", "kind", "id", "author", "text", *(("why",) if explain else ()))
    render.print_table(columns, [_hit_row(hit, explain=explain) for hit in recalled.hits], wrap=("text", "why"))
    if explain and recalled.dropped:
        render.print_line("Next, and left out:")
        render.print_table(columns, [_hit_row(hit, explain=True) for hit in recalled.dropped[:5]], wrap=("text", "why"))


def _hit_row(hit: RecallHit, *, explain: bool) -> tuple[Any, ...]:
    record = hit.record
    row = (f"{hit.score:.2f}", record.scope, record.kind, record.id, record.author, " ".join(record.text.split())[:200])
    return (*row, hit.why) if explain else row


def _result_json(recalled: RecallResult, *, explain: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "hits": [_hit_json(hit, explain=explain) for hit in recalled.hits],
        "unindexed": recalled.unindexed,
        "note": recalled.note,
    }
    if explain:
        answer["dropped"] = [_hit_json(hit, explain=True) for hit in recalled.dropped]
    return answer


def _hit_json(hit: RecallHit, *, explain: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"score": hit.score, "trust": hit.trust, "record": render.record_json(hit.record)}
    if explain:
        told["signals"] = {
            signal.name: {"value": signal.value, "weight": signal.weight, "share": signal.share}
            for signal in hit.signals
        }
        told["repeats"] = hit.repeats
        told["crowded"] = hit.crowded
    return told
