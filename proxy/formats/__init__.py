"""Payloads of every interface to events, request bodies to calls: one file per family.

To add an interface: a pair of functions and a row (`event.Interface`) in a file of its own, the
file's `ROWS` in `TABLE`, and a recording under `tests/recordings/`.
"""

import re
from functools import lru_cache

from proxy.formats import embeddings, openai, responses
from proxy.formats.event import JSON, Call, Event, Interface


def _other_call(body: dict[str, JSON], path: str) -> Call:
    return Call("other")


def _other_event(payload: dict[str, JSON], name: str) -> Event | None:
    return None


OTHER = Interface("other", re.compile(r"\Z.\A"), _other_call, _other_event)

# The first row whose pattern ends the path wins.
TABLE: tuple[Interface, ...] = (*openai.ROWS, *responses.ROWS, *embeddings.ROWS)

# What `api` can be: one label value each (see the README's table of interfaces).
APIS = tuple(dict.fromkeys([*(row.api for row in TABLE), OTHER.api]))


@lru_cache(1024)
def interface(path: str) -> Interface:
    """The interface behind a request path, whatever prefix stands before it."""
    return next((row for row in TABLE if row.path_ends.search(path)), OTHER)
