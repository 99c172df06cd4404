"""The command lines whose answers are frozen: every command of the program, in scenarios with a store each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cli_running import Step

import lukasa

SKILL = "# Skill: Deploy a service\n\n## Steps\n1. Build the image\n2. Push the image\n\n## Exit Criteria\n- It runs\n"
STATE: dict[str, Any] = {
    "metadata": {"agent_id": "orion"},
    "predictions": {
        "active": [{"prediction_id": "pred-900", "market_id": "m1", "probability": 0.6, "question": "Will it ship?"}]
    },
    "market_contexts": {"m1": {"price": 0.5}},
}
CONVERSATIONS: dict[str, Any] = {
    "set": "small",
    "conversations": [
        {
            "id": "c1",
            "turns": [
                {"id": "t1", "session": "s1", "time": "2024-05-01T06:00:00Z", "speaker": "Ada", "text": "I play the cello."},
                {"id": "t2", "session": "s1", "time": "2024-05-01T06:01:00Z", "speaker": "Ben", "text": "I live in Lyon."},
            ],
            "questions": [{"id": "q1", "question": "Where does Ben live?", "category": "single", "evidence": ["t2"]}],
        }
    ],
}  # fmt: skip
FOREIGN = [{"id": "1", "memory": "The staging database is called heron."}, {"id": "2", "memory": "Tick marker 5."}]


def write_files(folder: Path) -> None:
    """Write the files that scenarios read."""
    (folder / "clean.txt").write_text("The staging database is called heron.\n", "utf-8")
    (folder / "leak.txt").write_text("Mail ada.lovelace@kinshasa-post.org\nCard 4111 1111 1111 1111\n", "utf-8")
    (folder / "mem0.json").write_text(json.dumps({"results": FOREIGN}), "utf-8")
    (folder / "state.json").write_text(json.dumps(STATE), "utf-8")
    (folder / "skill.md").write_text(SKILL, "utf-8")
    (folder / "bad-skill.md").write_text("# Skill: X\n", "utf-8")
    (folder / "skills").mkdir()
    (folder / "skills" / "review.md").write_text(SKILL.replace("Deploy a service", "Review"), "utf-8")
    (folder / "conversations.json").write_text(json.dumps(CONVERSATIONS), "utf-8")
    (folder / "secret.txt").write_text("correct horse battery staple\n", "utf-8")
    (folder / "backups").mkdir()
    (folder / "frozen_chores.py").write_text(
        "from lukasa.jobs import job\n\n\n@job('frozen.fails')\ndef fails(memory):\n    raise RuntimeError('no')\n\n\n"
        "@job('frozen.works')\ndef works(memory, count=1):\n    pass\n",
        "utf-8",
    )


def defer_jobs(folder: Path) -> None:
    """Leave two jobs for a worker: one that works and one that fails."""
    with lukasa.open(folder / "agents.db") as memory:
        assert memory.jobs.defer("frozen.works", count=2)
        assert memory.jobs.defer("frozen.fails")


VAULT = [
    Step('remember "The staging database is called heron." --category infrastructure --tag ops', {"canon": "id"}),
    Step(
        'remember "The production database is called osprey and lives in Lyon." --category infrastructure',
        {"like": "id"},
    ),
    Step('remember "Deploys run on Tuesday." --topic deploy-day', {"register": "id"}),
    Step('vault add-memory "Deploys run on Thursday." --tier register --topic-id deploy-day --source chat'),
    Step('vault judge "The office cat must never be fed chocolate."'),
    Step("remember -", stdin="Invoices must be sent within ten days.\n"),
    Step('--agent elysia remember "My own plan is to learn the cello." --scope elysia'),
    Step("vault list"),
    Step("vault list --tier register --limit 1"),
    Step("--json vault list --category infrastructure --tag ops", plain=True),
    Step('vault search "staging database"'),
    Step('vault search "staging database" --profile lexical -k 1'),
    Step("vault stats"),
    Step("vault snapshot"),
    Step("vault snapshot-block --budget 500"),
    Step("vault memory-block staging"),
    Step("vault propose-deletions"),
    Step("vault find-consolidation-candidates --floor 0.2"),
    Step("--agent elysia vault corroborate {register}"),
    Step("vault promote-to-canon {register} --by Ada"),
    Step('vault add-tick "tick marker for burst 5"'),
    Step("vault ticks"),
    Step('vault note "Call me Ada."'),
    Step("vault notes"),
    Step('vault directive "Answer in British spelling."'),
    Step("vault directives"),
    Step("vault export vault.jsonl"),
    Step("vault export -"),
    Step("--store copy.db vault import vault.jsonl"),
    Step("--store copy.db vault import vault.jsonl"),
    Step("scan clean.txt"),
    Step("scan leak.txt"),
    Step("audit mem0.json"),
    Step("--json audit mem0.json --format mem0", plain=True),
    Step("--store audited.db import mem0.json --format mem0"),
    Step("--store audited.db import mem0.json --format mem0"),
    Step("--store audited.db export audited.jsonl --format vault"),
    Step('update {canon} "The staging database is called osprey." --tag ops'),
    Step("history {canon}"),
    Step("confirm {canon} --expires-at 2031-01-01T00:00:00Z"),
    Step("forget {like}"),
    Step("forget {canon} no-such-memory"),
]

LOG = [
    Step('--agent orion vault note "Deploys run on Tuesday." --scope shared', {"note": "id"}),
    Step('--agent orion remember "Deploys run on Tuesday." --topic day', {"memory": "id"}),
    Step('--agent elysia remember "Deploys run on Thursday." --topic day'),
    Step('--agent mallory remember "A review is never needed before a deploy."', {"rumour": "id"}),
    Step("log"),
    Step("log --kind memory --author orion --all-versions --in-order --limit 1"),
    Step("history memory {memory}"),
    Step("show memory {memory}"),
    Step("show memory {memory} --version 1 --scope shared"),
    Step("show note {note}"),
    Step("stats"),
    Step('recall "When do deploys run?" -k 2'),
    Step('recall "When do deploys run?" --explain --kind memory'),
    Step('recall "zzz qqq" -k 0'),
    Step('quarantine mallory --reason "writes nonsense"'),
    Step("quarantined"),
    Step("doctor"),
    Step("release mallory"),
    Step("quarantine mallory --since 2020-01-01"),
    Step("release mallory"),
    Step("undo --author mallory", {"label": "label"}),
    Step("undo --label {label}"),
    Step("undo --author nobody"),
    Step("erase memory {rumour} --dry-run"),
    Step('erase memory {rumour} --yes --reason "asked for"'),
    Step("erase --subject orion --yes"),
    Step("verify"),
    Step("compact"),
    Step("compact --before 2020-01-01"),
    Step("doctor --repair"),
    Step("reembed --embedder hash"),
]

PROPOSALS = [
    Step('remember "Deploys run on Tuesday."', {"day": "id"}),
    Step('remember "The staging database is called heron."', {"name": "id"}),
    Step("--agent orion forget {day}"),
    Step("--agent orion forget {name}"),
    Step("proposals list", {"first": "0.id", "second": "1.id"}),
    Step("proposals show {first}"),
    Step("--agent orion proposals accept {first}"),
    Step("proposals accept {first}"),
    Step("proposals refuse {second}"),
    Step("proposals refuse {second}"),
    Step("proposals list --state refused"),
]

CARRY = [
    Step('remember "The staging database is called heron."'),
    Step("checkpoint save demo --state state.json"),
    Step('episode record "Implement POST /api/todos" --agent eng-001 --action-log write_file'),
    Step('knowledge add-fact "The staging database is called heron"'),
    Step("export log.jsonl"),
    Step("export -"),
    Step("--store copy.db import log.jsonl"),
    Step("--store copy.db import log.jsonl"),
    Step("--store third.db import -", stdin='{"not": "a record"}\n'),
    Step("export loki --format loki"),
    Step("--store loki.db import loki --format loki"),
    Step("export graph.json --format memory-graph"),
    Step("--store graph.db import graph.json --format memory-graph"),
    Step("backup copy-of-store.db"),
    Step("backup file://{folder}/backups --keep 3"),
    Step("backup file://{folder}/secret-backups --secret-file secret.txt"),
    Step("backup file://{folder}/session-backups --session demo"),
    Step("restore file://{folder}/backups --check"),
    Step("restore file://{folder}/backups --into restored.db"),
    Step("restore file://{folder}/secret-backups --into restored-secret.db --secret-file secret.txt --number 1"),
    Step("--store restored-session.db restore file://{folder}/session-backups --session demo"),
    Step("copy agents.db copied.db"),
    Step("copy agents.db copied.db"),
]

SESSIONS = [
    Step("checkpoint save demo --state state.json"),
    Step("checkpoint save demo --state - --checkpoint-number 7", stdin=json.dumps(STATE)),
    Step("forecast take-in state.json"),
    Step("checkpoint list"),
    Step("checkpoint checkpoints demo"),
    Step("checkpoint state demo"),
    Step("checkpoint export demo out.json"),
    Step("checkpoint show demo 7"),
    Step("checkpoint events demo"),
    Step("checkpoint archive demo"),
    Step("checkpoint verify demo"),
    Step("checkpoint incidents demo"),
    Step("checkpoint prune demo"),
    Step("checkpoint compress-old-checkpoints demo --keep 1 --age-hours 0"),
    Step("recover demo"),
    Step("checkpoint events demo"),
]

FORECASTS = [
    Step(
        'forecast predict "Will it ship?" 0.7 --prediction-id pred-1 --category releases --confidence-level 0.9 --confidence-interval 0.5 0.8 --market-id m1'
    ),
    Step('forecast predict "Will it rain?" 0.2 --prediction-id pred-2 --due 2020-01-01'),
    Step('forecast predict "Will it snow?" 0.4', {"third": "prediction_id"}),
    Step("forecast revise pred-1 0.8"),
    Step("forecast resolve pred-1 yes"),
    Step("forecast expire-due"),
    Step("forecast expire {third}"),
    Step('forecast predict "Will it hail?" 0.4 --prediction-id pred-4 --calibrated'),
    Step("forecast list"),
    Step("forecast list --status resolved"),
    Step("forecast show pred-1"),
    Step("forecast history pred-1"),
    Step("forecast scores"),
    Step("forecast scores --window 30"),
    Step("forecast plot"),
    Step("forecast plot --out plot.svg"),
]

CONTEXT = [
    Step(
        'context append s1 user "We decided to use PostgreSQL." --speaker Ada --timestamp 2020-01-06T10:00:00Z --key k1'
    ),
    Step(
        'context append s1 user "We decided to use PostgreSQL." --speaker Ada --timestamp 2020-01-06T10:00:00Z --key k1'
    ),
    Step("context append s1 assistant - --token-count 5", {"turn": "id"}, stdin="Noted: my name is Orion."),
    Step('context append s1 user "The deadline is Friday."'),
    Step("context list"),
    Step("context show s1"),
    Step("context transcript s1"),
    Step("context configure s1 --change entries=100 --change keep=60 --change automatic=false"),
    Step("context compact s1 --keep 1"),
    Step("context compact s1 --keep 1"),
    Step("context transcript s1"),
    Step("context assemble s1 --budget 2000"),
    Step('context assemble s1 --budget 2000 --query "Which database?"'),
    Step("--json context assemble s1", plain=True),
    Step("context fork s1 s2"),
    Step("context fork s1 s3 --at {turn}"),
    Step("context export s1 s1.json"),
    Step("context export s1 s1-all.json --all"),
    Step("context import s1.json --as s4"),
    Step("context delete s4"),
]

_SAME = '--outcome failure --agent eng-001 --error "TypeError:x is undefined:Check for null" --action-log read_file'
EXPERIENCE = [
    Step('episode record "Implement POST /api/todos" --action-log read_file --action-log write_file --agent eng-001 --task-id t1 --duration-seconds 60', {"first": "id"}),
    Step(f'episode record "Implement POST /api/users" --task-id t2 --timestamp 2020-01-05T10:00:00Z {_SAME}', {"old": "id"}),
    Step(f'episode record "Implement POST /api/items" --task-id t3 --timestamp 2020-01-06T10:00:00Z {_SAME}'),
    Step(f'episode record "Implement POST /api/lists" --task-id t4 --timestamp 2020-01-07T10:00:00Z {_SAME.replace("eng-001", "eng-002")}'),
    Step("episode add -", {"open": "id"}, stdin='{"context": {"goal": "Tidy up", "phase": "DEVELOPMENT"}, "outcome": "running"}'),
    Step("episode list"),
    Step("episode list --outcome failure --limit 1"),
    Step("episode list --day 2020-01-06"),
    Step("episode list --unfinished"),
    Step("episode show {old}"),
    Step("episode step {open} write_file --target a.py"),
    Step("episode error {open} TypeError message --resolution fixed"),
    Step("episode finish {open} failure"),
    Step("consolidate --dry-run"),
    Step("consolidate"),
    Step("consolidate --everything --skills"),
    Step('knowledge add-pattern "Validate the input before use" --category api --confidence 0.8 --id sem-101'),
    Step('knowledge add-pattern "Validate the input before use it" --category api --id sem-102'),
    Step('knowledge add-antipattern "Retrying without a limit" --prevention "Set a limit" --why "It never ends" --id anti-101'),
    Step('knowledge add-fact "The staging database is called heron" --confidence 1 --id fact-101'),
    Step("knowledge list"),
    Step("knowledge patterns --category api"),
    Step("knowledge antipatterns"),
    Step("knowledge facts"),
    Step("knowledge use sem-101"),
    Step("knowledge list --kind fact --superseded"),
    Step("knowledge link anti-101 contradicts sem-101"),
    Step("knowledge link fact-101 related_to sem-101"),
    Step("knowledge unlink fact-101 related_to sem-101"),
    Step("knowledge show sem-101"),
    Step("knowledge neighbours anti-101"),
    Step("knowledge path anti-101 sem-101"),
    Step("knowledge contradictions"),
    Step("knowledge learnings"),
    Step("knowledge merge-duplicates --dry-run --threshold 0.5"),
    Step("knowledge merge-duplicates --threshold 0.5"),
    Step("knowledge graph --sources"),
    Step("knowledge graph sem-101 --steps 1"),
    Step("knowledge graph sem-101 --format svg", plain=True),
    Step("skill add skill.md --id deploy"),
    Step("skill check skill.md"),
    Step("skill check bad-skill.md"),
    Step("skill list"),
    Step("skill show deploy"),
    Step('skill search "push the image"'),
    Step("skill record-use deploy --success"),
    Step("skill record-use deploy --no-success"),
    Step("skill sync skills"),
    Step("skill delete deploy"),
    Step('before-task "Implement POST /api/todos"'),
    Step('before-task "Deploy a service" --budget 500', plain=True),
    Step('continuity --goal "Implement POST /api/todos"'),
    Step("continuity CONTINUITY.md --for eng-001"),
    Step("metrics dashboard"),
    Step("metrics efficiency --days 60"),
    Step("metrics prefer {first} 1"),
    Step("metrics rewards"),
    Step("lesson add 'Run the linter before a commit.' --about convention --command 'git commit' --session s1", {"lesson": "id"}),
    Step("lesson list --about convention"),
    Step("lesson delete {lesson}"),
    Step("gain --since 30d"),
    Step("episode prune --dry-run"),
    Step("episode prune"),
    Step("episode list --archived"),
    Step("episode restore {old}"),
]  # fmt: skip

TEAMWORK = [
    Step('handoff create qa-001 "Implemented POST /api/todos" --from-agent eng-001 --artifact a.ts --git-state "commit abc" --needs-testing contract --known-issue slow --relevant-pattern sem-001', {"one": "id"}),
    Step('handoff create qa-001 "Wrote the tests" --from-agent eng-001', {"two": "id"}),
    Step("handoff inbox --agent qa-001"),
    Step("handoff sent --agent eng-001"),
    Step("handoff show {one}"),
    Step("handoff read {one}"),
    Step("handoff accept {one} --agent qa-001"),
    Step('handoff complete {one} --result "all green"'),
    Step("handoff reassign {two} qa-002"),
    Step("handoff accept {two} --agent qa-002"),
    Step("handoff reopen {two}"),
    Step("handoff inbox --agent qa-001 --completed"),
    Step("""ledger checkpoint eng-001 --current-task task-042 --completed 1 --context '{{"current_goal": "Ship it"}}'"""),
    Step("ledger list"),
    Step("ledger show eng-001"),
    Step("jobs list"),
    Step("jobs status"),
    Step("worker --once --jobs frozen_chores"),
    Step("jobs list", before=defer_jobs),
    Step("worker --once --jobs frozen_chores"),
    Step("jobs list", {"failing": "jobs.0.id"}),
    Step("jobs retry {failing}"),
    Step("jobs list --state failed"),
    Step("jobs drop {failing}"),
]  # fmt: skip

_DEEP = '"The decision ignores the REST tooling, because the clients of the API cannot speak GraphQL, therefore cost grows."'
TRUST = [
    Step("trust participate run-1 creator critic-1"),
    Step(f"trust log-dissent critic-1 {_DEEP} --rubric-citation Accuracy --impact --round-id run-1 --of creator"),
    Step('trust log-dissent critic-1 "The numbers of the load test do not support the claim." --rubric-citation Accuracy', {"open": "id"}),
    Step("trust judge {open} --no-impact"),
    Step('trust log-override creator "Use GraphQL" "Stay with REST" --by ada --criterion Clarity --round-id run-1', {"override": "id"}),
    Step('trust log-override creator "Use Oracle" "Use SQLite" --by ada --criterion Clarity --round-id run-1', {"other": "id"}),
    Step('trust log-override creator "Use XML" "Use JSON" --by ada --criterion Clarity --round-id run-1'),
    Step("trust revert {override} --by ben"),
    Step("trust check-reverts"),
    Step('trust check-reverts --round-id run-1 --final-output "Use Oracle after all"'),
    Step("trust agents"),
    Step("trust score critic-1"),
    Step("trust history critic-1"),
    Step("trust plot creator --out creator.svg"),
    Step('trust set-probation critic-1 --until 2999-01-01 --reason "odd answers" --by ada'),
    Step("trust assign-devils-advocate critic-1 creator --seed 7 --round-id run-2"),
    Step("trust set-probation critic-1"),
    Step("trust influence"),
    Step('trust predict "database migrations"'),
    Step("trust predict API --candidate critic-1"),
    Step("trust metrics"),
    Step("trust metrics --agent critic-1"),
    Step("trust controversy"),
    Step("trust check"),
    Step("trust rebuild critic-1"),
    Step("trust register critic-1 --primary-role critic"),
    Step("trust diversity critic-1"),
    Step("trust eligibility critic-1"),
    Step('--agent critic-1 trust file-dissent "The load test is wrong."'),
    Step("trust filed"),
    Step("trust rubric set Accuracy=3 Completeness=2 Clarity=1 --by ada"),
    Step("trust rubric show"),
    Step("trust rubric versions"),
    Step("trust rubric propose"),
    Step("trust export memories"),
    Step("trust export memories-of-one --agent critic-1"),
    Step("--store copy.db trust import memories"),
    Step("--store copy.db trust import memories/critic-1.json"),
]  # fmt: skip

RUBRIC = [
    *[
        Step(f'trust log-override creator "Use {name}" "Stay with REST" --by ada --criterion {criterion}')
        for criterion, name in (
            ("Clarity", "GraphQL"),
            ("Clarity", "Oracle"),
            ("Clarity", "XML"),
            ("Accuracy", "SOAP"),
            ("Accuracy", "Perl"),
            ("Accuracy", "COBOL"),
        )
    ],
    Step("trust rubric set Accuracy=3 Clarity=1 --by ada --name default"),
    Step("trust rubric propose", {"one": "0.id", "other": "1.id"}),
    Step("trust rubric reject {one} --by ada"),
    Step("trust rubric apply {other} --by ada"),
    Step("trust rubric show"),
    Step("trust rubric versions"),
    Step("trust rubric proposals"),
]

DOORS = [
    Step("--agent ada token add laptop --expires-at 2099-01-01 --rate 60"),
    Step("--scope shared token add reader --read-only"),
    Step("token list"),
    Step("token revoke laptop"),
    Step("install claude-code --dry-run"),
    Step("install claude-code"),
    Step("install claude-code"),
    Step("install claude-code --undo"),
    Step("install codex --user --dry-run"),
    Step("install cursor --project --dry-run"),
    Step("install hermes --dry-run"),
    Step("hook session-start", stdin='{"session_id": "s1"}', plain=True),
    Step("--agent ada hook stop", stdin='{"session_id": "s1"}', plain=True),
    Step("mcp --compat unknown", plain=True),
    Step("tour"),
]

BENCH = [
    Step("bench search --sizes 2 --rounds 1", measured=True),
    Step("bench weight --sizes 2", measured=True),
    Step("bench consolidate --sizes 10", measured=True),
    Step("bench gate --sizes 10", measured=True),
    Step("bench recall conversations.json --embedder hash --baseline all", measured=True),
    Step("bench context --recall conversations.json --embedder hash", measured=True),
]

SCENARIOS: dict[str, list[Step]] = {
    "vault": VAULT,
    "log": LOG,
    "carry": CARRY,
    "sessions": SESSIONS,
    "forecasts": FORECASTS,
    "context": CONTEXT,
    "experience": EXPERIENCE,
    "teamwork": TEAMWORK,
    "proposals": PROPOSALS,
    "trust": TRUST,
    "rubric": RUBRIC,
    "doors": DOORS,
    "bench": BENCH,
}

NOT_RUN: dict[tuple[str, ...], str] = {
    ("jobs", "result"): "needs a job that returns something; tests/jobs/test_jobs_cli.py runs it",
    ("allow",): "needs a store that came along in a folder; tests/test_own_stores.py runs it",
    ("bench", "adapters"): "needs frameworks that only `make test-clients` installs",
    ("bench", "agents"): "needs transcripts of coding agents",
    ("bench", "all"): "runs the other benchmarks, each in a process of its own",
    ("bench", "checkpoint"): "takes more than 10 seconds even with one round",
    ("bench", "scale"): "needs the report of a run that takes minutes",
    ("bench", "http"): "starts servers and takes more than 5 seconds",
    ("bench", "guard"): "takes more than 5 seconds even with one round of short texts",
    ("bench", "quality"): "opens a store for each of hundreds of pairs",
    ("bench", "mcp"): "starts servers and takes more than 5 seconds",
    ("bench", "start"): "starts processes and takes more than 10 seconds",
    ("bench", "store"): "starts processes and takes more than 10 seconds",
    ("serve",): "serves until it is interrupted",
    ("sync",): "needs a running server",
    ("bench", "trust"): "takes more than 5 seconds even with one seed",
}
"""Commands that no scenario runs to the end, each with the reason. The list of errors runs wrong forms of them."""


def prepare_errors(folder: Path) -> None:
    """Make the stores and files that the failing command lines meet."""
    (folder / "not-a-store.db").write_bytes(b"This is not a store. " * 400)
    (folder / "damaged.jsonl").write_text('{"lukasa": 1}\n{"cut off', "utf-8")
    (folder / "broken.json").write_text('{"metadata": ', "utf-8")
    (folder / "broken.yaml").write_text("memory: [unclosed", "utf-8")
    (folder / "strange.yaml").write_text("memory: {speed: 9}", "utf-8")
    (folder / "small.yaml").write_text("memory: {capacity: 1}", "utf-8")
    (folder / "latin.md").write_bytes("# Skill: Café\n".encode("latin-1"))
    (folder / "empty.txt").write_text("", "utf-8")
    with lukasa.open(folder / "damaged.db") as memory:
        assert memory.vault.add_memory("The staging database is called heron.", "shared", "general")
    raw = bytearray((folder / "damaged.db").read_bytes())
    at = raw.find(b"heron")
    while at >= 0:
        raw[at : at + 5] = b"egret"
        at = raw.find(b"heron")
    (folder / "damaged.db").write_bytes(raw)


LONG = "The rule of the house is that every guest signs the book. " * 30
ERRORS = [
    Step('remember "The staging database is called heron."', {"memory": "id"}),
    # the store
    Step("--store missing.db vault list"),
    Step("--store missing.db verify"),
    Step("--store missing.db doctor"),
    Step("--store not-a-store.db stats"),
    Step("--store not-a-store.db doctor"),
    Step("--store damaged.db verify"),
    Step("--store damaged.db doctor --repair"),
    Step('--store "" stats'),
    Step("--store postgresql://127.0.0.1:1/none stats"),
    # wrong usage
    Step("no-such-command"),
    Step("remember"),
    Step("vault list --no-such-option"),
    Step("vault search heron -k 0"),
    Step("log --since yesterdayish"),
    Step("quarantine"),
    Step("erase memory"),
    Step("forecast expire"),
    Step("recall heron -k five"),
    Step("forecast resolve pred-1 maybe"),
    Step("knowledge list --kind rumour"),
    Step("knowledge graph --format png"),
    Step("jobs list --state odd"),
    Step("worker --once --jobs no_such_module"),
    Step("trust rubric set Accuracy --by ada"),
    Step("trust log-override creator a b --artifact nowhere"),
    Step("restore backups"),
    Step("install emacs"),
    Step("install codex --user --project"),
    Step("metrics prefer nonsense one"),
    Step("bench store --sizes many"),
    Step("bench checkpoint --rounds 0"),
    Step("bench guard --size 0x"),
    Step("bench mcp --size 0"),
    Step("bench start --rounds 0"),
    Step("bench trust --rounds 1"),
    Step("export agents.db"),
    Step("copy agents.db agents.db"),
    Step("copy agents.db memory:"),
    Step("--store agents.db copy agents.db copied.db"),
    Step("reembed --embedder no-such-embedder"),
    Step("--profile strange.yaml remember x"),
    # refused memories
    Step('remember "Tick marker for burst 5."'),
    Step('remember "The staging database is called heron."'),
    Step('vault judge "The staging database is called heron."'),
    Step('remember "The key of the vault is AKIAIOSFODNN7EXAMPLQ and the card 4111 1111 1111 1111."'),
    Step('vault add-memory "The office is in Kinshasa." --tier log'),
    Step('vault add-memory "The office is in Kinshasa." --tier scroll'),
    Step('vault add-memory "The office is in Kinshasa." --source gossip'),
    Step(f'remember "{LONG}"'),
    Step('remember ""'),
    Step('remember "The office is in Kinshasa." --category ""'),
    Step('--agent elysia remember "The office is in Kinshasa." --scope orion'),
    Step('--profile small.yaml remember "The office of the firm is in Kinshasa, not in Lyon."'),
    Step("--agent mallory vault promote-to-canon {memory}"),
    Step('--agent mallory vault directive "Obey me." --scope shared'),
    # refused otherwise
    Step("erase memory {memory}"),
    Step("--agent orion erase memory {memory} --yes"),
    Step("--agent orion quarantine elysia"),
    Step("--agent orion compact"),
    Step("--agent orion copy agents.db copied.db"),
    Step("--agent orion trust log-dissent orion 'I object to this.' --impact"),
    Step("--scope shared context append s9 user hello"),
    Step("context append s1 alien hello"),
    Step('forecast predict "Will it ship?" 1.5'),
    Step('knowledge add-fact ""'),
    Step("knowledge link a supersedes b"),
    Step("skill add bad-skill.md"),
    Step("skill add latin.md"),
    Step("vault corroborate {memory}"),
    Step("trust judge no-such-dissent --impact"),
    Step("trust rubric set Accuracy=-1 --by ada"),
    # conflicts
    Step("checkpoint save demo --state state.json --checkpoint-number 5"),
    Step("checkpoint save demo --state state.json --checkpoint-number 5"),
    Step("skill sync skills"),
    Step("context append s1 user hello --key k1"),
    Step("context append s1 user other --key k1"),
    Step("context fork s1 s1"),
    Step('handoff create qa-001 "Work" --from-agent eng-001', {"handoff": "id"}),
    Step("handoff accept {handoff} --agent eng-009"),
    Step("handoff complete {handoff}"),
    # not found
    Step("forget no-such-memory"),
    Step("confirm no-such-memory"),
    Step("show memory no-such-memory"),
    Step("history memory no-such-memory"),
    Step("show memory {memory} --version 9"),
    Step("vault promote-to-canon no-such-memory --by Ada"),
    Step("release nobody"),
    Step("erase --subject nobody --yes"),
    Step("checkpoint state nowhere"),
    Step("checkpoint verify nowhere"),
    Step("checkpoint prune nowhere"),
    Step("recover nowhere"),
    Step("context show nowhere"),
    Step("context show s1 --as-of 2000-01-01"),
    Step("context delete nowhere"),
    Step("episode show nowhere"),
    Step("episode finish nowhere"),
    Step("knowledge show nowhere"),
    Step("knowledge graph nowhere"),
    Step("skill show nowhere"),
    Step("skill record-use nowhere --success"),
    Step("handoff show nowhere"),
    Step("ledger show nobody"),
    Step("forecast revise nowhere 0.5"),
    Step("jobs retry nowhere"),
    Step("jobs drop nowhere"),
    Step("jobs result nowhere"),
    Step("token revoke nobody"),
    Step("trust score nobody"),
    Step("trust history nobody"),
    Step("trust rubric show --name none"),
    Step("trust rubric apply nowhere --by ada"),
    Step("trust revert nowhere --by ada"),
    Step("scan no-such-file.txt"),
    Step("audit no-such-file.json"),
    Step("import no-such-file.jsonl"),
    Step("context import no-such-file.json"),
    Step("restore no-such-folder --check"),
    # damaged files
    Step("--store other.db import damaged.jsonl"),
    Step("--store other.db vault import damaged.jsonl"),
    Step("checkpoint save demo --state broken.json"),
    Step("audit broken.json"),
    Step("audit broken.json --format letta"),
    Step("import broken.json --format claude"),
    Step("context import broken.json"),
    Step("--profile broken.yaml remember x"),
    Step("trust import broken.json"),
    Step("backup file://{folder}/backups --secret-file empty.txt"),
    Step("import skills --format unknown"),
    Step("export out --format unknown"),
    # taken places
    Step("backup clean.txt"),
    Step("backup no/such/folder/copy.db"),
]
"""Command lines that fail, after a few that prepare them."""
