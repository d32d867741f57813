"""The programs in examples/ do what they say; the Spark job is tested with the pipeline."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from smartpubsub import connect
from tests.client.running import running_node
from tests.gateway.browser import browser, complaints, needs_browser
from tests.tidy.source import CHECKOUT

EXAMPLES = CHECKOUT / "examples"


@contextmanager
def started(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(EXAMPLES / program), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def output(program: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def node(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    with running_node(tmp_path) as url:
        yield tmp_path, url


@pytest.mark.parametrize("by", ["data", "url"])
def test_alerts_come_for_what_is_out_of_range(node: tuple[Path, str], by: str) -> None:
    folder, url = node
    where = ("--data", str(folder)) if by == "data" else ("--url", url)
    with started("alerts.py", *where, "--count", "2") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "watching\n"
        with connect(data=folder) as client:
            client.publish("greenhouse/temp=38", text="bed 7", wait="all")
            client.publish("greenhouse/temp=20/moisture=15", text="bed 8")
            client.publish("greenhouse/temp=20", text="bed 9")
        assert sorted(process.stdout.read().splitlines()) == [
            "too dry: greenhouse/temp=20/moisture=15 bed 8",
            "too hot: greenhouse/temp=38 bed 7",
        ]
        assert process.wait(60) == 0


def test_every_measurement_of_a_fleet_comes_once(node: tuple[Path, str]) -> None:
    said = output("sensor_fleet.py", "--data", str(node[0]), "--sensors", "5", "--rounds", "2")
    assert said.startswith("10 measurements of 5 sensors; the hottest: fleet/sensor=")


def test_an_archive_is_restored_on_another_node(tmp_path: Path) -> None:
    said = output("news_archive.py", str(tmp_path)).splitlines()
    assert [line.split("  ")[1] for line in said[:3]] == [
        "the harbour is open",
        "storm warning",
        "the storm is over",
    ]
    written = said[3].partition(" ")[0]
    assert said[4] == f"{written} blocks are valid"
    assert said[5].startswith("restored: ['the harbour is open', 'storm warning'")


def test_a_server_passes_on_what_its_page_may_do(node: tuple[Path, str]) -> None:
    with started("browser/serve.py", "--gateway", node[1], "--port", "0") as process:
        assert process.stdout is not None
        with httpx.Client(base_url=process.stdout.readline().strip(), timeout=30) as http:
            assert http.get("/v1/peers").status_code == httpx.codes.NOT_FOUND
            made = http.post("/v1/events", params={"predicate": "surf/price=1"}, content="a")
            assert made.status_code == httpx.codes.CREATED
            query = {"filter": "surf", "last": "1"}
            with http.stream("GET", "/v1/events", params=query) as answer:
                lines = answer.iter_lines()
                assert made.json()["id"] in next(line for line in lines if "data:" in line)


@needs_browser
def test_a_person_publishes_and_reads_on_the_page(node: tuple[Path, str]) -> None:
    with started("browser/serve.py", "--gateway", node[1], "--port", "0") as process:
        assert process.stdout is not None
        with browser() as page:
            wait = WebDriverWait(page, 60)
            page.get(process.stdout.readline().strip())
            wait.until(lambda page: "listening" in page.find_element(By.TAG_NAME, "p").text)
            page.find_element(By.TAG_NAME, "button").click()
            wait.until(
                lambda page: (
                    "surf/price=15: clean waves" in page.find_element(By.TAG_NAME, "ul").text
                )
            )
            assert complaints(page) == []
