"""Whom a request is from: told where the settings say so, and no key is told of."""

from typing import Any

import orjson
import pytest
from clients import get, post
from proxy_rig import play, proxying
from upstreams import answering, sized

from proxy.origin import Origins, Secret
from proxy.relay import Rules

CHAT = b"/v1/chat/completions"
KEY = b"sk-live-0123456789abcdef"
ASKED = b'{"model":"m","messages":[],"user":"ann"}'
ANSWER = sized(b'{"model":"m","choices":[]}', b"Content-Type: application/json")
SECRET = Secret(b"a secret of the operator")


def told(rules: Rules, *requests: bytes) -> list[dict[str, Any]]:
    """All records of these requests, one after the other on one connection."""
    found: list[dict[str, Any]] = []

    async def main() -> None:
        answers = [ANSWER] * len(requests)
        async with answering(*answers) as upstream, proxying(upstream.port, rules=rules) as proxy:
            client = await proxy.client()
            for request in requests:
                client.send(request)
                assert await client.reader.readexactly(len(ANSWER)) == ANSWER
            await proxy.records.ends(len(requests))
            found.extend(dict(record) for record in proxy.records.all)

    play(main)
    return found


def origins(records: list[dict[str, Any]], key: str) -> list[str | None]:
    """What begins and ends say."""
    return [record.get(key) for record in records if record["kind"] in ("begin", "end")]


def test_a_key_leaves_the_worker_as_a_pseudonym_only(capfd: pytest.CaptureFixture[str]) -> None:
    rules = Rules(origins=Origins("api-key", None, SECRET))
    headers = [b"Authorization: Bearer " + KEY, b"x-api-key: " + KEY, b"X-Goog-Api-Key: " + KEY]
    records = told(rules, *(post(CHAT, ASKED, header) for header in headers))
    assert origins(records, "user") == [SECRET.pseudonym(KEY.decode())] * 6
    written = orjson.dumps(records) + "".join(capfd.readouterr()).encode()
    assert KEY[8:] not in written
    assert b"Bearer" not in written


def test_a_body_tells_its_user_where_it_is_read() -> None:
    rules = Rules(origins=Origins("body:user"), max_inspect_bytes=len(ASKED))
    long = ASKED[:-1] + b',"x":1}'
    records = told(rules, post(CHAT, ASKED), post(b"/other", ASKED), post(CHAT, b"["), get(b"/"))
    assert origins(records, "user") == ["ann", "ann"] + [None] * 6
    assert origins(told(rules, post(CHAT, long)), "user") == ["ann", "ann"]  # it was there at once


def test_a_user_is_not_told_where_none_is_asked_for() -> None:
    header = b"Authorization: Bearer " + KEY
    records = told(Rules(), post(CHAT, ASKED, header, b"X-Task: t"))
    assert origins(records, "user") + origins(records, "task") == [None] * 4


def test_a_header_tells_user_and_task() -> None:
    rules = Rules(origins=Origins("header:x-user", "header:x-task"))
    headers = (b"X-User: ann", b"X-Task: plan a trip")
    records = told(rules, post(CHAT, ASKED, *headers), get(b"/v1/models", *headers))
    assert origins(records, "user") == ["ann"] * 4
    assert len(set(origins(records, "task"))) == 1
    assert b"trip" not in orjson.dumps(records)
