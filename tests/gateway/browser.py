"""A real browser, where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

needs_browser = pytest.mark.skipif(
    BROWSER is None or DRIVER is None,
    reason="no browser; install one with: apt-get install chromium chromium-driver",
)


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    assert BROWSER is not None
    options.binary_location = BROWSER
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1300,1500",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def complaints(driver: webdriver.Chrome) -> list[str]:
    """The errors on the browser's console."""
    entries: list[dict[str, str]] = driver.get_log("browser")  # type: ignore[no-untyped-call]
    return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]
