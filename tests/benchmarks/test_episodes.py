"""Consolidation on made-up histories: what was planted is found, what was not is not invented."""

import random
from typing import Any

import pytest

import lukasa
from lukasa_bench.consolidate import measure_quality
from lukasa_bench.episodes import EpisodeCorpus

pytestmark = pytest.mark.requirement("EXP-3")


def consolidated(episodes, **options):
    with lukasa.open("memory:") as memory:
        kept = memory.episodes.add([episode for _, episode in episodes])
        follows = dict(
            zip((record.id for record in kept.unwrap_all()), (number for number, _ in episodes), strict=True)
        )
        return memory.consolidate(**options), follows


@pytest.mark.parametrize("seed", range(10))
def test_planted_patterns_are_found_and_nothing_else(seed):
    history = EpisodeCorpus(seed, pattern_count=15)
    episodes = list(history.episodes(250))
    done, follows = consolidated(episodes)
    recall, precision = measure_quality(done, follows)
    assert recall >= 0.9
    assert precision >= 0.9
    planted = {error["type"] for _, episode in episodes for error in episode["errors_encountered"]}
    assert {proposal.draft.body["what_fails"] for proposal in done.of("antipattern")} == planted


@pytest.mark.parametrize("seed", range(10))
def test_three_examples_are_enough(seed):
    history = EpisodeCorpus(seed, pattern_count=12)
    episodes: list[tuple[int | None, dict[str, Any]]] = [
        (pattern.number, history.make_example(pattern, number))
        for pattern in history.planted_patterns
        for number in range(3)
    ]
    episodes += [(None, history.make_unrelated(number)) for number in range(60)]
    random.Random(seed).shuffle(episodes)
    recall, precision = measure_quality(*consolidated(episodes))
    assert recall >= 0.9
    assert precision >= 0.9


@pytest.mark.parametrize("seed", range(10))
def test_unrelated_episodes_give_no_pattern(seed):
    history = EpisodeCorpus(seed, pattern_count=1, planted_share=0.0)
    done, _ = consolidated(list(history.episodes(200)))
    assert done.of("pattern") == []


FAMILIES = {
    "endpoint": "Implement {verb} /api/{thing} endpoint",
    "pagination": "Add pagination to the {thing} list page",
    "uuid": "Migrate the {thing} table from integer keys to UUID",
    "flaky": "Fix the flaky {thing} integration test on CI",
    "dockerfile": "Shrink the Docker image of the {thing} service",
    "translations": "Translate the {thing} screen into German and French",
    "cache": "Put a Redis cache in front of the {thing} lookup",
    "alert": "Set up a Grafana alert for {thing} latency",
}
THINGS = ("users", "orders", "invoices", "sessions", "reports", "payments", "products", "messages")
ODD_JOBS = (
    "Rotate the TLS certificates of the load balancer",
    "Find out why the nightly backup takes four hours",
    "Write the release notes for version 2.4",
    "Remove the unused feature flag for dark mode",
    "Upgrade PostgreSQL from 15 to 16",
    "Explain the billing rules to the new colleague",
    "Fix a typo on the landing page",
    "Investigate the memory leak in the image resizer",
    "Add keyboard shortcuts to the editor",
    "Refactor the authentication middleware",
    "Benchmark two JSON parsers",
    "Answer the security questionnaire of a customer",
    "Delete stale branches in the repository",
    "Make the search ignore accents",
    "Test the disaster recovery plan",
    "Move the documentation to a static site",
)


@pytest.mark.parametrize("seed", range(10))
def test_tasks_in_plain_english_are_distinguished(seed):
    chance = random.Random(seed)
    actions = ["read_file", "write_file", "edit_file", "run_test", "run_lint", "call_api", "deploy", "read_logs"]
    episodes: list[tuple[int | None, dict[str, Any]]] = []
    for number, template in enumerate(FAMILIES.values()):
        way = chance.choices(actions, k=5)
        for thing in chance.sample(THINGS, 4):
            goal = template.format(thing=thing, verb=chance.choice(("GET", "POST", "PUT", "DELETE")))
            own = [*way, "commit"] if chance.random() < 0.3 else way
            episodes.append(
                (number, {"agent": chance.choice("abc"), "context": {"goal": goal}, "action_log": log(own)})
            )
    for goal in ODD_JOBS:
        own = chance.choices(actions, k=5)
        episodes.append((None, {"agent": "a", "context": {"goal": goal}, "action_log": log(own)}))
    chance.shuffle(episodes)
    recall, precision = measure_quality(*consolidated(episodes))
    assert recall >= 0.9
    assert precision >= 0.9


def log(actions):
    return [{"t": at, "action": action} for at, action in enumerate(actions)]


@pytest.mark.parametrize("seed", range(3))
def test_step_by_step_or_all_at_once_the_clusters_are_the_same(seed):
    history = EpisodeCorpus(seed, pattern_count=6)
    episodes = [episode for _, episode in history.episodes(60)]
    with lukasa.open("memory:") as whole, lukasa.open("memory:") as stepwise:
        whole.episodes.add(episodes)
        whole.consolidate()
        for at in range(0, 60, 7):
            stepwise.episodes.add(episodes[at : at + 7])
            stepwise.consolidate()
        assert clusters(whole) == clusters(stepwise)
        assert sources(whole) == sources(stepwise)


def clusters(memory):
    from lukasa.storage.engine import Query

    return {record.id: record.body["members"] for record in memory.journal.read(Query(kinds=("cluster",)))}


def sources(memory):
    return {frozenset(item.record.body["source_episodes"]) for item in memory.knowledge.patterns()}


def test_the_same_history_gives_the_same_answer_every_time():
    def run():
        done, _ = consolidated(list(EpisodeCorpus(5, pattern_count=8).episodes(80)))
        return [(proposal.key, proposal.draft.body) for proposal in done.proposals]

    assert run() == run()
