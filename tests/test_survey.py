import asyncio
import time
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from test_facts import LLAMACPP, OLLAMA, PROPS, SGLANG, TEI, TGI, VLLM
from upstreams import knowing, sized

from proxy.address import Upstream
from proxy.caller import Caller
from proxy.facts import Facts
from proxy.survey import Survey, Unwell
from proxy.upstream import Transport


def answers(bodies: Mapping[str, Any], *fields: bytes) -> dict[str, bytes]:
    return {path: sized(orjson.dumps(body), *fields) for path, body in bodies.items()}


def survey(port: int) -> Survey:
    upstream = Upstream("up", "http", "127.0.0.1", port)
    return Survey(Caller(upstream, Transport(time.monotonic, 0.0)), 5)


# What a server answers to, what it is, and how many questions it takes to know that again.
SERVERS: list[tuple[dict[str, Any], Facts, list[str]]] = [
    (
        {"/v1/models": VLLM, "/version": {"version": "0.32.0"}},
        Facts("vllm", "0.32.0", ("tiny",)),
        ["/v1/models", "/version"],
    ),
    (
        # with a key that we have not
        {"/version": {"version": "0.32.0"}},
        Facts("vllm", "0.32.0"),
        ["/v1/models", "/version"],
    ),
    (
        {"/v1/models": LLAMACPP, "/props": PROPS},
        Facts("llama.cpp", "b6000-abc", ("gemma",)),
        ["/v1/models", "/props"],
    ),
    (
        {
            "/v1/models": {"data": [{"id": "llama3:latest", "owned_by": "library"}]},
            "/api/version": {"version": "0.9.1"},
        },
        Facts("ollama", "0.9.1", ("llama3:latest",)),
        ["/v1/models", "/api/version"],
    ),
    (
        {"/api/version": {"version": "0.1.14"}, "/api/tags": OLLAMA},
        Facts("ollama", "0.1.14", ("llama3:latest",)),
        ["/v1/models", "/api/version", "/api/tags"],
    ),
    ({"/info": TGI}, Facts("tgi", "2.0.4", ("bigscience/bloom",)), ["/v1/models", "/info"]),
    ({"/info": TEI}, Facts("tei", "1.5", ("BAAI/bge",)), ["/v1/models", "/info"]),
    (
        {
            "/v1/models": {"data": [{"id": "qwen", "owned_by": "sglang"}]},
            "/get_server_info": SGLANG,
        },
        Facts("sglang", "0.5.1", ("qwen",)),
        ["/v1/models", "/get_server_info"],
    ),
    (
        # a version, but of what?
        {
            "/v1/models": {"data": [{"id": "m", "owned_by": "somebody"}]},
            "/version": {"version": "7"},
        },
        Facts("", "7", ("m",)),
        ["/v1/models", "/version"],
    ),
]


@pytest.mark.parametrize(("bodies", "found", "again"), SERVERS)
def test_what_servers_are(bodies: dict[str, Any], found: Facts, again: list[str]) -> None:
    async def main() -> None:
        async with knowing(answers(bodies)) as up:
            asker = survey(up.port)
            assert await asker.facts() == found
            up.heard.clear()
            assert await asker.facts() == found
            assert [heard.target.decode() for heard in up.heard] == again

    asyncio.run(main())


def test_a_server_that_tells_nothing_is_nothing_and_well() -> None:
    async def main() -> None:
        async with knowing({}) as up:
            asker = survey(up.port)
            assert await asker.facts() == Facts()
            await asker.health()

    asyncio.run(main())


def test_who_told_nothing_is_asked_for_models_alone_unless_afresh() -> None:
    async def main() -> None:
        known = answers({"/v1/models": {"data": [{"id": "m"}]}})
        async with knowing(known) as up:
            asker = survey(up.port)
            assert await asker.facts(afresh=False) == Facts(models=("m",))
            assert len(up.heard) == 7
            up.heard.clear()
            assert await asker.facts(afresh=False) == Facts(models=("m",))
            assert [heard.target for heard in up.heard] == [b"/v1/models"]
            await asker.facts()
            assert len(up.heard) == 8
            known.update(answers({"/v1/models": VLLM, "/version": {"version": "1"}}))
            assert (await asker.facts(afresh=False)).version == "1"

    asyncio.run(main())


def test_a_server_header_is_enough_for_one_that_has_its_own() -> None:
    async def main() -> None:
        refused = sized(b"{}", b"Server: llama.cpp", status=b"401 Unauthorized")
        async with knowing({"/v1/models": refused}) as up:
            assert await survey(up.port).facts() == Facts("llama.cpp")

    asyncio.run(main())


def test_another_engine_at_the_same_address_is_found() -> None:
    async def main() -> None:
        known = answers({"/v1/models": VLLM, "/version": {"version": "0.32.0"}})
        async with knowing(known) as up:
            asker = survey(up.port)
            assert (await asker.facts()).engine == "vllm"
            known.clear()
            known.update(answers({"/v1/models": LLAMACPP, "/props": PROPS}))
            assert (await asker.facts()).engine == "llama.cpp"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("status", "well"),
    [
        (b"200 OK", True),
        (b"204 No Content", True),
        (b"302 Found", True),
        (b"401 Unauthorized", True),
        (b"404 Not Found", True),
        (b"501 Unsupported", True),
        (b"500 Internal Server Error", False),
        (b"502 Bad Gateway", False),
        (b"503 Service Unavailable", False),
        (b"504 Gateway Timeout", False),
    ],
)
def test_health_is_what_the_status_says(status: bytes, well: bool) -> None:
    async def main() -> None:
        async with knowing({"/health": sized(b"", status=status)}) as up:
            asker = survey(up.port)
            if well:
                await asker.health()
            else:
                with pytest.raises(Unwell):
                    await asker.health()

    asyncio.run(main())


def test_health_is_asked_in_the_way_of_the_engine() -> None:
    async def main() -> None:
        async with knowing(answers({"/info": TGI})) as up:
            asker = survey(up.port)
            await asker.facts()
            up.heard.clear()
            await asker.health()
            assert [heard.target for heard in up.heard] == [b"/info"]

    asyncio.run(main())


def test_a_server_that_is_loading_tells_nothing_and_is_not_well() -> None:
    async def main() -> None:
        loading = sized(b'{"error": {}}', b"Server: llama.cpp", status=b"503 Service Unavailable")
        async with knowing({"/v1/models": loading}) as up:
            with pytest.raises(Unwell):
                await survey(up.port).facts()

    asyncio.run(main())


def test_a_server_that_breaks_on_what_it_does_not_know_is_well() -> None:
    async def main() -> None:
        broken = sized(b"", status=b"500 Internal Server Error")
        busy = sized(b"", status=b"503 Service Unavailable")
        known = {"/v1/models": broken, "/props": busy, "/info": broken, "/api/version": busy}
        known |= answers({"/version": {"version": "1"}})
        async with knowing(known) as up:
            assert await survey(up.port).facts() == Facts("vllm", "1")

    asyncio.run(main())
