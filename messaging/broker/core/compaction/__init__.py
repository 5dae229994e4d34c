"""Topic compaction: which messages of a topic are the last of their key, and entries without the others. Pure."""
