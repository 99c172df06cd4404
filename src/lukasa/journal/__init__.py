"""The log as callers use it: reads, writes through the gate, history, undo, quarantine, erasure."""

from lukasa.journal.journal import ConditionalDrafts, ErasureReceipt, ImportReceipt, Journal, UndoResult

__all__ = ["ConditionalDrafts", "ErasureReceipt", "ImportReceipt", "Journal", "UndoResult"]
