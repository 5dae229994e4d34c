"""How the browser of the tests is started."""

from __future__ import annotations

from playwright.sync_api import expect

expect.set_options(timeout=30_000)  # only a test that fails waits that long: on a busy machine a page needs more than the usual 5 s

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
