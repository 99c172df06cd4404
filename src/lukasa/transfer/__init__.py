"""Transfer: export, import, copy, back up and restore whole stores."""
