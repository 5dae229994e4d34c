"""Client fleet: which clients are connected, with which libraries, and which of those have known problems."""
