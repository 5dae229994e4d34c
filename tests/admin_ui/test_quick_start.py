"""The quick start as a new user takes it: a whole platform, a real browser, the copied program run as it is."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.support.brokers.standalone import Standalone
from tests.support.browsing import FLAGS

pytestmark = [pytest.mark.browser, pytest.mark.standalone, pytest.mark.xdist_group("browser")]
NAMESPACE = "/tenants/public/namespaces/default"


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    running = Standalone(tmp_path_factory.mktemp("quick-start") / "data").start()
    yield running
    running.close()


@pytest.fixture
def page(platform: Standalone, chromium: str) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_page(base_url=platform.ready["web_url"])
        page.goto("/")
        page.get_by_label("Name").fill(platform.ready["console_user"])
        page.get_by_label("Password").fill(Path(platform.ready["console_password_file"]).read_text().strip())
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.wait_for_url(re.compile("/now|/tenants"))
        yield page
        browser.close()


@pytest.mark.parametrize(("program", "topic"), [(1, "hello-python"), (3, "hello-sdk")])
def test_the_copied_program_runs_and_the_page_notices(program: int, topic: str, page: Page, tmp_path: Path) -> None:
    page.goto(f"{NAMESPACE}/quick-start")
    page.get_by_role("textbox", name="Topic").fill(topic)
    page.get_by_label("Name of the new key").fill(topic)
    page.get_by_role("button", name="Create key and program").click()
    news = page.locator("mag-quick-start")
    expect(news).to_contain_text("This page is watching the topic")
    file = tmp_path / "hello.py"
    file.write_text(page.locator(f"#program-{program}").text_content() or "")
    run = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert run.returncode == 0, run.stderr
    assert "received: Hello, Magnetar" in run.stdout
    expect(news).to_contain_text("Received 1 message")
    expect(news).to_contain_text("1 delivered to consumers")


def test_a_revoked_key_runs_no_program(page: Page, tmp_path: Path) -> None:
    page.goto(f"{NAMESPACE}/quick-start")
    page.get_by_label("Name of the new key").fill("short-lived")
    page.get_by_role("button", name="Create key and program").click()
    file = tmp_path / "hello.py"
    file.write_text(page.locator("#program-3").text_content() or "")
    page.goto("/tenants/public/keys")
    page.get_by_role("link", name="Revoke short-lived").click()
    page.get_by_label("Type short-lived to confirm").fill("short-lived")
    page.get_by_role("button", name="Revoke key").click()
    expect(page.get_by_role("row", name=re.compile("short-lived"))).to_contain_text("Revoked")
    run = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert run.returncode != 0 and "received" not in run.stdout


def test_the_page_finds_back_after_the_broker_and_the_web_process_died(page: Page, platform: Standalone) -> None:
    page.goto(NAMESPACE)
    status = page.locator("mag-live-status")
    expect(status).to_have_text("Live")
    kinds = page.evaluate_handle(
        """() => {
            const kinds = [], status = document.querySelector("mag-live-status");
            new MutationObserver(() => kinds.push(status.dataset.kind)).observe(status, { attributes: true });
            return kinds;
        }"""
    )
    platform.kill_child("broker")
    expect(status).to_have_text("Live", timeout=20_000)
    platform.kill_child("web")
    expect(status).to_have_text("Live", timeout=20_000)
    seen = kinds.json_value()
    assert "lost" in seen and seen[-1] == "live"
    page.reload()
    expect(status).to_have_text("Live", timeout=20_000)
