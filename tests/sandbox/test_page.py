"""The sandbox's page in a real browser: three people drive one incident from the command to the undo, by nothing but the page."""

import re
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from bot.sandbox.demo.incidents import incidents
from bot.sandbox.demo.world import World
from tests.needs import need

CHROMIUM = shutil.which("chromium") or ""
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
PATIENCE_MS = 60_000


@pytest.fixture
def page() -> Iterator[Page]:
    need(bool(CHROMIUM), "needs a browser: apt-get install -y chromium")
    world = World(ready=[each for each in incidents() if each.name in ("moe", "small")])
    try:
        address = world.start()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = browser.new_page(viewport={"width": 1500, "height": 1400})
            page.set_default_timeout(PATIENCE_MS)
            page.on("dialog", lambda dialog: dialog.accept())
            page.goto(address)
            yield page
            browser.close()
    finally:
        world.stop()


def become(page: Page, name: str) -> None:
    """Choose a person. The page draws its people when the sandbox's first state has arrived, which on a busy machine is after it has loaded."""
    person = page.locator("#person option", has_text=re.compile(rf"^{name}\b"))
    page.locator("#person").select_option(value=person.get_attribute("value"))  # get_attribute waits for it, a list of texts does not


def press(page: Page, words: str) -> None:
    page.locator("#thread-messages").get_by_role("button", name=words, exact=True).first.click()


@pytest.mark.browser
@pytest.mark.timeout(240)
def test_three_people_fix_and_undo_an_incident_on_the_page(page: Page) -> None:
    become(page, "Ana")
    page.locator("#draft").fill("/oom check deploy/moe -n llm")
    page.locator("#draft").press("Enter")
    thread = page.locator("#thread-messages")
    expect(thread).to_contain_text("Graph capture ran out of device memory", timeout=PATIENCE_MS)
    expect(page.locator("#messages")).to_contain_text("Only visible to you")

    become(page, "Jo")
    expect(page.locator("#messages")).not_to_contain_text("Only visible to you")
    press(page, "Apply")
    expect(thread).to_contain_text("--gpu-memory-utilization", timeout=PATIENCE_MS)
    press(page, "Approve")
    expect(thread).to_contain_text("another person must approve", timeout=PATIENCE_MS)

    become(page, "Wei")
    press(page, "Approve")
    expect(thread).to_contain_text("Verified", timeout=PATIENCE_MS)
    press(page, "Undo")
    become(page, "Jo")
    press(page, "Approve")
    expect(thread).to_contain_text("Undone", timeout=PATIENCE_MS)


@pytest.mark.browser
def test_a_command_that_cannot_be_understood_is_answered_on_the_page_to_its_author_alone(page: Page) -> None:
    become(page, "Ana")
    page.locator("#draft").fill("/oom chek deploy/moe")
    page.locator("#draft").press("Enter")
    expect(page.locator("#messages")).to_contain_text("check")
    expect(page.locator("#messages .ephemeral")).to_have_count(1)
    become(page, "Jo")
    expect(page.locator("#messages .ephemeral")).to_have_count(0)
