"""Pulsar's admin REST API v2 and its HTTP lookup: the same truth and the same actions as our own API, in the shapes, status codes
and spellings that Pulsar's tools expect. What it offers is in docs/compatibility.md; anything else answers 404 or 405 with a
reason."""
