"""The network of agents: its contract, the hub in a store, and in ``lukasa.network.http`` a client of a hub
behind HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lukasa.core.body_shape import BodyShape
from lukasa.core.lazy_imports import lazy_attributes
from lukasa.journal.gate import KindSpec

if TYPE_CHECKING:
    from lukasa.network.contract import Network, NetworkState, News, NewsType, Peer, RateLimitedNetwork, SendReceipt
    from lukasa.network.hub import CURSOR_KIND, MAX_INBOX, NEWS_KIND, NetworkHub

__all__ = [
    "CURSOR_KIND",
    "KINDS",
    "MAX_INBOX",
    "NEWS_KIND",
    "Network",
    "NetworkHub",
    "NetworkState",
    "News",
    "NewsType",
    "Peer",
    "RateLimitedNetwork",
    "SendReceipt",
]

_NEWS = {"agent_id": str, "sort": str, "news": {"signal_id": str, "prediction_id": str}}
_SIGNAL = _NEWS | {"news": BodyShape({"signal_id": str}, "signal_id")}
_SHAPES = {
    "network_news": BodyShape(_NEWS, "agent_id news"),
    "network_signal": BodyShape(_SIGNAL, "agent_id news"),
    "network_taken": BodyShape({"by": str, "signal_id": str, "from": str}, "by"),
    "network_agent": BodyShape({"agent_id": str, "at": str}, "agent_id"),
    "network_cursor": BodyShape(
        {"agent_id": str, "last": str, "upto": int, "seen": int, "open": [str]}, "last upto seen open"
    ),
}
KINDS = {kind: KindSpec(body=shape, written_by="store", is_statement=False) for kind, shape in _SHAPES.items()}
"""The kinds of record that the hub writes. Signals of older stores are of the kind of news."""

_MODULES = {
    "lukasa.network.contract": "Network NetworkState News NewsType Peer RateLimitedNetwork SendReceipt",
    "lukasa.network.hub": "CURSOR_KIND MAX_INBOX NEWS_KIND NetworkHub",
}
__getattr__ = lazy_attributes(__name__, {name: module for module, names in _MODULES.items() for name in names.split()})
