"""Storage of messages and metadata: the interfaces `ledger_store` and `meta_store`, and their implementations."""
