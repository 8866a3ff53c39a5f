import math
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from engine.rig import FAST, running
from proxy.engine import EngineSettings


@pytest.fixture(scope="module")
def client() -> Iterator[OpenAI]:
    with (
        running(EngineSettings(**FAST)) as url,
        OpenAI(base_url=f"{url}/v1", api_key="-", max_retries=0) as connected,
    ):
        yield connected


def test_numbers_and_base64_say_the_same(client: OpenAI) -> None:
    texts = ["a boat", "a lamp"]
    # Left to itself, the client asks for base64 and decodes it.
    decoded = client.embeddings.create(model="sim-8b", input=texts)
    numbers = client.embeddings.create(model="sim-8b", input=texts, encoding_format="float")
    assert [entry.index for entry in decoded.data] == [0, 1]
    for one, other in zip(decoded.data, numbers.data, strict=True):
        assert list(one.embedding) == pytest.approx(other.embedding, rel=1e-6)
        assert math.hypot(*other.embedding) == pytest.approx(1)
    assert numbers.data[0].embedding != numbers.data[1].embedding
    assert (numbers.usage.prompt_tokens, numbers.usage.total_tokens) == (4, 4)


def test_a_text_keeps_its_vector_and_the_size_can_be_set(client: OpenAI) -> None:
    alone = client.embeddings.create(model="sim-8b", input="a boat", dimensions=5)
    among = client.embeddings.create(model="sim-8b", input=["x", "a boat"], dimensions=5)
    assert len(alone.data[0].embedding) == 5
    assert alone.data[0].embedding == among.data[1].embedding


@pytest.mark.parametrize(
    ("param", "value"),
    [("input", None), ("input", []), ("encoding_format", "hex"), ("dimensions", 9000)],
)
def test_what_cannot_be_embedded_is_refused(client: OpenAI, param: str, value: Any) -> None:
    ask: Any = {"model": "sim-8b", "input": "a boat"} | {param: value}
    with pytest.raises(openai.BadRequestError, match=param):
        client.embeddings.create(**ask)
