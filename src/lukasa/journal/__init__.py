"""The log as callers use it: reads, writes through the gate, history, undo, quarantine, erasure."""

from lukasa.journal.caller_service import CallerService
from lukasa.journal.erasure import ErasureReceipt
from lukasa.journal.imports import ImportReceipt
from lukasa.journal.journal import Journal
from lukasa.journal.log_access import ConditionalDrafts
from lukasa.journal.undo import UndoResult

__all__ = ["CallerService", "ConditionalDrafts", "ErasureReceipt", "ImportReceipt", "Journal", "UndoResult"]
