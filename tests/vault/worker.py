"""Functions that the concurrency tests run in separate processes."""

import json
import sys

import lukasa
from lukasa.vault import VaultSettings


def add(store, texts, **fields):
    with lukasa.open(store, profile=VaultSettings(capacity=1_000_000)) as memory:
        outcomes = [memory.vault.add_memory(text, **fields) for text in texts]
        return ["kept" if outcome else outcome.code for outcome in outcomes]


def bulk(store, texts, **fields):
    with lukasa.open(store, profile=VaultSettings(capacity=1_000_000)) as memory:
        items = [{"text": text, **fields} for text in texts]
        return ["kept" if outcome else outcome.code for outcome in memory.vault.bulk_add(items)]


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"add": add, "bulk": bulk}[sys.argv[1]](**json.loads(sys.argv[2]))))
