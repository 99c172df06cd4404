"""A client of a Lukasa server: the everyday calls of ``memory`` over HTTP.

    memory = lukasa.connect("http://localhost:8765", token=token)
    memory.remember("We deploy on Tuesdays.")
    print(memory.recall("when do we deploy?").hits[0].text)

Writes return the same outcomes as the library, and carry an idempotency key, so that a try whose answer was lost is
repeated without writing twice. The agent and the scopes are those of the token. ``lukasa.aio.connect`` is the same for
asyncio.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from lukasa.api_connection import ApiConnection, ApiProblem
from lukasa.config import hub_token
from lukasa.core.argument_types import check_arguments
from lukasa.core.choices import EpisodeOutcome, PredictionStatus, ProposalState, Role
from lukasa.core.clock import Time, from_iso, to_iso, to_utc
from lukasa.core.http_client import HttpResponse
from lukasa.core.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.core.record import Key, Link, Record
from lukasa.recall.filters import list_values, one_or_more


@dataclass(frozen=True, slots=True)
class RemoteHit:
    """A record that answers the question, with its score and the trust in its author.

    ``superseded_by`` and ``supersedes`` name statements about the same subject that say otherwise, ``contradicts`` one that
    is trusted more; ``signals`` are there if the question asked for an explanation.
    """

    record: Record
    score: float
    trust: float | None = None
    superseded_by: Mapping[str, Any] | None = None
    supersedes: Sequence[Mapping[str, Any]] = ()
    signals: Mapping[str, Mapping[str, float]] | None = None
    relevance: float = 1.0
    contradicts: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        return self.record.text


@dataclass(frozen=True, slots=True)
class RemoteRecall:
    """The answer to a question, best hit first; ``note`` says what could not be searched, ``block`` is for a prompt."""

    hits: tuple[RemoteHit, ...]
    note: str = ""
    unindexed: int = 0
    left_out: Sequence[Mapping[str, Any]] = ()
    block: str | None = None
    nothing_relevant: bool = False
    embedder: str = ""
    """The model whose vectors were compared; empty if words alone found the records."""

    @property
    def records(self) -> list[Record]:
        return [hit.record for hit in self.hits]


@check_arguments
class RemoteMemory:
    """The memory of one agent on a server."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection
        self.context = RemoteConversations(connection)
        self.sessions = RemoteSessions(connection)
        self.episodes = RemoteEpisodes(connection)
        self.handoffs = RemoteHandoffs(connection)
        self.trust = RemoteTrust(connection)
        self.forecasts = RemoteForecasts(connection)
        self.proposals = RemoteProposals(connection)

    def remember(
        self,
        text: str,
        *,
        scope: str | None = None,
        category: str = "general",
        topic: str | None = None,
        tags: Iterable[str] = (),
        distinct_from: str | Iterable[str] = (),
        expires_at: Time | None = None,
    ) -> Outcome:
        """Store a fact in the vault, as ``memory.remember`` of the library does.

        Args:
            text: The fact, in plain words.
            scope: The scope; default: the shared one.
            category: A word that groups such entries.
            topic: A word for what the fact is about; the next fact with the same topic and scope replaces it.
            tags: Words to find it by; recall filters with ``labels=["tag=…"]``.
            distinct_from: The ids of memories that the text does not repeat, although it looks like it.
            expires_at: From this time on recall and prompts leave it out.

        Example:
            remote.remember("We deploy on Tuesdays.", topic="deploy day")
        """
        ids = [distinct_from] if isinstance(distinct_from, str) else list(distinct_from)
        fields = {"scope": scope, "topic": topic, "tags": list(tags), "distinct_from": ids, "expires_at": expires_at}
        return send(self._connection, "POST", "/v1/memories", {"text": text, "category": category, **fields})

    def recall(
        self,
        query: str,
        k: int = 10,
        *,
        kinds: Iterable[str] = (),
        scopes: Iterable[str] = (),
        author: str | Iterable[str] | None = None,
        conversation: str | Iterable[str] | None = None,
        labels: Iterable[str] = (),
        any_labels: Iterable[str] = (),
        exclude: Iterable[str] = (),
        where: Mapping[str, Any] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        as_of: Time | int | None = None,
        deadline: float | None = None,
        min_relevance: float | None = None,
        explain: bool = False,
        budget: int | None = None,
    ) -> RemoteRecall:
        """Return the ``k`` records that answer best. ``budget`` asks for a fenced block for a prompt too.

        Args:
            query: The question, in plain words.
            k: How many to return at most.
            kinds: Only records of these kinds, such as ``memory``, ``episode`` or ``turn``.
            scopes: Only these scopes; default: all that the caller may read.
            author: Only records of these authors.
            conversation: Only turns of these conversations.
            labels: The record has all of these labels, such as ``tag=ops``.
            any_labels: The record has at least one of these labels.
            exclude: The record has none of these labels.
            where: Compare fields of the body: ``{"status": "open", "price": {"gte": 10, "lt": 20}}``.
            since: Only what happened or was written at this time or later.
            until: Only what happened at this time or earlier.
            as_of: An earlier time, or a position in the log.
            deadline: After how many seconds recall goes on without the embedder, by words alone.
            min_relevance: The relevance that every hit must reach, from 0 to 1.
            explain: Return the signals behind each hit too.
            budget: Return a fenced block for a prompt too, of at most this many tokens.

        Example:
            remote.remember("We deploy on Tuesdays.")
            remote.recall("When do we deploy?", 3).hits[0].text
        """
        options: dict[str, Any] = {
            "kinds": list(list_values("kinds", kinds)),
            "scopes": list(list_values("scopes", scopes)),
            "labels": list(list_values("labels", labels)),
            "any_labels": list(list_values("any_labels", any_labels)),
            "exclude": list(list_values("exclude", exclude)),
            "where": dict(where or {}),
            "author": list(one_or_more(author)) or None,
            "conversation": list(one_or_more(conversation)) or None,
        }
        options |= {"since": since, "until": until, "as_of": as_of, "explain": explain or None}
        options |= {"deadline": deadline, "min_relevance": min_relevance, "budget": budget}
        body = {"query": query, "k": k, **options}
        found = self._connection.request("POST", "/v1/recall", clean_body(body), repeatable=True).content
        return RemoteRecall(
            tuple(map(_read_hit, found["hits"])),
            found["note"],
            found["unindexed"],
            found.get("left_out", ()),
            found["block"]["text"] if "block" in found else None,
            found["nothing_relevant"],
            found.get("embedder", ""),
        )

    def forget(self, id: str, *, scope: str | None = None) -> Outcome:
        """Delete a memory of the vault by its id. Its history stays.

        Args:
            id: The id of the memory.
            scope: The scope; default: wherever the caller finds it.

        Example:
            kept = remote.remember("We deploy on Tuesdays.").unwrap()
            remote.forget(kept.id)
        """
        return send(self._connection, "DELETE", _path("memories", id), query={"scope": scope})

    def confirm(self, id: str, *, scope: str | None = None, expires_at: Time | None = None) -> Outcome:
        """Record that a memory of the vault still holds.

        Args:
            id: The id of the memory.
            scope: The scope; default: wherever the caller finds it.
            expires_at: From this time on recall and prompts leave it out.

        Example:
            kept = remote.remember("We deploy on Tuesdays.").unwrap()
            remote.confirm(kept.id)
        """
        path = f"{_path('memories', id)}/confirmations"
        return send(self._connection, "POST", path, {"expires_at": expires_at, "scope": scope})

    def before_task(self, task: str | Mapping[str, Any], *, budget: int | None = None) -> Mapping[str, Any]:
        """Return what is known that matters for a task, as JSON.

        Args:
            task: The task in words, or a mapping with a ``goal``.
            budget: The most tokens that the result may take.

        Example:
            remote.before_task("Plan the next deploy", budget=1000)
        """
        body = clean_body({"task": task, "budget": budget})
        found: Mapping[str, Any] = self._connection.request("POST", "/v1/before-task", body, repeatable=True).content
        return found

    def close(self) -> None:
        """Close the connections to the server.

        Example:
            remote.close()
        """
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class RemoteService:
    """One service of a memory on a server. Reads return the JSON of the API, writes the outcomes of the library."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection

    def _read(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return self._connection.request("GET", path, query=clean_body(query or {})).content

    def _write(self, path: str, body: Mapping[str, Any] | None = None) -> Outcome:
        return send(self._connection, "POST", path, body)


@check_arguments
class RemoteConversations(RemoteService):
    """Conversations on a server."""

    def append(
        self,
        conversation_id: str,
        role: Role,
        content: str,
        *,
        speaker: str = "",
        timestamp: Time | None = None,
        tool_calls: Sequence[Mapping[str, Any]] = (),
        tool_call_id: str = "",
    ) -> Outcome:
        """Append a turn. It is stored before the call returns.

        Args:
            conversation_id: The id of the conversation.
            role: Who speaks: ``user``, ``assistant``, ``system``, ``tool`` or ``developer``.
            content: What was said.
            speaker: The name of the speaker; default: the role.
            timestamp: When it happened, if that is not now.
            tool_calls: The tool calls that the assistant asked for.
            tool_call_id: The id of the tool call that this turn answers.

        Example:
            remote.context.append("s1", "user", "We decided to use PostgreSQL.")
        """
        body: dict[str, Any] = {"role": role, "content": content, "speaker": speaker, "timestamp": timestamp}
        body |= {"tool_calls": [dict(call) for call in tool_calls], "tool_call_id": tool_call_id}
        return self._write(f"{_path('conversations', conversation_id)}/turns", body)

    def load(self, conversation_id: str) -> Mapping[str, Any]:
        """Return the recent view of a conversation: summary, facts and the newest turns.

        Args:
            conversation_id: The id of the conversation.

        Example:
            remote.context.append("s1", "user", "Hello")
            remote.context.load("s1")
        """
        return dict(self._read(_path("conversations", conversation_id)))

    def assemble(
        self, conversation_id: str, budget: int = 4_000, *, query: str | None = None, include: Sequence[str] = ()
    ) -> Mapping[str, Any]:
        """Return a prompt within a token budget: summary, facts, relevant earlier turns and the newest ones.

        ``include`` adds what the ``vault``, ``knowledge`` or other ``conversations`` say.

        Args:
            conversation_id: The id of the conversation.
            budget: The most tokens that the result may take.
            query: The question, in plain words.
            include: Where else to look: ``vault``, ``knowledge``, ``conversations``.

        Example:
            remote.context.append("s1", "user", "We decided to use PostgreSQL.")
            remote.context.assemble("s1", 2000, query="Which database?")
        """
        fields = {"budget": budget, "query": query, "include": list(include)}
        return dict(self._read(f"{_path('conversations', conversation_id)}/prompt", fields))

    def transcript(self, conversation_id: str, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """Return the newest turns of the whole conversation, oldest first.

        Args:
            conversation_id: The id of the conversation.
            limit: How many to return at most.

        Example:
            remote.context.append("s1", "user", "Hello")
            remote.context.transcript("s1", limit=20)
        """
        query = {"limit": limit, "newest_first": "true"}
        return list(reversed(self._read(f"{_path('conversations', conversation_id)}/turns", query)["turns"]))

    def list(self) -> Sequence[Mapping[str, Any]]:
        """Return the conversations that the token may read.

        Example:
            remote.context.list()
        """
        return list(self._read("/v1/conversations")["conversations"])


@check_arguments
class RemoteSessions(RemoteService):
    """The states of agents on a server."""

    def list(self) -> Sequence[Mapping[str, Any]]:
        """List the sessions.

        Example:
            remote.sessions.list()
        """
        return list(self._read("/v1/sessions")["sessions"])

    def state(self, session_id: str) -> Mapping[str, Any]:
        """Return the newest state of a session.

        Args:
            session_id: The id of the session.

        Example:
            remote.sessions.save_checkpoint({}, "demo")
            remote.sessions.state("demo")
        """
        return dict(self._read(_path("sessions", session_id)))

    def save_checkpoint(self, state: Mapping[str, Any], session_id: str) -> Mapping[str, Any]:
        """Save a state as the next checkpoint of a session, once however often it is tried.

        Args:
            state: The state, as JSON.
            session_id: The id of the session.

        Example:
            remote.sessions.save_checkpoint({"learning_state": {"step": 7}}, "demo")
        """
        path = f"{_path('sessions', session_id)}/checkpoints"
        return dict(self._connection.request("POST", path, {"state": dict(state)}, with_key=True).content)

    def checkpoints(self, session_id: str) -> Sequence[Mapping[str, Any]]:
        """List the checkpoints of a session.

        Args:
            session_id: The id of the session.

        Example:
            remote.sessions.save_checkpoint({}, "demo")
            remote.sessions.checkpoints("demo")
        """
        return list(self._read(f"{_path('sessions', session_id)}/checkpoints")["checkpoints"])

    def recover(self, session_id: str) -> Mapping[str, Any]:
        """Bring a session back to the newest state that can be proved, and report it.

        Args:
            session_id: The id of the session.

        Example:
            remote.sessions.save_checkpoint({}, "demo")
            remote.sessions.recover("demo")
        """
        path = f"{_path('sessions', session_id)}/recovery"
        return dict(self._connection.request("POST", path, {}, repeatable=True).content)


@check_arguments
class RemoteEpisodes(RemoteService):
    """Episodes on a server."""

    def record(self, goal: str, *, outcome: EpisodeOutcome = "success", **fields: Any) -> Outcome:
        """Record a finished episode; ``fields`` are those of ``memory.episodes.record``.

        Args:
            goal: What the task is to achieve.
            outcome: How it ended.
            **fields: Further arguments of ``memory.episodes.record``.

        Example:
            remote.episodes.record("Fix the login page", outcome="failure")
        """
        return self._write("/v1/episodes", {"goal": goal, "outcome": outcome, **fields})

    def list(self, *, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """List the episodes that were written last, oldest first.

        Args:
            limit: How many to return at most.

        Example:
            remote.episodes.list(limit=5)
        """
        return list(self._read("/v1/episodes", {"limit": limit})["episodes"])

    def get(self, id: str) -> Mapping[str, Any]:
        """Return an episode.

        Args:
            id: The id of the episode.

        Example:
            kept = remote.episodes.record("Fix the login page").unwrap()
            remote.episodes.get(kept.id)
        """
        return dict(self._read(_path("episodes", id)))


@check_arguments
class RemoteHandoffs(RemoteService):
    """Work passed between agents, on a server."""

    def create(self, to_agent: str, what_was_done: str, **fields: Any) -> Outcome:
        """Hand work over; ``fields`` are those of ``memory.handoffs.create``.

        Args:
            to_agent: Who gets the work.
            what_was_done: What is done and what is left, in plain words.
            **fields: Further arguments of ``memory.handoffs.create``.

        Example:
            remote.handoffs.create("ben", "The form is done; test it.")
        """
        return self._write("/v1/handoffs", {"to_agent": to_agent, "what_was_done": what_was_done, **fields})

    def inbox(self) -> Sequence[Mapping[str, Any]]:
        """Return the handoffs that wait for the agent.

        Example:
            remote.handoffs.inbox()
        """
        return list(self._read("/v1/handoffs")["handoffs"])

    def accept(self, id: str) -> Outcome:
        """Accept a handoff; only one agent can.

        Args:
            id: The id of the handoff.

        Example:
            kept = remote.handoffs.create("orion", "The form is done; test it.").unwrap()
            remote.handoffs.accept(kept.id)
        """
        return self._write(f"{_path('handoffs', id)}/acceptance")

    def complete(self, id: str, **fields: Any) -> Outcome:
        """Say that a handoff is done.

        Args:
            id: The id of the handoff.
            **fields: ``result``: what came of it.

        Example:
            kept = remote.handoffs.create("orion", "The form is done; test it.").unwrap()
            remote.handoffs.accept(kept.id)
            remote.handoffs.complete(kept.id, result="All tests pass.")
        """
        return self._write(f"{_path('handoffs', id)}/completion", fields)


@check_arguments
class RemoteProposals(RemoteService):
    """What agents would change of the owner's records, on a server. An agent sees it; the owner decides."""

    def list(self, state: ProposalState = "open", *, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """List the proposals in a state, oldest first.

        Args:
            state: ``open``, ``accepted`` or ``refused``.
            limit: How many to return at most.

        Example:
            remote.proposals.list()
        """
        return [*self._read("/v1/proposals", {"state": state, "limit": limit})["proposals"]]

    def accept(self, id: str, *, scope: str | None = None) -> Outcome:
        """Make the proposed change in the owner's name.

        Args:
            id: The id of the proposal.
            scope: The scope; default: wherever it is.

        Example:
            for proposal in remote.proposals.list():
                remote.proposals.accept(proposal["id"])
        """
        return self._write(f"{_path('proposals', id)}/acceptance", {"scope": scope})

    def refuse(self, id: str, *, scope: str | None = None) -> Outcome:
        """Refuse a proposal; nothing is changed.

        Args:
            id: The id of the proposal.
            scope: The scope; default: wherever it is.

        Example:
            for proposal in remote.proposals.list():
                remote.proposals.refuse(proposal["id"])
        """
        return self._write(f"{_path('proposals', id)}/refusal", {"scope": scope})


@check_arguments
class RemoteTrust(RemoteService):
    """Dissents and trust scores on a server."""

    def file_dissent(self, text: str, **fields: Any) -> Outcome:
        """Write a dissent as the agent of the token.

        Args:
            text: The dissent, in plain words.
            **fields: Further arguments of ``memory.trust.file_dissent``.

        Example:
            remote.trust.file_dissent("The figure is wrong.")
        """
        return self._write("/v1/trust/dissents", {"text": text, **fields})

    def score(self, agent: str) -> Mapping[str, Any]:
        """Return how far an agent is trusted.

        Args:
            agent: The name of the agent.

        Example:
            remote.trust.score("orion")
        """
        return dict(self._read(_path("trust/agents", agent)))


@check_arguments
class RemoteForecasts(RemoteService):
    """Predictions on a server."""

    def predict(self, question: str, probability: float, **fields: Any) -> Outcome:
        """Store a new prediction; ``fields`` are those of ``memory.forecasts.predict``.

        Args:
            question: What is predicted, in words.
            probability: The probability, from 0 to 1.
            **fields: Further arguments of ``memory.forecasts.predict``.

        Example:
            remote.forecasts.predict("We ship on Friday", 0.7)
        """
        return self._write("/v1/forecasts", {"question": question, "probability": probability, **fields})

    def list(self, status: PredictionStatus | None = None) -> Sequence[Mapping[str, Any]]:
        """Return predictions, all or those of a status.

        Args:
            status: ``active``, ``resolved``, ``expired`` or ``recovering``; default: all.

        Example:
            remote.forecasts.list("active")
        """
        return list(self._read("/v1/forecasts", {"status": status})["predictions"])

    def resolve(self, prediction_id: str, outcome: Any) -> Outcome:
        """Record how a prediction ended.

        Args:
            prediction_id: The id of the prediction.
            outcome: True or false, or what happened in words.

        Example:
            remote.forecasts.predict("We ship on Friday", 0.7, prediction_id="p-1")
            remote.forecasts.resolve("p-1", True)
        """
        path = f"{_path('forecasts', prediction_id)}/resolution"
        return send(self._connection, "PUT", path, {"outcome": outcome})

    def scores(self) -> Mapping[str, Any]:
        """Return the scores of the resolved predictions.

        Example:
            remote.forecasts.scores()
        """
        return dict(self._read("/v1/forecasts/scores"))


@check_arguments
def connect(url: str, token: str = "", *, timeout: float = 30.0, retries: int = 4) -> RemoteMemory:
    """Connect to a server: ``lukasa.connect("http://localhost:8765", token=token)``.

    Without a token, the one in ``LUKASA_HUB_TOKEN`` is used. A request is tried again while the server is away or busy, for
    ``timeout`` seconds together.

    Args:
        url: The address of the server, such as ``http://host:8765``.
        token: The token of the agent; default: ``LUKASA_TOKEN``.
        timeout: How many seconds one call may take.
        retries: How often a call is repeated where that is safe.

    Example:
        with lukasa.connect(url, token) as remote:
            remote.remember("We deploy on Tuesdays.")
    """
    return RemoteMemory(ApiConnection(url, token or hub_token(), timeout, retries))


def send(
    connection: ApiConnection,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    query: Mapping[str, Any] | None = None,
) -> Outcome:
    """Send a write, once however often it is tried, and return its outcome."""
    content = None if body is None else clean_body(body)
    try:
        response = connection.request(method, path, content, query=clean_body(query or {}), with_key=method == "POST")
    except ApiProblem as problem:
        return _read_refusal(problem)
    return _read_accepted(response)


def clean_body(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are set, with times as text."""
    values = {name: value for name, value in fields.items() if value is not None and value != [] and value != ""}
    return {name: to_iso(to_utc(value)) if isinstance(value, datetime) else value for name, value in values.items()}


def _path(noun: str, id: str) -> str:
    return f"/v1/{noun}/{quote(id, safe='')}"


def _read_accepted(response: HttpResponse) -> Accepted:
    content = response.content
    records = () if "records" in content else (_read_record(content),)
    return Accepted(records, response.headers.get("idempotent-replayed") == "true", content.get("details", {}))


def _read_refusal(problem: ApiProblem) -> Refused | Conflict:
    if problem.code == "conflict" and problem.details:
        key, details = problem.details.get("key", {}), problem.details
        return Conflict(
            Key(key.get("scope", ""), key.get("kind", ""), key.get("id", "")), details["expected"], details["found"]
        )
    return Refused(problem.code or "refused", problem.message, problem.details)


def _read_hit(found: Mapping[str, Any]) -> RemoteHit:
    return RemoteHit(
        _read_record(found["record"]),
        found["score"],
        found["trust"],
        found.get("superseded_by"),
        found.get("supersedes", ()),
        found.get("signals"),
        found["relevance"],
        found.get("contradicts"),
    )


def _read_record(found: Mapping[str, Any]) -> Record:
    """Return the record that the serialiser wrote."""
    happened = found["happened_at"]
    links = (Link(link["relation"], Key(**link["to"])) for link in found["links"])
    return Record(
        found["kind"],
        found["id"],
        found["scope"],
        found["author"],
        found["origin"],
        found["version"],
        found["seq"],
        from_iso(found["created_at"]),
        from_iso(found["recorded_at"]),
        None if happened is None else from_iso(happened),
        found["deleted"],
        found["body"],
        found["text"],
        tuple(links),
        tuple(found["labels"]),
        bytes.fromhex(found["digest"]),
    )
