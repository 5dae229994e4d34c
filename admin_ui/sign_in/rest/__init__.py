"""/api/v1: what the console has of people."""
