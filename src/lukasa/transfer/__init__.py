"""Transfer: export, import, copy, synchronise, back up and restore whole stores."""

from lukasa.journal.gate import KindSpec

KINDS = {kind: KindSpec(written_by="service", is_statement=False) for kind in ("sync_conflict", "sync_position")}
