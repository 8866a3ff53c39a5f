"""Elements of an array as they complete; known keys of a long object's ends."""

import json
import time
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.jsontext import MAX_ELEMENT_BYTES, Elements, edges, is_heavy, is_open

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def feed(elements: Elements, *reads: bytes) -> list[bytes]:
    return [found for data in reads for found in elements.feed(data)]


@settings(deadline=None)
@given(st.lists(ANY, max_size=6), st.sampled_from([None, 2]), st.booleans())
def test_the_objects_of_any_array_are_found(array: list[Any], indent: int, escape: bool) -> None:
    data = json.dumps(array, indent=indent, ensure_ascii=escape).encode(errors="surrogatepass")
    expected = [item for item in array if isinstance(item, dict)]
    assert [json.loads(found) for found in feed(Elements(), data)] == expected
    pieces = [data[i : i + 1] for i in range(len(data))]
    assert [json.loads(found) for found in feed(Elements(), *pieces)] == expected


def test_brackets_and_quotes_inside_texts_do_not_count() -> None:
    data = rb'[{"a":"}]\"{[\\"},{"\\\"":1}]'
    expected = [rb'{"a":"}]\"{[\\"}', rb'{"\\\"":1}']
    for cut in range(len(data)):
        assert feed(Elements(), data[:cut], data[cut:]) == expected


def test_an_element_comes_with_its_last_bracket() -> None:
    elements = Elements()
    assert elements.feed(b'[{"a":{"b":1}') == []
    assert elements.feed(b"}") == [b'{"a":{"b":1}}']


def test_an_element_that_is_too_long_is_left_out_and_the_next_is_read() -> None:
    long = b'{"a":"' + b"x" * MAX_ELEMENT_BYTES + b'"}'
    assert feed(Elements(), b"[" + long + b',{"b":1}]') == [b'{"b":1}']
    reads = [long[i : i + 4096] for i in range(0, len(long), 4096)]
    assert feed(Elements(), b"[", *reads, b',{"b":1}]') == [b'{"b":1}']


@settings(deadline=None)
@given(st.lists(st.sampled_from([b"[", b"]", b"{", b"}", b'"', b"\\", b"a", b","]), max_size=40))
def test_bytes_that_are_no_array_are_taken_and_cuts_do_not_matter(parts: list[bytes]) -> None:
    assert feed(Elements(), *parts) == feed(Elements(), b"".join(parts))


def test_known_keys_of_both_ends_are_put_together() -> None:
    head = b'{"model": "m-1", "usage":null, "data":[[0.5,'
    tail = b'0.5]],"usage" : {"prompt_tokens":8,"details":{"x":[1]}},"timings":{"prompt_n":3}}'
    assert orjson.loads(edges(head, tail)) == {
        "model": "m-1",
        "usage": {"prompt_tokens": 8, "details": {"x": [1]}},
        "details": {"x": [1]},
        "timings": {"prompt_n": 3},
    }


@pytest.mark.parametrize(
    "tail",
    [
        b'"usage":{"prompt_tokens":',  # cut off
        b'"usage":[1,2]}',  # neither a scalar nor an object
        b'\\"usage\\":{"prompt_tokens":8}"}',  # inside a text
        b'"usage" {"prompt_tokens":8}}',
        b'"prompt_eval_count":25',  # perhaps only the beginning of a number
        b'"usage":{"a":"' + b"x" * 9000 + b'"}}',
        b"",
    ],
)
def test_what_cannot_be_read_is_left_out(tail: bytes) -> None:
    assert edges(b"{", tail) == b"{}"


def test_scalars_of_every_kind_are_read() -> None:
    tail = b'"done":true,"error":null,"model":"a\\"b","eval_count":-1.5e3,"stop":false}'
    assert orjson.loads(edges(b"{", tail)) == {
        "done": True,
        "error": None,
        "model": 'a"b',
        "eval_count": -1500.0,
        "stop": False,
    }


@settings(deadline=None)
@given(st.text(max_size=200), st.integers(0, 300), st.integers(0, 300))
def test_ends_of_a_long_text_in_an_answer_add_no_keys(text: str, first: int, last: int) -> None:
    body = orjson.dumps({"id": text, "content": ['"usage":{"prompt_tokens":1},' + text] * 3})
    assert edges(body[:first], body[-last:] if last else b"") == b"{}"


@settings(deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_are_taken(head: bytes, tail: bytes) -> None:
    edges(head + b'"usage":' + tail, tail)


KEYS = b"".join(b'"%b":{' % key for key in (b"usage", b"timings", b"stats", b"meta", b"error"))


@pytest.mark.parametrize(
    "inside", [b'"' + b'\\"' * 30_000, b'"a' * 30_000, b'{"a":' * 12_000, b"[" * 60_000]
)
def test_a_value_that_never_ends_costs_about_what_a_text_costs_that_has_none(
    inside: bytes,
) -> None:
    def cost(text: bytes) -> float:
        def once() -> float:
            start = time.process_time()
            assert edges(text, text) == b"{}"
            return time.process_time() - start

        return min(once() for _ in range(5))

    plain = b"1" * (len(KEYS) + len(inside))
    assert cost(KEYS + inside) < 100 * cost(plain)


def test_texts_with_escapes_are_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.jsontext._MAX_STEPS", 50)
    element = b'{"a":"%b","b":"\\\\"}' % (b'\\"{' * 1000)
    cuts = range(0, len(element), 7)
    assert feed(Elements(), b"[" + element + b"]") == [element]
    assert feed(Elements(), b"[", *(element[at : at + 7] for at in cuts), b"]") == [element]


def test_many_values_are_heavy_and_one_long_text_is_not() -> None:
    assert is_heavy(b"[" + b"1," * 300_000 + b"1]")
    assert is_heavy(b"[" + b"[]," * 200_000 + b"[]]")
    assert not is_heavy(b'{"image":"' + b"A" * 4_000_000 + b'"}')
    assert is_heavy(b'{"image":"' + b"A" * 5_000_000 + b'"}')
    assert not is_heavy(b"[" + b"1," * 1000 + b"1]")


@pytest.mark.parametrize("value", ["", 'a "quoted" } \\ text ]', [[], {}, [{"b": "]"}]], {"b": {}}])
def test_a_text_is_open_until_its_last_bracket(value: object) -> None:
    text = json.dumps({"a": value}).encode()
    assert not is_open(text)
    assert all(is_open(text[:end]) for end in range(1, len(text)))
