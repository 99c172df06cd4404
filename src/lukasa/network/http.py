"""A network over HTTP: the client of a hub that ``lukasa serve`` runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from lukasa.api_connection import ApiConnection, ApiProblem
from lukasa.core.clock import from_iso
from lukasa.core.outcome import Refused
from lukasa.core.record import Draft
from lukasa.core.scope import SHARED
from lukasa.errors import InvalidInput, NetworkDown, NotAccepted, NotAllowed, RateLimited, StoreError
from lukasa.journal import Journal
from lukasa.network.contract import NetworkState, News, NewsType, Peer, SendReceipt
from lukasa.network.hub import acknowledgement_draft
from lukasa.storage.engine import Reader


class HttpNetwork:
    """The network of a hub behind HTTP.

    With a ``journal``, the records that a receiver makes of a signal are stored there, together with a record that says so,
    before the hub learns of it: after a crash in between, the signal comes again, and nothing is stored twice. Without one, the hub
    stores these records in the same step as the acknowledgement.
    """

    def __init__(self, connection: ApiConnection, journal: Journal | None = None) -> None:
        self._connection = connection
        self._journal = journal

    def fetch_state(self, agent_id: str) -> NetworkState:
        found = self._call("GET", agent_id, "state")
        return NetworkState(agent_id, tuple(found["active_predictions"]), tuple(found["signal_history"]))

    def broadcast(self, agent_id: str, news_type: NewsType, news: News) -> SendReceipt:
        return self._send(agent_id, f"{news_type}s", dict(news))

    def acknowledge(self, agent_id: str, signal_id: str, sender: str, effect: Sequence[Draft] = ()) -> SendReceipt:
        body = {"sender": sender, "signal_id": signal_id}
        if self._journal is None:
            drafts = [
                {"kind": draft.kind, "text": draft.text, "body": dict(draft.body), "id": draft.id,
                 "scope": draft.scope, "labels": list(draft.labels)}
                for draft in effect
            ]  # fmt: skip
            return self._send(agent_id, "acknowledgements", body | {"effect": drafts})
        was_taken = self._store_effect(self._journal, agent_id, signal_id, sender, effect)
        self._send(agent_id, "acknowledgements", body)
        return SendReceipt(signal_id, was_taken)

    def acknowledged(self, agent_id: str, signal_id: str) -> tuple[str, ...]:
        return tuple(self._call("GET", agent_id, "acknowledgements", query={"signal_id": signal_id})["agents"])

    def inbox(self, agent_id: str) -> list[News]:
        return list(self._call("GET", agent_id, "inbox")["signals"])

    def peers(self, agent_id: str) -> list[Peer]:
        found = self._call("GET", agent_id, "peers")["peers"]
        return [Peer(peer["agent_id"], from_iso(peer["last_interaction"]), peer["trust"]) for peer in found]

    @staticmethod
    def _store_effect(journal: Journal, agent_id: str, signal_id: str, sender: str, effect: Sequence[Draft]) -> bool:
        """Store an effect in the own store, once; return whether that was done before."""
        taken = acknowledgement_draft(agent_id, signal_id, sender, journal.home_scope or SHARED)
        repeated = False

        def append_effect(reader: Reader) -> Sequence[Draft] | Refused:
            nonlocal repeated
            repeated = reader.get(taken.key) is not None
            return [] if repeated else [taken, *effect]

        journal.append_if(append_effect).unwrap_all()
        return repeated

    def _send(self, agent_id: str, path: str, body: Any) -> SendReceipt:
        found = self._call("POST", agent_id, path, body)
        return SendReceipt(found["id"], found["repeated"])

    def _call(self, method: str, agent_id: str, path: str, body: Any = None, query: Any = None) -> Any:
        """Send a request, which may be repeated; the errors of the connection become those of a network."""
        try:
            target = f"/v1/agents/{quote(agent_id, safe='')}/{path}"
            return self._connection.request(method, target, body, query=query, repeatable=True).content
        except (InvalidInput, RateLimited):
            raise
        except ApiProblem as error:
            raise NotAccepted(outcome=Refused(error.code, error.message, error.details), hint=error.hint) from error
        except StoreError as error:
            raise NetworkDown(error.message, hint=error.hint) from error
        except NotAllowed as error:
            refusal = f"The hub {self._connection.url} refuses this agent: {error.message}"
            raise NetworkDown(refusal, hint=error.hint) from error
