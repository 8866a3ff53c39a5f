"""Embeddings: unit vectors that follow from the text, as numbers or in base64.

Source: OpenAI's API reference (create embeddings).
"""

import math
import random
import struct
from base64 import b64encode
from dataclasses import dataclass

from proxy.engine import ask, words
from proxy.engine.ask import Body
from proxy.engine.completions import prompts
from proxy.engine.wire import Payload

DIMENSIONS = 64


@dataclass(frozen=True, slots=True)
class EmbeddingAsk:
    """A request for embeddings."""

    model: str | None  # None: the first one served
    texts: tuple[str, ...]
    base64: bool
    dimensions: int

    @property
    def tokens(self) -> int:
        return sum(map(words.count_tokens, self.texts))


def read(body: Body) -> EmbeddingAsk:
    """The body of an embeddings request. Raises Refusal."""
    encoding = body.get("encoding_format") or "float"
    if encoding not in ("float", "base64"):
        raise ask.invalid("encoding_format", "must be float or base64")
    dimensions = ask.whole_number(body, "dimensions") or DIMENSIONS
    if dimensions > 8192:
        raise ask.invalid("dimensions", "must be 8192 or less")
    return EmbeddingAsk(ask.model(body), prompts(body, "input"), encoding == "base64", dimensions)


def embed(asked: EmbeddingAsk, model: str, seed: int) -> Payload:
    """The list of embeddings, one for each text."""
    data = []
    for index, text in enumerate(asked.texts):
        numbers = _vector(random.Random(f"{seed}/{text}"), asked.dimensions)
        embedding = _base64(numbers) if asked.base64 else numbers
        data.append({"object": "embedding", "index": index, "embedding": embedding})
    usage = {"prompt_tokens": asked.tokens, "total_tokens": asked.tokens}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def _vector(chance: random.Random, dimensions: int) -> list[float]:
    numbers = [chance.gauss(0, 1) for _ in range(dimensions)]
    length = math.hypot(*numbers)
    return [number / length for number in numbers]


def _base64(numbers: list[float]) -> str:
    """Little-endian 32-bit floats."""
    return b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
