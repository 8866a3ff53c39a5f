"""Answers under `tests/recordings`, read through their framing and their interface."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from proxy.formats import interface
from proxy.formats.event import JSON, Event, Usage
from proxy.framing import Framing, Payload, framing_of

FOLDER = Path(__file__).parent.parent / "recordings"


class Recording(NamedTuple):
    """An answer as `curl -i` shows it: status, Content-Type, body."""

    status: int
    content_type: str
    body: bytes


def recording(name: str) -> Recording:
    """The recording in the file of that name."""
    head, _, body = (FOLDER / name).read_bytes().partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {key.lower(): value.strip() for key, _, value in (ln.partition(":") for ln in lines)}
    return Recording(int(status.split()[1]), headers["content-type"], body)


def payloads(content_type: str, reads: list[bytes]) -> list[Payload]:
    """What the framing makes of a body that arrives in those reads."""
    framing = framing_of(content_type)
    assert framing is not None
    return [payload for data in reads for payload in framing.feed(data)] + framing.end()


def framing(content_type: str) -> Framing:
    """The framing of a Content-Type that has one."""
    found = framing_of(content_type)
    assert found is not None
    return found


def events(name: str, path: str, request: dict[str, JSON] | None = None) -> list[Event]:
    """The events of a recording, read as an answer to that request."""
    found = recording(name)
    face = interface(path)
    read = face.call(request or {}, path).reader or face.event
    return [
        event
        for body, kind in objects(payloads(found.content_type, [found.body]))
        if (event := read(body, kind)) is not None
    ]


def objects(found: list[Payload]) -> Iterator[tuple[dict[str, JSON], str]]:
    """Payloads that are JSON objects."""
    for data, name in found:
        if not data.startswith(b"[DONE]"):
            body = orjson.loads(data)
            if isinstance(body, dict):
                yield body, name.decode()


def last_usage(found: list[Event]) -> Usage:
    """Of each count the last that was given."""
    usage = Usage()
    for event in found:
        for field in ("prompt", "cached", "cache_written", "output", "reasoning", "total"):
            value = event.usage and getattr(event.usage, field)
            if value is not None:
                setattr(usage, field, value)
        usage.cached_beside |= event.usage is not None and event.usage.cached_beside
    return usage


def engine(found: list[Event]) -> dict[str, float]:
    """The last of each of the engine's figures."""
    return {key: value for event in found for key, value in (event.engine or {}).items()}
