"""The command that moves a whole store: copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from lukasa.config import locate_store
from lukasa.errors import InvalidInput, NotAllowed, StoreMissing
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import ExitCode
from lukasa.interfaces.cli.options import GlobalOptions, JsonOption, get_options, progress_bar
from lukasa.memory import Memory
from lukasa.storage.location import StoreLocation
from lukasa.transfer.copy import NOT_COPIED, CopyProof, CopyResult, KindProof, copy_log, is_same_store

_MAX_HASH_LENGTH, _MIN_HASH_LENGTH = 26, 8
_MAX_KEYS = 20


def copy(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SRC", help="The store to copy: a file or a postgresql:// URL.")],
    destination: Annotated[
        str, typer.Argument(metavar="DEST", help="Where to: likewise. A file that is not there is made.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Copy a whole store to another place, and prove that it arrived. After a break, run it again: it goes on.

    Exit code 8: the proof does not hold.

    Example: lukasa copy agents.db postgresql://db.example/agents
    """
    call = get_options(ctx, as_json)
    ends = _resolve_stores(call, source, destination)
    try:
        with _open_store(source, create=False) as ours, _open_store(destination, create=True) as theirs:
            done = copy_log(ours.journal, theirs.journal, progress_bar)
    except KeyboardInterrupt:
        render.print_to_stderr("What was copied so far stays there; run it again to go on.")
        raise
    here, there = map(str, ends)
    if call.json:
        render.print_json({"source": here, "destination": there, **_copy_json(done)})
    else:
        _print_report(done, here, there)
    if not done.proof.holds:
        raise typer.Exit(ExitCode.UNPROVED)


def _resolve_stores(options: GlobalOptions, source: str, destination: str) -> list[StoreLocation]:
    """Both stores' places, once it is clear that one can be copied to the other."""
    if options.agent or options.scopes:
        raise NotAllowed(
            "Only the owner of both stores may copy one into the other.", hint="Leave out --agent and --scope."
        )
    if options.store is not None:
        raise InvalidInput("copy takes both stores as arguments.", hint="Leave out --store.")
    ends = [locate_store(source), locate_store(destination)]
    if any(place.engine == "memory" for place in ends):
        raise InvalidInput("A store in memory is gone when the command ends.", hint="Name a file or a database.")
    if is_same_store(*ends):
        raise InvalidInput(f"{ends[1]} is the source itself.", hint="Name another destination.")
    path = ends[0].path
    if path is not None and not path.exists():
        raise StoreMissing(f"There is no store at {path}.", hint="Check the name of the source.")
    return ends


def _open_store(store: str, *, create: bool) -> Memory:
    return GlobalOptions(store).open(create=create)


def _print_report(done: CopyResult, source: str, destination: str) -> None:
    proof = done.proof
    met = f", met {done.present:,} that were there" if done.present else ""
    render.print_line(f"Copied {render.format_count(done.added, 'version')} from {source} to {destination}{met}.")
    if done.refused:
        render.print_line(f"Refused by the destination: {render.format_count(done.refused, 'version')}.")
        rows = [(refusal.key, refusal.version, refusal.reason) for refusal in done.refusals]
        render.print_table(("record", "version", "reason"), rows, wrap=("reason",))
        if done.refused > len(done.refusals):
            render.print_line(f"and {done.refused - len(done.refusals):,} more.")
    if proof.kind_proofs:
        _print_shares(proof.kind_proofs)
    if gone := [key for share in proof.kind_proofs for key in share.erased]:
        render.print_line(
            f"Erased in the source, but not in the destination: {render.format_count(len(gone), 'record')}."
        )
        for key in gone[:_MAX_KEYS]:
            render.print_line(f"  {key}")
        render.print_line("`lukasa --store DEST erase KIND ID` erases one there too.")
    render.print_line(_proof_sentence(proof))
    render.print_line(f"Not part of a log, and so not copied: {' and '.join(NOT_COPIED)}.")


def _print_shares(shares: Sequence[KindProof]) -> None:
    """The proof as a table. Of the hashes, as much as the screen is wide."""
    names = ("scope", "kind", "versions", "there", "own", "proof")
    rows = [
        (share.scope, share.kind, f"{share.versions:,}", f"{share.there:,}", f"{share.own:,}", _share_status(share))
        for share in shares
    ]
    length = max(_MIN_HASH_LENGTH, min(_MAX_HASH_LENGTH, render.remaining_width(names, rows) // 2 - 2))
    columns = ("scope", "kind", "versions", "hash", "there", "hash there", "own", "proof")
    hashes = [(share.hash[:length], share.hash_there[:length]) for share in shares]
    whole = [(*row[:3], hash, row[3], there, *row[4:]) for row, (hash, there) in zip(rows, hashes, strict=True)]
    render.print_table(columns, whole, wrap=("proof",))


def _share_status(share: KindProof) -> str:
    """What is the matter with a share, in a few words."""
    if share.there < share.versions:
        return f"{share.versions - share.there:,} missing"
    if not share.has_arrived:
        return "other content"
    if share.erased:
        return f"{len(share.erased):,} erased in the source"
    return "holds"


def _proof_sentence(proof: CopyProof) -> str:
    if not any(share.versions for share in proof.kind_proofs):
        return "The source is empty: there was nothing to copy, and nothing to prove."
    if proof.is_same_log:
        return "The proof holds: both logs are the same, line by line."
    if proof.holds:
        own = sum(share.own for share in proof.kind_proofs)
        beside = f"; the destination holds {render.format_count(own, 'version')} of its own beside" if own else ""
        return f"The proof holds: every line of the source is there{beside}. The order of the two logs differs."
    wrong = [f"{share.scope}/{share.kind}" for share in proof.kind_proofs if not share.holds]
    return f"The proof does not hold for {', '.join(wrong)}. Do not switch over."


def _copy_json(done: CopyResult) -> Mapping[str, Any]:
    refusals = [
        render.key_json(refusal.key) | {"version": refusal.version, "reason": refusal.reason}
        for refusal in done.refusals
    ]
    shares = [_share_json(share) for share in done.proof.kind_proofs]
    return {
        "added": done.added,
        "present": done.present,
        "refused": done.refused,
        "refusals": refusals,
        "proof": {"holds": done.proof.holds, "same_log": done.proof.is_same_log, "shares": shares},
        "not_copied": list(NOT_COPIED),
    }


def _share_json(share: KindProof) -> Mapping[str, Any]:
    erased = [render.key_json(key) for key in share.erased]
    return asdict(share) | {"erased": erased, "holds": share.holds}
