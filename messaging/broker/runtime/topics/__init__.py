"""Topics: `registry` loads, makes and deletes them; each is a `topic` with an `inlet` (socket to log) and an `outlet` (back)."""
