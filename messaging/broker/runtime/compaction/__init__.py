"""Compactions of topics: which are due and under way (compactions.py), and what each reads and writes (session.py)."""
