"""Personal data and secrets: find them in a text, refuse or redact a record that holds them."""
