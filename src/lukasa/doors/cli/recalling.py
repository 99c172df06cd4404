"""Commands that find by meaning: recall, reembed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lukasa.doors.cli import show
from lukasa.doors.cli.caller import AsJson, caller, moment, progress, require_text

if TYPE_CHECKING:
    from lukasa.recall.room import Recalled, Recollection

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
    as_json: AsJson = False,
) -> None:
    """Find the records that answer a question, by words and by meaning, best first.

    Example: lukasa recall "When is the release?" -k 3 --explain
    """
    call = caller(ctx, as_json)
    require_text(question)
    with call.open() as memory:
        recalled = memory.recall(
            question,
            k,
            kinds=kind or (),
            scopes=scope or (),
            author=author,
            session=session,
            labels=label or (),
            since=moment(since),
            until=moment(until),
            as_of=moment(as_of),
        )
    if call.json:
        show.as_json(_as_json(recalled, explain=explain))
    elif budget is not None:
        from lukasa.recall.room import block

        typer.echo(block(recalled, budget).text)
    else:
        _report(recalled, explain=explain)


def reembed(
    ctx: typer.Context,
    embedder: Annotated[str, typer.Option(help="minilm, static, hash or http:URL#model.")],
    as_json: AsJson = False,
) -> None:
    """Change the store's embedder: make all vectors anew while the old ones serve. After a break, run it again.

    Example: lukasa reembed --embedder minilm
    """
    call = caller(ctx, as_json)
    with call.open(make=False) as memory, progress("Making vectors") as bar:
        name = memory.recall.reembed(embedder, bar)
    if call.json:
        show.as_json({"embedder": embedder, "model": name})
    else:
        show.say(f"The vectors of this store are now those of {name}.")


def _report(recalled: Recalled, *, explain: bool) -> None:
    if recalled.note:
        show.whisper(recalled.note)
    if recalled.unindexed:
        show.whisper(f"{show.counted(recalled.unindexed, 'text')} not yet indexed by meaning, found by words alone.")
    if not recalled.hits:
        show.say("Nothing was found.")
        return
    columns = ("score", "scope", "kind", "id", "author", "text", *(("why",) if explain else ()))
    show.table(columns, [_row(hit, explain=explain) for hit in recalled.hits], fold=("text", "why"))
    if explain and recalled.dropped:
        show.say("Next, and left out:")
        show.table(columns, [_row(hit, explain=True) for hit in recalled.dropped[:5]], fold=("text", "why"))


def _row(hit: Recollection, *, explain: bool) -> tuple[Any, ...]:
    record = hit.record
    row = (f"{hit.score:.2f}", record.scope, record.kind, record.id, record.author, " ".join(record.text.split())[:200])
    return (*row, hit.why) if explain else row


def _as_json(recalled: Recalled, *, explain: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "hits": [_hit_json(hit, explain=explain) for hit in recalled.hits],
        "unindexed": recalled.unindexed,
        "note": recalled.note,
    }
    if explain:
        answer["dropped"] = [_hit_json(hit, explain=True) for hit in recalled.dropped]
    return answer


def _hit_json(hit: Recollection, *, explain: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"score": hit.score, "trust": hit.trust, "record": show.record_json(hit.record)}
    if explain:
        told["signals"] = {
            signal.name: {"value": signal.value, "weight": signal.weight, "share": signal.share}
            for signal in hit.signals
        }
        told["repeats"] = hit.repeats
        told["crowded"] = hit.crowded
    return told
