"""Teamwork: the ledger of each agent, and work handed from one to another."""

from lukasa.teamwork.handoffs import HANDOFF, Handoff, Handoffs
from lukasa.teamwork.ledgers import LEDGER, Ledger, Ledgers

__all__ = ["HANDOFF", "LEDGER", "Handoff", "Handoffs", "Ledger", "Ledgers"]
