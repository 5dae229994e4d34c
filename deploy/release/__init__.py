"""A release: its archives, what they contain, and what changed. `make release`."""
