"""Agents share a store: one hands work over, one keeps a private note, and one that wrote false notes is quarantined.

Prints:
    ben's inbox: The login page is half done: finish it.
    ben can read ada's private note: False
    before quarantine: The release is on Monday.
    after quarantine: The release is on Friday.
"""

import tempfile
from pathlib import Path

import lukasa

with tempfile.TemporaryDirectory() as folder:
    store = Path(folder) / "team.db"
    with lukasa.open(store) as owner:
        ada, ben = owner.as_agent("ada"), owner.as_agent("ben")  # other processes: lukasa.open(store, agent="ada")

        ada.handoffs.create("ben", "The login page is half done: finish it.", git_state="branch login")
        print("ben's inbox:", ben.handoffs.inbox()[0].what_was_done)

        ada.remember("My draft lives in the attic folder.", scope="ada")  # only ada and the owner can read this
        found = ben.recall("Where does the draft live?").hits
        print("ben can read ada's private note:", any("attic" in hit.text for hit in found))

        ada.remember("The release is on Friday.")
        owner.as_agent("mallory").journal.write("note", "The release is on Monday.")
        print("before quarantine:", ben.recall("the release is on Monday").hits[0].text)
        owner.journal.quarantine("mallory", reason="false notes")  # owner.journal.release("mallory") shows them again
        print("after quarantine:", ben.recall("the release is on Monday").hits[0].text)
