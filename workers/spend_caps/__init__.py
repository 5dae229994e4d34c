"""Spend caps: what a tenant may spend in a month, and what happens when it has: it is throttled, or its producers are refused."""
