"""The command ``lukasa bench``: measure Lukasa on this machine and print the figures."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lukasa.errors import InvalidInput
from lukasa.interfaces.cli.options import CommandApp, get_options, require_choice

if TYPE_CHECKING:
    from rich.table import Table

    from lukasa_bench.context import FoldedRecallReport
    from lukasa_bench.gate import GateReport
    from lukasa_bench.quality import QualityReport
    from lukasa_bench.recall import QuestionSetReport
    from lukasa_bench.report import BenchmarkBar, BenchmarkReport, BenchmarkRow, Unit
    from lukasa_bench.store import Progress
    from lukasa_bench.trust import TrustBenchmarkReport as TrustReport

ServerOption = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="Measure on this PostgreSQL server instead of in a file.")
]

_PIPE_WIDTH = 400
"""Wider than any table, so that no cell is cut short in a file."""

app = CommandApp(
    help="Measure the speed and quality of Lukasa on this machine, compared with a bare reference in the same run.",
    no_args_is_help=False,
)


@app.callback()
def bench() -> None:
    """Measure the speed and quality of Lukasa on this machine, compared with a bare reference in the same run.

    Example: lukasa bench store --sizes 1k
    """


@app.command()
def store(
    ctx: typer.Context,
    sizes: Annotated[str, typer.Option(help="Records present in the store, such as 1k,100k,1m.")] = "1k,100k",
    rounds: Annotated[int, typer.Option(min=1, help="Number of measured rounds of each case.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON; times are in seconds.")] = False,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", file_okay=False, help="Create the stores in DIR and keep them.")
    ] = None,
    on: ServerOption = None,
) -> None:
    """Measure adds, reads and text search, with one writer and with many, as the store grows.

    With --store postgresql://… the stores are created in new databases on that server, which are dropped at the end.

    Example: lukasa bench store --sizes 1k,100k --rounds 5
    """
    from lukasa_bench.store import run

    server = _server_url(on or get_options(ctx, as_json).store)
    wanted = _parse_sizes_option(sizes)
    with _progress_display() as progress:
        report = run(wanted, rounds, keep=keep, server=server, progress=progress)
    if get_options(ctx, as_json).json:
        _print_json(report.as_json())
    else:
        print_report(report)


@app.command()
def recall(
    ctx: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            exists=True,
            help="Question sets: files or folders of LoCoMo, BEAM, LongMemEval or your own talks.",
        ),
    ],
    embedder: Annotated[str | None, typer.Option(help="minilm, static, hash or http:URL#model.")] = None,
    baseline: Annotated[
        list[str] | None, typer.Option(help="Also measure vector, bm25, rrf or all in the same run; may be repeated.")
    ] = None,
    ablate: Annotated[bool, typer.Option("--ablate", help="Also measure without each signal of the ranking.")] = False,
    on: Annotated[
        str | None,
        typer.Option(
            "--store", "--engine", metavar="URL", help="Measure on this PostgreSQL server instead of in a file."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Measure how well recall finds the evidence for questions about conversations.

    Example: lukasa bench recall locomo.json beam.json --baseline all
    """
    from lukasa_bench.recall import BASELINES, run

    names = list(BASELINES) if baseline and "all" in baseline else list(baseline or ())
    server = _server_url(on or get_options(ctx, as_json).store)
    with _progress_display() as progress:
        reports = run(files, embedder=embedder, server=server, baselines=names, ablate=ablate, progress=progress)
    if get_options(ctx, as_json).json:
        _print_json([report.as_json() for report in reports])
        return
    for report in reports:
        _print_recall(report)


@app.command()
def weight(
    ctx: typer.Context,
    sizes: Annotated[str, typer.Option(help="Records present in the store, such as 10k,100k.")] = "10k,100k",
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Weigh a memory on disk, by part, compared with a bare text index and matrix of vectors.

    Example: lukasa bench weight --sizes 10k
    """
    from lukasa_bench.weight import run

    with _progress_display() as progress:
        report = run(_parse_sizes_option(sizes), progress=progress)
    if get_options(ctx, as_json).json:
        _print_json(report.as_json())
    else:
        print_report(report)


@app.command()
def scale(
    ctx: typer.Context,
    report: Annotated[Path, typer.Argument(help="The output of: lukasa bench search --sizes 1m,10m --json")],
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON; times are in seconds.")] = False,
) -> None:
    """Compute from a report what more records and more agents cost, up to a thousand million records.

    Example: lukasa bench scale report.json
    """
    from lukasa_bench.scale import PLANS, read_model

    model = read_model(report)
    plans = [model.plan(records, agents) for records, agents in PLANS]
    if get_options(ctx, as_json).json:
        _print_json({"plans": plans, "largest_error": model.largest_error()})
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.MARKDOWN)
    for name in ("records", "stores", "each", "disk", "one recall", "one add", "first answer", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    for plan in plans:
        table.add_row(
            *(f"{plan[name]:,.0f}" for name in ("records", "agents", "records_per_store")),
            format_figure(plan["disk_bytes"], "bytes"),
            *(format_figure(plan[name], "s") for name in ("recall_s", "add_s", "first_answer_s")),
            format_figure(plan["resident_bytes"], "bytes"),
        )
    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    console.print(table)
    console.print(
        f"\nThe measured figures differ from the fit by {model.largest_error():.0%} at most.", highlight=False
    )


@app.command()
def search(
    ctx: typer.Context,
    sizes: Annotated[str, typer.Option(help="Records present in the store, such as 1k,100k,1m.")] = "1k,10k,100k",
    rounds: Annotated[int, typer.Option(min=1, help="Number of measured rounds of each case.")] = 5,
    on: ServerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON; times are in seconds.")] = False,
) -> None:
    """Measure how fast recall answers as the store grows, compared with a bare hybrid of text index and vectors.

    Example: lukasa bench search --sizes 1k,10k,100k
    """
    from lukasa_bench.search import run

    server = _server_url(on or get_options(ctx, as_json).store)
    wanted = _parse_sizes_option(sizes)
    with _progress_display() as progress:
        report = run(wanted, rounds, server=server, progress=progress)
    if get_options(ctx, as_json).json:
        _print_json(report.as_json())
    else:
        print_report(report)


@app.command()
def gate(
    ctx: typer.Context,
    sizes: Annotated[str, typer.Option(help="Memories in the vault, such as 1k,100k,1m.")] = "1k,100k",
    template: Annotated[bool, typer.Option("--template", help="Use facts of one template, all of them alike.")] = False,
    on: ServerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON; times are in seconds.")] = False,
) -> None:
    """Measure the time of the checks of the vault's write gate as the vault grows.

    Example: lukasa bench gate --sizes 1k,100k,1m
    """
    from lukasa_bench.gate import run

    server = _server_url(on or get_options(ctx, as_json).store)
    wanted = _parse_sizes_option(sizes)
    with _progress_display() as progress:
        report = run(wanted, server=server, progress=progress, template=template)
    if get_options(ctx, as_json).json:
        _print_json(report.as_json())
    else:
        _print_gate(report)


@app.command()
def guard(
    ctx: typer.Context,
    size: Annotated[str, typer.Option(help="Characters in each text, such as 10k or 1m.")] = "1m",
    rounds: Annotated[int, typer.Option(min=1, help="Number of measured rounds of each case.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON; times are in seconds.")] = False,
) -> None:
    """Count what the PII detector finds in samples, and measure how long it takes for hostile texts.

    Example: lukasa bench guard --size 100k
    """
    from lukasa_bench.pii import run
    from lukasa_bench.store import parse_sizes

    try:
        (wanted,) = parse_sizes(size)
    except (InvalidInput, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--size") from error
    with _progress_display() as progress:
        report = run(wanted, rounds, progress=progress)
    if get_options(ctx, as_json).json:
        _print_json(report.as_json())
    else:
        print_report(report, size_label="characters")


@app.command()
def agents(
    ctx: typer.Context,
    transcripts: Annotated[
        Path,
        typer.Argument(
            metavar="TRANSCRIPTS",
            exists=True,
            file_okay=False,
            help="A folder of transcripts, or of such folders, one a project.",
        ),
    ],
    labels: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="What was needed at each prompt, and what each session taught."),
    ] = None,
    first: Annotated[int | None, typer.Option(min=1, help="Only the first sessions of each project.")] = None,
    details: Annotated[Path | None, typer.Option(help="Write what was said to each event, as JSON lines.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Replay sessions of coding agents through the hooks, and score what the memory said.

    Example: lukasa bench agents transcripts --labels labels.json
    """
    from lukasa_bench.agents import run

    with _progress_display() as progress:
        report = run(transcripts, labels, first=first, progress=progress)
    if details is not None:
        details.write_text("".join(json.dumps(asdict(event), ensure_ascii=False) + "\n" for event in report.events))
    if get_options(ctx, as_json).json:
        _print_json(report.as_json())
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.MARKDOWN)
    for name in (f"{report.sessions} sessions, {report.labelled_prompts} labelled prompts", "figure", "goal"):
        table.add_column(name, justify="left" if name != "figure" else "right", no_wrap=True)
    for figure in report.figures:
        value = "–" if figure.value is None else f"{figure.value:,.0f} {figure.unit}"
        table.add_row(figure.name, value, figure.goal)
    Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(table)


def _print_gate(report: GateReport) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from lukasa_bench.gate import BULK_BAR, DURABLE_ADD, GROWTH_BAR
    from lukasa_bench.store import format_size

    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    table = Table(box=box.MARKDOWN)
    table.add_column("one verdict", no_wrap=True)
    for size in report.sizes:
        table.add_column(f"{format_size(size.memories)} memories", justify="right", no_wrap=True)
    for check in report.sizes[0].checks:
        table.add_row(check, *(format_figure(size.checks[check], "s") for size in report.sizes))
    table.add_row(
        "verdicts a second", *(format_figure(1 / size.checks["the whole gate"], "per_s") for size in report.sizes)
    )
    table.add_row("the bare reference", *(format_figure(size.reference, "s") for size in report.sizes))
    table.add_row("the whole gate over it", *(format_figure(size.ratio, "times") for size in report.sizes))
    table.add_row("comparing with all instead", *(format_figure(size.comparing_with_all, "s") for size in report.sizes))
    table.add_row("bulk adds, durable", *(format_figure(size.bulk_per_s, "per_s") for size in report.sizes))
    console.print(table)
    growth, bulk, many = report.growth(), report.bar_report.bulk_per_s, format_size(report.bar_report.memories)
    verdict = {True: "met", False: "missed"}
    console.print(
        f"\nA verdict costs {growth:.2f} × as much among {many} memories as among {format_size(report.sizes[0].memories)} "
        f"(bar ≤ {GROWTH_BAR:g}: {verdict[growth <= GROWTH_BAR]}), a durable add {report.growth(DURABLE_ADD):.2f} ×.\n"
        f"Bulk adds at {many}: {bulk:,.0f} a second (bar ≥ {BULK_BAR:,.0f}: {verdict[bulk >= BULK_BAR]}).\n"
        f"{report.machine.cores} cores (load {report.machine.load:.1f} at the start), {report.engine}, {report.seconds:,.0f} s.",
        highlight=False,
    )


def _print_recall(report: QuestionSetReport) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    table = Table(box=box.MARKDOWN)
    for name in (report.name, "questions", "R@5", "R@10", "(95 %)", "nDCG@10", "session R@5", "ms/query", "p99"):
        table.add_column(name, justify="left" if name == report.name else "right", no_wrap=True)
    for way in report.ways:
        rows = [(way.way, way.figures)]
        if way.way == "lukasa":
            rows += [(f"  {category}", figures) for category, figures in way.by_category.items()]
        for name, found in rows:
            times = (f"{way.query_ms:.1f}", f"{way.query_ms_p99:.1f}") if name == way.way else ("", "")
            interval = f"({found.interval[0]:.3f}–{found.interval[1]:.3f})"
            recalls = (f"{found.recall_5:.3f}", f"{found.recall_10:.3f}", interval)
            table.add_row(
                name, f"{found.questions:,}", *recalls, f"{found.ndcg_10:.3f}", f"{found.session_recall_5:.3f}", *times
            )
    console.print(table)
    console.print(
        f"\n{report.conversations} conversations, {report.turns:,} turns; {report.embedder} on {report.engine}; storing a turn "
        f"{report.ingest_ms:.2f} ms, its vector {report.embed_ms:.2f} ms. The first row leaves out adversarial questions.\n"
        f"{report.tuned_on}",
        highlight=False,
    )


def _print_json(report: Any) -> None:
    typer.echo(json.dumps(report, ensure_ascii=False, indent=2))


def _parse_sizes_option(value: str) -> tuple[int, ...]:
    """Parse the option ``--sizes``."""
    from lukasa_bench.store import parse_sizes

    try:
        return tuple(parse_sizes(value))
    except InvalidInput as error:
        raise typer.BadParameter(str(error), param_hint="--sizes") from error


def _server_url(store: str | None) -> str | None:
    """Return the URL of the server to measure on, or ``None`` for a file."""
    return store if store is not None and store.startswith(("postgresql://", "postgres://")) else None


@app.command()
def mcp(
    ctx: typer.Context,
    size: Annotated[int, typer.Option(min=1, help="Memories present in the store.")] = 1_000,
    rounds: Annotated[int, typer.Option(min=1, help="Number of measured rounds of each case.")] = 5,
    calls: Annotated[int, typer.Option(min=1, help="Calls per round.")] = 60,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON; times are in seconds.")] = False,
) -> None:
    """Measure remember and recall over stdio and HTTP, compared with the same calls of the library.

    Example: lukasa bench mcp --rounds 3
    """
    from lukasa_bench.mcp import run

    with _progress_display() as progress:
        report = run(size, rounds, calls=calls, progress=progress)
    if get_options(ctx, as_json).json:
        _print_json(report.as_json())
    else:
        print_report(report, size_label="memories")


@app.command()
def start(
    ctx: typer.Context,
    size: Annotated[int, typer.Option(min=1, help="Memories present in the store.")] = 1_000,
    rounds: Annotated[int, typer.Option(min=1, help="Number of measured rounds of each case.")] = 8,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON; times are in seconds.")] = False,
) -> None:
    """Measure the processor time of whole commands, compared with the least that such a process needs.

    Example: lukasa bench start --rounds 3
    """
    from lukasa_bench.start import run

    with _progress_display() as progress:
        report = run(size, rounds, progress=progress)
    if get_options(ctx, as_json).json:
        _print_json(report.as_json())
    else:
        print_report(report, size_label="memories")


@app.command()
def http(
    ctx: typer.Context,
    sizes: Annotated[str, typer.Option(help="Memories present in the store: 1k,10k,100k.")] = "1k",
    rounds: Annotated[int, typer.Option(min=1, help="Number of measured rounds of each case.")] = 5,
    calls: Annotated[int, typer.Option(min=1, help="Calls per round.")] = 60,
    clients: Annotated[int, typer.Option(min=1, help="Clients at once.")] = 64,
    requests: Annotated[int, typer.Option(min=1, help="Requests of all clients together.")] = 5_000,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON; times are in seconds.")] = False,
) -> None:
    """Measure remember and recall over HTTP, compared with the library, and a server under the load of many clients.

    Example: lukasa bench http --sizes 1k,100k --requests 100000
    """
    from lukasa_bench.http import run

    with _progress_display() as progress:
        report = run(
            _parse_sizes_option(sizes), rounds, calls=calls, clients=clients, requests=requests, progress=progress
        )
    if get_options(ctx, as_json).json:
        _print_json(report.as_json())
    else:
        print_report(report, size_label="memories")


def print_report(report: BenchmarkReport, *, size_label: str = "records") -> None:
    """Print the report as a Markdown table; ``size_label`` names what the sizes count."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    console.print(_report_table(report, size_label))
    machine = report.machine
    console.print(
        f"\n{machine.cores} cores (load {machine.load:.1f} at the start), {machine.system}, Python {machine.python}, SQLite {machine.sqlite}, "
        f"one synced write {format_figure(machine.sync_s, 's')}; {report.rounds} rounds, {report.seconds:,.0f} s.",
        highlight=False,
    )
    missed = len(report.missed_rows)
    bars = sum(row.bar is not None for row in report.rows)
    console.print(f"{bars - missed} of {bars} bars met.", highlight=False)


def _report_table(report: BenchmarkReport, size_label: str) -> Table:
    from rich import box
    from rich.table import Table

    from lukasa_bench.store import format_size

    table = Table(box=box.MARKDOWN)
    for name in ("case", size_label, "Lukasa", "reference", "ratio", "(lowest–highest)", "bar", ""):
        table.add_column(name, justify="left" if name in ("case", "bar", "") else "right", no_wrap=True)
    for row in report.rows:
        table.add_row(
            row.case,
            "" if row.size is None else format_size(row.size),
            format_figure(row.lukasa, row.unit),
            format_figure(row.reference, row.unit),
            "" if row.ratio is None else f"{row.ratio:.2f}",
            "" if row.low is None or row.high is None else f"({row.low:.2f}–{row.high:.2f})",
            "" if row.bar is None else _format_bar(row.bar, row),
            {None: "", True: "met", False: "missed"}[row.is_met],
        )
    return table


def format_figure(value: float, unit: Unit) -> str:
    """Format a figure with its unit."""
    match unit:
        case "s":
            for scale, name in ((1.0, "s"), (1e-3, "ms")):
                if value >= scale:
                    return f"{value / scale:.3g} {name}"
            return f"{value * 1e6:.0f} µs"
        case "per_s":
            return f"{value:,.0f}/s"
        case "times":
            return f"{value:.3g} ×"
        case "count":
            return f"{value:,.0f}"
        case "bytes":
            for scale, name in ((1e9, "GB"), (1e6, "MB")):
                if value >= scale:
                    return f"{value / scale:.3g} {name}"
            return f"{value / 1e3:.3g} kB"


def _format_bar(bar: BenchmarkBar, row: BenchmarkRow) -> str:
    sign = "≤" if bar.at == "most" else "≥"
    if bar.of == "ratio":
        return f"ratio {sign} {bar.limit:g}"
    return f"{sign} {format_figure(bar.limit, row.unit)}"


def _progress_display() -> AbstractContextManager[Progress | None]:
    """Show a progress bar for each stage if stderr is a terminal, and nothing otherwise."""
    return _ProgressBars() if sys.stderr.isatty() else nullcontext()


class _ProgressBars(AbstractContextManager["Progress"]):
    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bars
        from rich.progress import TaskID

        self._bars = Bars(console=Console(stderr=True))
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Progress:
        self._bars.start()
        return self._update

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def _update(self, what: str, done: int, total: int) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total)
        self._bars.update(self._tasks[what], completed=done)


@app.command()
def checkpoint(
    ctx: typer.Context,
    rounds: Annotated[int, typer.Option(min=1, help="Number of measured rounds of each case.")] = 5,
    on: ServerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON; times are in seconds.")] = False,
) -> None:
    """Measure a small change, a whole checkpoint and a recovery of a session, compared with rewriting a JSON file.

    Example: lukasa bench checkpoint --rounds 3
    """
    from lukasa_bench.checkpoint import run

    server = _server_url(on or get_options(ctx, as_json).store)
    with _progress_display() as progress:
        report = run(rounds, server=server, progress=progress)
    if get_options(ctx, as_json).json:
        _print_json(report.as_json())
    else:
        print_report(report, size_label="bytes")


@app.command()
def adapters(
    ctx: typer.Context,
    sizes: Annotated[str, typer.Option(help="Items, turns and messages that are there, such as 100,10k.")] = "100,10k",
    rounds: Annotated[int, typer.Option(min=1, help="Number of measured rounds of each case.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON; times are in seconds.")] = False,
) -> None:
    """Measure the adapters to LangGraph and OpenAI Agents, compared with the implementations on SQLite that these bring.

    Example: lukasa bench adapters --sizes 100,10k
    """
    from lukasa_bench.adapters import run

    wanted = _parse_sizes_option(sizes)
    with _progress_display() as progress:
        report = run(wanted, rounds, progress=progress)
    if get_options(ctx, as_json).json:
        _print_json(report.as_json())
    else:
        print_report(report)


@app.command()
def context(
    ctx: typer.Context,
    sizes: Annotated[str, typer.Option(help="Turns in the conversation, such as 100,10k,100k.")] = "100,10k,100k",
    rounds: Annotated[int, typer.Option(min=1, help="Number of measured rounds of each case.")] = 3,
    recall: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Measure instead how much of the folded turns is found, with this question set.",
        ),
    ] = None,
    embedder: Annotated[str | None, typer.Option(help="With --recall: minilm, static, hash or http:URL#model.")] = None,
    on: ServerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON; times are in seconds.")] = False,
) -> None:
    """Measure append, load, compact and assemble as a conversation grows; or how much of the folded turns is still found.

    Example: lukasa bench context --sizes 100,10k
    """
    from lukasa_bench.context import measure_folded_recall, run

    call = get_options(ctx, as_json)
    if recall:
        with _progress_display() as progress:
            found = measure_folded_recall(recall, embedder=embedder, progress=progress)
        if call.json:
            _print_json([report.as_json() for report in found])
        else:
            _print_folded_recall(found)
        return
    wanted = _parse_sizes_option(sizes)
    with _progress_display() as progress:
        report = run(wanted, rounds, server=_server_url(on or call.store), progress=progress)
    if call.json:
        _print_json(report.as_json())
    else:
        print_report(report)


def _print_folded_recall(reports: Sequence[FoldedRecallReport]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    table = Table(box=box.MARKDOWN)
    for name in ("set", "questions", "evidence folded", "in the summary", "by recall", "all of it", "in the prompt"):
        table.add_column(name, justify="left" if name == "set" else "right", no_wrap=True)
    for report in reports:
        shares = (report.in_view, report.by_recall, report.all_by_recall, report.assembled)
        table.add_row(report.name, f"{report.questions:,}", f"{report.folded:,}", *(f"{share:.3f}" for share in shares))
    console.print(table)
    for report in reports:
        console.print(
            f"{report.name}: {report.conversations} conversations, {report.turns:,} turns; {report.tokens:,} tokens compacted to "
            f"{report.compacted_tokens:,} ({report.compacted_tokens / max(report.tokens, 1):.0%}).",
            highlight=False,
        )


@app.command()
def consolidate(
    ctx: typer.Context,
    sizes: Annotated[str, typer.Option(help="Episodes in the store, such as 1k,10k,100k.")] = "1k,10k",
    on: ServerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON; times are in seconds.")] = False,
) -> None:
    """Measure consolidation: a first run, a second right after, and runs after a few more episodes.

    Example: lukasa bench consolidate --sizes 1k,10k
    """
    from lukasa_bench.consolidate import run

    wanted = _parse_sizes_option(sizes)
    with _progress_display() as progress:
        report = run(wanted, server=_server_url(on or get_options(ctx, as_json).store), progress=progress)
    if get_options(ctx, as_json).json:
        _print_json(report.as_json())
    else:
        print_report(report)


@app.command()
def trust(
    ctx: typer.Context,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of the simulation, each with another seed.")] = 10,
    rounds: Annotated[int, typer.Option(min=10, help="Rounds in each run.")] = 1_000,
    sizes: Annotated[str, typer.Option(help="Events in the store when costs are measured, such as 1k,1m.")] = "1k,100k",
    embedder: Annotated[str | None, typer.Option(help="minilm, static, hash or http:URL#model, for recall.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Simulate agents of known quality and measure how well trust separates them, and its cost.

    Example: lukasa bench trust --seeds 10
    """
    from lukasa_bench.trust import run

    wanted = _parse_sizes_option(sizes)
    with _progress_display() as progress:
        report = run(seeds, rounds=rounds, sizes=wanted, embedder=embedder, progress=progress)
    if get_options(ctx, as_json).json:
        _print_json(report.as_json())
    else:
        _print_trust(report)


def _print_trust(report: TrustReport) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    table = Table(box=box.MARKDOWN)
    for name in ("case", "mean", "(lowest–highest)", "", "bar", " "):
        table.add_column(name, justify="right" if name in ("mean", "(lowest–highest)") else "left", no_wrap=True)
    for row in report.figures:
        spread = f"({min(row.values):.3g}–{max(row.values):.3g})" if len(row.values) > 1 else ""
        bar = "" if row.bar is None else f"{'≤' if row.bar.at == 'most' else '≥'} {row.bar.limit:g}"
        met = {None: "", True: "met", False: "missed"}[row.is_met]
        table.add_row(row.case, f"{row.mean:.3g}", spread, row.unit, bar, met)
    console.print(table)
    bars = [row.is_met for row in report.figures if row.is_met is not None]
    console.print(
        f"\n{report.seeds} seeds, {report.rounds:,} rounds, recall by {report.embedder}; {report.seconds:,.0f} s. "
        f"{sum(bars)} of {len(bars)} bars met, each by the worst seed.",
        highlight=False,
    )


@app.command("all")
def every(
    ctx: typer.Context,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="Take the whole sizes (an hour), or a short run.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this benchmark; may be repeated.")
    ] = None,
    questions: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", exists=True, help="Also measure recall with this question set.")
    ] = None,
    server: Annotated[
        str, typer.Option(metavar="URL", help="Also measure the store and the gate on this PostgreSQL server.")
    ] = "",
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the page into a file.")] = None,
    reuse: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Keep what each benchmark printed; go on from there after an interruption."
        ),
    ] = None,
) -> None:
    """Run every benchmark, each in a process of its own, and write one Markdown page: machine, ratios, bars met and missed.

    Example: lukasa bench all --quick --markdown benchmarks.md --reuse build/benchmarks
    """
    from lukasa_bench.every import BENCHMARKS, run

    names = [benchmark.quick.split(maxsplit=1)[0] for benchmark in BENCHMARKS]
    for name in only or ():
        require_choice(name, names, "a benchmark")
    with _progress_display() as progress:
        page = run(full=full, only=only or (), questions=questions or (), server=server, reuse=reuse, progress=progress)
    if markdown is None:
        typer.echo(page)
    else:
        markdown.write_text(page, "utf-8")
        get_options(ctx).warn(f"Wrote {markdown}.")


@app.command()
def quality(
    ctx: typer.Context,
    section: Annotated[
        list[str] | None, typer.Option(help="Measure only this section, such as duplicates; may be repeated.")
    ] = None,
    embedder: Annotated[str | None, typer.Option(help="minilm, static, hash or http:URL#model.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Measure what is refused, derived and found on the sets of cases in the repository.

    Example: lukasa bench quality --section duplicates
    """
    from lukasa_bench.quality import run

    report = run(section or (), embedder=embedder)
    if get_options(ctx, as_json).json:
        _print_json(report.as_json())
    else:
        _print_quality(report)


def _print_quality(report: QualityReport) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    table = Table(box=box.MARKDOWN)
    for name in ("section", "case", "figure", "bar", "met", "note"):
        table.add_column(name, justify="right" if name == "figure" else "left", no_wrap=name != "note")
    for row in report.rows:
        sign = " %" if row.unit == "%" else ""
        bar = "" if row.bar is None else f"{'≤' if row.bar.at == 'most' else '≥'} {row.bar.limit:g}{sign}"
        met = {None: "", True: "met", False: "missed"}[row.meets_bar]
        table.add_row(
            row.section, row.case, f"{row.value:.1f}{sign}" if sign else f"{row.value:,g}", bar, met, row.note
        )
    console.print(table)
    bars = [row.meets_bar for row in report.rows if row.meets_bar is not None]
    console.print(f"\n{sum(bars)} of {len(bars)} bars met; {report.seconds:,.0f} s.", highlight=False)
