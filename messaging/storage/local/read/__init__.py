"""Reading entries: where they are, and fetching them."""
