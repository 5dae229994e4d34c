"""Pulsar's admin REST API v2 and its HTTP lookup. They use the same models and actions as our own API, with the shapes, status
codes and spellings that Pulsar's tools expect. docs/compatibility.md lists what is supported; anything else answers 404 or 405 with
a reason.
"""
