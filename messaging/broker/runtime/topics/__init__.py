"""Topics: `registry` loads, makes and deletes them; each is a `topic` with a `publisher` (socket to log)
and a `dispatcher` (log to consumers)."""
