"""The command that moves a whole store: copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from lukasa.config import Place, locate
from lukasa.copying import LEFT_BEHIND, Copied, Proof, Share, copy_log, same_store
from lukasa.doors.cli import show
from lukasa.doors.cli.caller import AsJson, Caller, caller, progress
from lukasa.doors.cli.outcome import Ending
from lukasa.errors import InvalidInput, NotAllowed, StoreMissing
from lukasa.memory import Memory

_LONGEST_HASH, _SHORTEST_HASH = 26, 8
_NAMED = 20


def copy(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SRC", help="The store to copy: a file or a postgresql:// URL.")],
    destination: Annotated[
        str, typer.Argument(metavar="DEST", help="Where to: likewise. A file that is not there is made.")
    ],
    as_json: AsJson = False,
) -> None:
    """Copy a whole store to another place, and prove that it arrived. After a break, run it again: it goes on.

    Exit code 8: the proof does not hold.

    Example: lukasa copy agents.db postgresql://db.example/agents
    """
    call = caller(ctx, as_json)
    ends = _ends(call, source, destination)
    try:
        with _open(source, make=False) as ours, _open(destination, make=True) as theirs:
            done = copy_log(ours.journal, theirs.journal, progress)
    except KeyboardInterrupt:
        show.whisper("What was copied so far stays there; run it again to go on.")
        raise
    here, there = map(str, ends)
    if call.json:
        show.as_json({"source": here, "destination": there, **_as_json(done)})
    else:
        _report(done, here, there)
    if not done.proof.holds:
        raise typer.Exit(Ending.UNPROVED)


def _ends(call: Caller, source: str, destination: str) -> list[Place]:
    """Both stores' places, once it is clear that one can be copied to the other."""
    if call.agent or call.scopes:
        raise NotAllowed(
            "Only the owner of both stores may copy one into the other.", hint="Leave out --agent and --scope."
        )
    if call.store is not None:
        raise InvalidInput("copy takes both stores as arguments.", hint="Leave out --store.")
    ends = [locate(source), locate(destination)]
    if any(place.engine == "memory" for place in ends):
        raise InvalidInput("A store in memory is gone when the command ends.", hint="Name a file or a database.")
    if same_store(*ends):
        raise InvalidInput(f"{ends[1]} is the source itself.", hint="Name another destination.")
    path = ends[0].path
    if path is not None and not path.exists():
        raise StoreMissing(f"There is no store at {path}.", hint="Check the name of the source.")
    return ends


def _open(store: str, *, make: bool) -> Memory:
    return Caller(store).open(make=make)


def _report(done: Copied, source: str, destination: str) -> None:
    proof = done.proof
    met = f", met {done.present:,} that were there" if done.present else ""
    show.say(f"Copied {show.counted(done.added, 'version')} from {source} to {destination}{met}.")
    if done.refused:
        show.say(f"Refused by the destination: {show.counted(done.refused, 'version')}.")
        rows = [(refusal.key, refusal.version, refusal.reason) for refusal in done.refusals]
        show.table(("record", "version", "reason"), rows, fold=("reason",))
        if done.refused > len(done.refusals):
            show.say(f"and {done.refused - len(done.refusals):,} more.")
    if proof.shares:
        _show_shares(proof.shares)
    if gone := [key for share in proof.shares for key in share.erased]:
        show.say(f"Erased in the source, but not in the destination: {show.counted(len(gone), 'record')}.")
        for key in gone[:_NAMED]:
            show.say(f"  {key}")
        show.say("`lukasa --store DEST erase KIND ID` erases one there too.")
    show.say(_sum_up(proof))
    show.say(f"Not part of a log, and so not copied: {' and '.join(LEFT_BEHIND)}.")


def _show_shares(shares: Sequence[Share]) -> None:
    """The proof as a table. Of the hashes, as much as the screen is wide."""
    names = ("scope", "kind", "versions", "there", "own", "proof")
    rows = [
        (share.scope, share.kind, f"{share.versions:,}", f"{share.there:,}", f"{share.own:,}", _verdict(share))
        for share in shares
    ]
    length = max(_SHORTEST_HASH, min(_LONGEST_HASH, show.room_beside(names, rows) // 2 - 2))
    columns = ("scope", "kind", "versions", "hash", "there", "hash there", "own", "proof")
    hashes = [(share.hash[:length], share.hash_there[:length]) for share in shares]
    whole = [(*row[:3], hash, row[3], there, *row[4:]) for row, (hash, there) in zip(rows, hashes, strict=True)]
    show.table(columns, whole, fold=("proof",))


def _verdict(share: Share) -> str:
    """What is the matter with a share, in a few words."""
    if share.there < share.versions:
        return f"{share.versions - share.there:,} missing"
    if not share.arrived:
        return "other content"
    if share.erased:
        return f"{len(share.erased):,} erased in the source"
    return "holds"


def _sum_up(proof: Proof) -> str:
    if not any(share.versions for share in proof.shares):
        return "The source is empty: there was nothing to copy, and nothing to prove."
    if proof.same_log:
        return "The proof holds: both logs are the same, line by line."
    if proof.holds:
        own = sum(share.own for share in proof.shares)
        beside = f"; the destination holds {show.counted(own, 'version')} of its own beside" if own else ""
        return f"The proof holds: every line of the source is there{beside}. The order of the two logs differs."
    wrong = [f"{share.scope}/{share.kind}" for share in proof.shares if not share.holds]
    return f"The proof does not hold for {', '.join(wrong)}. Do not switch over."


def _as_json(done: Copied) -> Mapping[str, Any]:
    refusals = [
        show.key_json(refusal.key) | {"version": refusal.version, "reason": refusal.reason} for refusal in done.refusals
    ]
    shares = [_share_json(share) for share in done.proof.shares]
    return {
        "added": done.added,
        "present": done.present,
        "refused": done.refused,
        "refusals": refusals,
        "proof": {"holds": done.proof.holds, "same_log": done.proof.same_log, "shares": shares},
        "not_copied": list(LEFT_BEHIND),
    }


def _share_json(share: Share) -> Mapping[str, Any]:
    erased = [show.key_json(key) for key in share.erased]
    return asdict(share) | {"erased": erased, "holds": share.holds}
