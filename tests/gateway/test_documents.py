"""The OpenAPI document is true: requests made from it get the answers that it declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from smartpubsub.gateway.documents import asyncapi
from tests.gateway.serving import gateway_in_thread

CONFORMANCE = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
STREAMS = {"stream_events", "stream_topic", "stream_subscription"}


def test_requests_made_from_the_document_are_answered_as_it_says(tmp_path: Path) -> None:
    with gateway_in_thread(tmp_path) as url, requests.Session() as session:
        judged = judge(url, session)
    assert judged > 100


def judge(url: str, session: requests.Session) -> int:
    """Send requests to all operations; return their number."""
    document = httpx.get(f"{url}/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    judged = 0
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        if operation.definition.raw["operationId"] in STREAMS:
            continue

        @settings(max_examples=8, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def check(case: Any) -> None:
            nonlocal judged
            if "deadline_s" in case.query:
                case.query["deadline_s"] = 1
            case.call_and_validate(base_url=url, session=session, timeout=30, checks=CONFORMANCE)
            judged += 1

        check()
    return judged


def test_the_asyncapi_document_names_its_messages() -> None:
    document = asyncapi()
    messages = document["channels"]["events"]["messages"]
    for operation in document["operations"].values():
        for message in operation["messages"]:
            assert message["$ref"].rpartition("/")[2] in messages
