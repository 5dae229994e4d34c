"""The producers of a topic: who may produce, under which name, in which access mode, and which of their messages are duplicates."""
