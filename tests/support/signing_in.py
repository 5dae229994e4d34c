"""Signing in by the page, as a person does."""

from __future__ import annotations

from playwright.sync_api import Page


def sign_in(page: Page, username: str, password: str) -> None:
    page.get_by_label("Name").fill(username)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()
