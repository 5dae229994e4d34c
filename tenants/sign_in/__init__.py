"""Signing in with a provider (OpenID Connect): which there are, what their claims give, and how long what they said holds.

Web process and workers use it; neither allauth nor Django's request is known here."""
