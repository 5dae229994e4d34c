"""Live tables: polling the broker for namespaces that somebody watches."""
