import asyncio
import threading
from collections.abc import Iterator

import httpx
import pytest
from channel_rig import until
from prometheus_client.core import Metric
from starlette.testclient import TestClient

from proxy.admin import admin
from proxy.exposition import OPENMETRICS, TEXT
from proxy.metrics import Metrics


class Rig:
    """The application, what it is asked for, and whether it is ready."""

    def __init__(self) -> None:
        self.collected = 0
        self.reason: str | None = None
        self.client = TestClient(admin(self.collect, lambda: self.reason))

    def collect(self) -> list[Metric]:
        self.collected += 1
        return Metrics({}).collect()


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_metrics_are_text_for_a_browser_and_openmetrics_for_prometheus(rig: Rig) -> None:
    page = rig.client.get("/metrics", headers={"Accept": "text/html,*/*;q=0.8"})
    assert page.status_code == 200
    assert (
        page.headers["content-type"]
        == TEXT.media_type
        == "text/plain; version=0.0.4; charset=utf-8"
    )
    assert page.content == TEXT.render(Metrics({}).collect())
    accept = "application/vnd.google.protobuf,application/openmetrics-text;version=1.0.0;q=0.5"
    scrape = rig.client.get("/metrics", headers={"Accept": accept})
    assert scrape.headers["content-type"] == OPENMETRICS.media_type
    assert scrape.content.endswith(b"# EOF\n")


def test_health_never_depends_on_anything(rig: Rig) -> None:
    rig.reason = "no worker is connected"
    answer = rig.client.get("/healthz")
    assert (answer.status_code, answer.text) == (200, "ok\n")


def test_readiness_gives_its_reason(rig: Rig) -> None:
    assert rig.client.get("/readyz").status_code == 200
    rig.reason = "draining"
    answer = rig.client.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "draining\n")


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz", "/no-such-path"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_reading_is_allowed(rig: Rig, method: str, path: str) -> None:
    answer = rig.client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert rig.collected == 0


def test_head_is_answered_without_a_body(rig: Rig) -> None:
    for path in ("/metrics", "/healthz", "/readyz"):
        answer = rig.client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")


def test_other_paths_are_not_there(rig: Rig) -> None:
    assert rig.client.get("/no-such-path").status_code == 404


def test_many_scrapes_at_once_hold_few_copies_of_the_metrics() -> None:
    go_on = threading.Event()
    copies = 0

    class Slow(list[Metric]):
        def __iter__(self) -> Iterator[Metric]:
            go_on.wait(30)
            return super().__iter__()

    def collect() -> list[Metric]:
        nonlocal copies
        copies += 1
        return Slow()

    async def main() -> None:
        transport = httpx.ASGITransport(admin(collect, lambda: None))
        async with httpx.AsyncClient(transport=transport, base_url="http://a") as client:
            scrapes = [asyncio.ensure_future(client.get("/metrics")) for _ in range(20)]
            await until(lambda: copies)
            assert (await client.get("/healthz")).text == "ok\n"
            before = copies
            go_on.set()
            assert {(await scrape).status_code for scrape in scrapes} == {200}
            assert (before, copies) == (2, 20)

    asyncio.run(main())
