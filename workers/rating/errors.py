"""Errors of rating."""

from __future__ import annotations


class RatingError(ValueError):
    """A document that cannot be used; the message says which value is wrong and what is valid."""
