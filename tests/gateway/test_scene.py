"""The page of a whole network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from smartpubsub.gateway.scene import MOVES_AT_ONCE, Scene
from smartpubsub.gateway.scene_server import scene_page
from smartpubsub.node.config_values import Endpoint
from smartpubsub.sim.traces.trace import Row
from tests.gateway.browser import browser, complaints, needs_browser

ROWS = [
    Row(10, "subscribe", 1, text="surf", subscription=1),
    Row(20, "publish", 0, event="e1", text="surf/price=15"),
    Row(30, "copy", 2, 0, event="e1"),
    Row(40, "copy", 1, 2, event="e1"),
    Row(41, "deliver", 1, event="e1", hops=2),
    Row(50, "fault", 2, kind="crash"),
]


@pytest.fixture
def scene() -> Scene:
    made = Scene("a test", 3, is_live=True, can_kill=True)
    made(ROWS)
    return made


@pytest.fixture
def url(scene: Scene, tmp_path: Path) -> Iterator[str]:
    with scene_page(scene, Endpoint("127.0.0.1", 0), tmp_path) as at:
        yield at


def test_a_trace_becomes_nodes_links_and_moves(scene: Scene) -> None:
    shown = scene.document(0)
    assert [node["is_up"] for node in shown["nodes"]] == [True, True, False]
    assert shown["nodes"][1]["wants"] == ["surf"]
    assert shown["links"] == [[0, 2, 1], [2, 1, 1]]
    assert [(move["from"], move["to"]) for move in shown["moves"]] == [(0, 2), (2, 1)]
    (event,) = shown["events"]
    assert (event["text"], event["publisher"], event["delivered"]) == ("surf/price=15", 0, 1)
    assert scene.document(shown["next"])["moves"] == []


def test_moves_come_in_parts(scene: Scene) -> None:
    scene([Row(60 + n, "copy", 1, 0, event="e1") for n in range(MOVES_AT_ONCE)])
    first = scene.document(0)
    assert len(first["moves"]) == MOVES_AT_ONCE
    assert [move["at_us"] for move in scene.document(first["next"])["moves"]] == [
        60 + MOVES_AT_ONCE - 2,
        60 + MOVES_AT_ONCE - 1,
    ]


def test_a_kill_is_passed_on_to_the_run(scene: Scene, url: str) -> None:
    assert httpx.get(f"{url}v1/network").json() == scene.document(0)
    assert httpx.post(f"{url}v1/network/1/kill").status_code == httpx.codes.ACCEPTED
    assert scene.kills.get_nowait() == 1
    assert httpx.post(f"{url}v1/network/3/kill").status_code == httpx.codes.NOT_FOUND
    headers = {"Origin": "http://elsewhere.example"}
    other = httpx.post(f"{url}v1/network/1/kill", headers=headers)
    assert other.status_code == httpx.codes.FORBIDDEN
    scene.can_kill = False
    assert httpx.post(f"{url}v1/network/1/kill").status_code == httpx.codes.CONFLICT


@needs_browser
def test_a_person_kills_a_node_and_looks_at_the_tree_of_an_event(scene: Scene, url: str) -> None:
    with browser() as page:
        wait = WebDriverWait(page, 60)
        page.get(url)
        wait.until(lambda page: "2 of 3 nodes up" in page.find_element(By.TAG_NAME, "header").text)
        page.find_element(By.CSS_SELECTOR, "[aria-label='Kill node 1']").click()
        assert scene.kills.get(timeout=60) == 1
        scene([Row(70, "fault", 1, kind="crash")])
        wait.until(lambda page: "1 of 3 nodes up" in page.find_element(By.TAG_NAME, "header").text)
        chosen = page.find_element(By.XPATH, "//button[code[text()='surf/price=15']]")
        chosen.click()
        wait.until(lambda _: chosen.get_attribute("aria-pressed") == "true")
        assert complaints(page) == []
