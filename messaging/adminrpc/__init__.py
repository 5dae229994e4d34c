"""The admin RPC: the typed interface by which web and workers call the broker."""
