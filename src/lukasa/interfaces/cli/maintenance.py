"""Commands that look after a store: doctor and allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lukasa.errors import InvalidInput, StoreError, StoreMissing
from lukasa.interfaces.cli.options import Call, argument, flag, progress_bar
from lukasa.interfaces.cli.render import format_count
from lukasa.interfaces.doctor import (
    PRIVATE_MODE,
    DoctorCheck,
    hook_checks,
    list_exposed_files,
    project_store_checks,
    run_checks,
)
from lukasa.interfaces.outcomes import ExitCode, row_of
from lukasa.storage.integrity import END_OF_LOG

if TYPE_CHECKING:
    from lukasa.memory import Memory
    from lukasa.storage.engine import VerifyReport


def doctor(call: Call, repair: Annotated[bool, flag("--repair", "Repair what can be repaired.")] = False) -> None:
    """Check the store, its files and its database, and say what is wrong. Repairs only with --repair.

    What is derived from the log is rebuilt. Damaged records are set aside: they are kept, but no read sees them.

    Exit code 6: something is wrong.

    Example: lukasa doctor --repair
    """
    repairs: list[str] = []
    try:
        memory = call.existing_memory
        report = _verify_store(memory)
        if repair:
            repairs = list(_repair_store(memory, report))
            report = _verify_store(memory) if repairs else report
        checks = [*run_checks(memory, report), *project_store_checks(), *hook_checks(Path.cwd(), Path.home())]
    except StoreMissing:
        raise
    except StoreError as error:
        _show_checks(call, [DoctorCheck("store", "wrong", str(error))], repairs, row_of(error).exit_code)
    else:
        _show_checks(call, checks, repairs)


def allow(
    call: Call,
    folder: Annotated[Path | None, argument("FOLDER", "The folder with .lukasa/ in it. Default: the nearest.")] = None,
    undo: Annotated[bool, flag("--undo", "Do not use this store any longer unless it is named.")] = False,
) -> None:
    """Allow the store in a folder that was not made by you on this machine, such as one that a repository brought along.

    Commands, agents and hooks that find a store by its folder alone use it only if you made it here or allowed it. Look at
    it first: lukasa --store FOLDER/.lukasa/memory.db log

    Example: lukasa allow ~/work/shop
    """
    from lukasa.config import PROJECT_FOLDER, STORE_FILE, find_nearest_store
    from lukasa.own_stores import allow_store, forget_store

    if call.store is not None:
        raise InvalidInput("A store that is named needs no permission.", hint="Leave --store out, and name its folder.")
    path = find_nearest_store() if folder is None else folder.absolute() / PROJECT_FOLDER / STORE_FILE
    if path is None:
        raise StoreMissing(f"There is no folder {PROJECT_FOLDER}/ here or above.", hint="Name the folder that has it.")
    if undo:
        said = "is not used any longer unless it is named" if forget_store(path) else "was not allowed"
    else:
        allow_store(path)
        said = "is used from now on by what runs in its folder"
    call.show({"store": str(path), "allowed": not undo}, f"{path} {said}.")


def _verify_store(memory: Memory) -> VerifyReport:
    with progress_bar("Verifying") as bar:
        return memory.verify(bar)


def _repair_store(memory: Memory, report: VerifyReport) -> Iterator[str]:
    """Repair what can be repaired, and yield what was done."""
    exposed = list_exposed_files(memory.place.path) if memory.place.path else []
    for file in exposed:
        file.chmod(PRIVATE_MODE)
    if exposed:
        yield "closed the store's files to others (mode 0600)"
    if any(finding.position is not None for finding in report.findings):
        names = memory.journal.set_aside()
        yield f"set {format_count(len(names), 'damaged record')} aside: {', '.join(names)}"
        report = _verify_store(memory)
    if any(finding.where == END_OF_LOG for finding in report.findings) and (lost := memory.journal.accept_losses()):
        yield f"accepted that these are lost: {', '.join(lost)}"
    if any(finding.repairable for finding in report.findings):
        with progress_bar("Rebuilding") as bar:
            memory.journal.reindex(bar)
        yield "rebuilt every index from the log"


def _show_checks(
    call: Call, checks: Sequence[DoctorCheck], repairs: Sequence[str], exit_code: ExitCode = ExitCode.DAMAGED
) -> None:
    healthy = all(check.state != "wrong" for check in checks)
    wrong = "Something is wrong. `lukasa doctor --repair` repairs what can be repaired."
    verdict = "Healthy." if healthy else "Something is still wrong." if repairs else wrong
    call.show(
        {"healthy": healthy, "checks": checks, "repaired": repairs},
        columns="check=name, state, result=said",
        rows=checks,
        wrap="result",
        after=[*(f"Repaired: {repair}." for repair in repairs), verdict],
        exit_code=ExitCode.OK if healthy else exit_code,
    )
