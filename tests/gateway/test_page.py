"""The page, clicked through in a real browser."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from smartpubsub.predicates.names import encode_name
from tests.gateway.browser import browser, complaints, needs_browser
from tests.gateway.serving import gateway_in_thread, served
from tests.node.hosts import run


@needs_browser
def test_a_person_subscribes_publishes_and_asks_why(tmp_path: Path) -> None:
    with gateway_in_thread(tmp_path) as url, browser() as page:
        wait = WebDriverWait(page, 30)
        page.get(url)
        wait.until(lambda page: "running" in page.find_element(By.TAG_NAME, "header").text)

        def click(text: str) -> None:
            page.find_element(By.XPATH, f"//button[text()='{text}']").click()

        page.find_element(By.NAME, "filter").send_keys("surf/price[10,20]")
        page.find_element(By.NAME, "sample").send_keys("surf/price=25")
        wait.until(lambda page: "wants price[10,20], event has price=25" in page.page_source)
        click("Subscribe")
        wait.until(lambda page: "live" in page.find_element(By.TAG_NAME, "table").text)
        for predicate in ("surf/price=30", "surf/price=15"):
            field = page.find_element(By.NAME, "predicate")
            field.clear()
            field.send_keys(predicate)
            click("Publish")
            wait.until(lambda page: "1 of 3 replicas" in page.page_source)
        wait.until(lambda page: "price=15" in page.find_element(By.CLASS_NAME, "events").text)
        assert "price=30" not in page.find_element(By.CLASS_NAME, "events").text
        click("Why?")
        wait.until(lambda page: "matches surf by surf" in page.page_source)
        click("End")
        wait.until(lambda page: not page.find_elements(By.XPATH, "//button[text()='End']"))
        assert complaints(page) == []


@needs_browser
def test_a_page_survives_a_restart_of_its_node(tmp_path: Path) -> None:
    with browser() as page:
        wait = WebDriverWait(page, 60)

        def header() -> str:
            return page.find_element(By.TAG_NAME, "header").text

        def events() -> str:
            return page.find_element(By.CLASS_NAME, "events").text

        def publish(url: str, price: int) -> None:
            httpx.post(
                f"{url}/v1/events?predicate=surf/price={price}", content=b""
            ).raise_for_status()
            wait.until(lambda _: f"price={price}" in events())

        with gateway_in_thread(tmp_path) as url:
            page.get(url)
            wait.until(lambda _: "running" in header())
            page.find_element(By.NAME, "filter").send_keys("surf")
            page.find_element(By.XPATH, "//button[text()='Subscribe']").click()
            wait.until(lambda page: "live" in page.find_element(By.TAG_NAME, "table").text)
            publish(url, 15)
        wait.until(lambda _: "the server of this page does not answer" in header())
        with gateway_in_thread(tmp_path, httpx.URL(url).port or 0) as url:
            wait.until(lambda _: "running" in header())
            wait.until(lambda page: "live" in page.find_element(By.TAG_NAME, "table").text)
            publish(url, 16)
            assert events().count("price=15") == 1  # The stream repeats it.


@needs_browser
def test_no_event_and_no_topic_runs_a_script_in_the_page(tmp_path: Path) -> None:
    script = "<img src=x onerror=document.title='attacked'>"
    vnode = {"type": "img", "props": {"src": "x", "onerror": "document.title='attacked'"}}
    with gateway_in_thread(tmp_path) as url, browser() as page:
        wait = WebDriverWait(page, 30)
        page.get(url)
        wait.until(lambda page: "running" in page.find_element(By.TAG_NAME, "header").text)
        title = page.title
        page.find_element(By.NAME, "filter").send_keys("surf")
        page.find_element(By.XPATH, "//button[text()='Subscribe']").click()
        wait.until(lambda page: "live" in page.find_element(By.TAG_NAME, "table").text)
        events = f"{url}/v1/events"
        for predicate, content, kind in (
            ("surf", script, "text/plain"),
            ("surf", json.dumps({**vnode, "constructor": None, "__k": None}), "application/json"),
            ("surf", json.dumps([vnode]), "application/json"),
            (f"surf/{encode_name(script)}", "as a name", "text/plain"),
        ):
            answer = httpx.post(
                events,
                params={"predicate": predicate},
                content=content,
                headers={"content-type": kind},
            )
            answer.raise_for_status()
        made = httpx.post(f"{url}/v1/topics", json={"name": script})
        made.raise_for_status()
        topic = made.json()["topic"]
        httpx.post(f"{url}/v1/topics/{topic}/events", content=script).raise_for_status()

        def text() -> str:
            return str(page.find_element(By.TAG_NAME, "body").text)

        wait.until(lambda _: "as a name" in text())
        of_topic = (By.XPATH, "//button[contains(text(), 'onerror')]")
        wait.until(lambda page: page.find_elements(*of_topic))
        page.find_element(*of_topic).click()
        wait.until(lambda page: page.find_elements(By.TAG_NAME, "circle"))
        assert script in text()
        assert page.find_elements(By.TAG_NAME, "img") == []
        assert page.title == title
        assert complaints(page) == []


@needs_browser
def test_a_topic_is_drawn_as_the_graph_that_it_is(tmp_path: Path) -> None:
    with gateway_in_thread(tmp_path) as url, browser() as page:
        made = httpx.post(f"{url}/v1/topics", json={"name": "news"}).json()
        for text in ("one", "two", "three"):
            httpx.post(f"{url}/v1/topics/{made['topic']}/events", content=text)
        wait = WebDriverWait(page, 30)
        page.get(url)
        wait.until(lambda page: page.find_elements(By.XPATH, "//button[text()='news']"))
        page.find_element(By.XPATH, "//button[text()='news']").click()
        wait.until(lambda page: len(page.find_elements(By.TAG_NAME, "circle")) == 3)
        assert len(page.find_elements(By.TAG_NAME, "line")) == 2


def test_the_page_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (_, _, http):
            page = await http.get("/")
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "http" not in page.text.replace("https://", "http://").replace("/page", "")
            script = await http.get("/page/page.js")
            assert script.headers["content-type"].startswith("text/javascript")
            for outside in ("/page/../app.py", "/page/%2e%2e/app.py", "/page/vendor"):
                assert (await http.get(outside)).status_code == httpx.codes.NOT_FOUND

    run(main)
