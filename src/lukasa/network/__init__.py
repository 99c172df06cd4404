"""The network of agents: its contract, the hub in a store, and in ``lukasa.network.http`` a client of a hub
behind HTTP."""

from __future__ import annotations

from lukasa.network.contract import Network, NetworkState, News, NewsType, Peer, RateLimitedNetwork, SendReceipt
from lukasa.network.hub import CURSOR_KIND, KINDS, MAX_INBOX, NEWS_KIND, NetworkHub

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
