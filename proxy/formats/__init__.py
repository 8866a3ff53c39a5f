"""Payloads of every interface to events, request bodies to calls: one file per family.

To add an interface: a pair of functions and a row (`event.Interface`) in a file of its own, the
file's `ROWS` in `TABLE`, and a recording under `tests/recordings/` (see CONTRIBUTING.md).
"""

import re
from functools import lru_cache

from proxy.formats import (
    anthropic,
    audio,
    bedrock,
    cohere,
    embeddings,
    gemini,
    llamacpp,
    lmstudio,
    ollama,
    openai,
    rerank,
    responses,
    sglang,
    tgi,
)
from proxy.formats.event import JSON, Call, Event, Interface


def _other_call(body: dict[str, JSON], path: str) -> Call:
    return Call("other")


def _other_event(payload: dict[str, JSON], name: str) -> Event | None:
    return None


OTHER = Interface("other", re.compile(r"\Z.\A"), _other_call, _other_event)

# The first row whose pattern is found in the path wins: Ollama's `/api/embed` before `/embed`,
# its `/api/generate` before `/generate`, LM Studio's `/api/v1/chat` before Cohere's `/v1/chat`.
TABLE: tuple[Interface, ...] = (
    *openai.ROWS,
    *responses.ROWS,
    *anthropic.ROWS,
    *ollama.ROWS,
    *lmstudio.ROWS,
    *llamacpp.ROWS,
    *tgi.ROWS,
    *sglang.ROWS,
    *gemini.ROWS,
    *bedrock.ROWS,
    *cohere.ROWS,
    *embeddings.ROWS,
    *rerank.ROWS,
    *audio.ROWS,
)

# What `api` can be: one label value each (see the README's table of interfaces).
APIS = tuple(dict.fromkeys([*(row.api for row in TABLE), OTHER.api]))


# No interface has longer ones. All patterns go through a path, and the last ones are remembered.
_MAX_PATH_CHARACTERS = 4096


def interface(path: str) -> Interface:
    """The interface behind a request path (without its query), whatever prefix it has."""
    return OTHER if len(path) > _MAX_PATH_CHARACTERS else _interface(path)


@lru_cache(1024)
def _interface(path: str) -> Interface:
    return next((row for row in TABLE if row.path_ends.search(path)), OTHER)
