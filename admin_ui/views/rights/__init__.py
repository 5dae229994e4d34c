"""Pages about who may do what."""
