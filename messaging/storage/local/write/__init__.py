"""Appending: the queue, commits, segments, and the space for them."""
