"""Clients that are connected: who they belong to, what they opened, what they used, and what the audit log is told of them."""
