import copy
import hashlib
import hmac
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.headers import Fields
from proxy.labels import MAX_LABEL_CHARACTERS
from proxy.origin import Origin, Origins, Secret, task_source, user_source

KEY = "sk-live-0123456789abcdef"
SECRET = Secret(b"a secret of the operator")


def of(origins: Origins, body: Any = None, **headers: str) -> Origin:
    """The origin of a request; `_` stands for a dash in the names of headers."""
    pairs = [(name.replace("_", "-").encode(), v.encode("utf-8")) for name, v in headers.items()]
    return origins.of(Fields(pairs), body or {})


def user(source: str, body: Any = None, **headers: str) -> str | None:
    return of(Origins(user_source(source), None, SECRET), body, **headers).user


def task(source: str, **headers: str) -> str | None:
    return of(Origins(None, task_source(source)), **headers).task


def test_without_settings_nothing_is_told() -> None:
    assert of(Origins(), {"user": "ann"}, x_user="ann", authorization=f"Bearer {KEY}") == Origin()


def test_a_header_names_the_user_whatever_its_case() -> None:
    assert user("header:X-User", x_user="ann") == "ann"
    assert user("header:x-user", X_User="ann") == "ann"
    assert user("header:X-User") is None
    assert user("header:X-User", x_user="  ") is None


def test_a_header_is_made_fit_for_a_label() -> None:
    assert user("header:X-User", x_user="Jürgen") == "Jürgen"
    assert user("header:X-User", x_user="a\tb") == "a?b"
    assert user("header:X-User", x_user="x" * 10_000) == "x" * MAX_LABEL_CHARACTERS


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}"},
        {"authorization": f"bearer  {KEY}"},
        {"x_api_key": KEY},
        {"api_key": KEY},
        {"x_goog_api_key": KEY},
        {"authorization": "Bearer", "x_api_key": KEY},
    ],
)
def test_a_key_has_one_pseudonym_whichever_header_it_comes_in(headers: dict[str, str]) -> None:
    expected = hmac.new(b"a secret of the operator", KEY.encode(), hashlib.sha256).hexdigest()
    assert user("api-key", **headers) == expected[:16]


def test_other_keys_and_other_secrets_have_other_pseudonyms() -> None:
    assert user("api-key", x_api_key=KEY) != user("api-key", x_api_key=KEY + "x")
    other = Origins("api-key", None, Secret(b"another"))
    assert of(other, x_api_key=KEY).user != user("api-key", x_api_key=KEY)


def test_what_is_no_bearer_token_is_a_key_as_a_whole() -> None:
    assert user("api-key", authorization="Basic YTpi") == SECRET.pseudonym("Basic YTpi")


def test_no_key_is_no_user() -> None:
    assert user("api-key") is None
    assert user("api-key", authorization="Bearer ") is None
    assert user("api-key", {"user": "ann"}, x_user="ann") is None


def test_a_secret_is_not_printed_and_not_written() -> None:
    assert "operator" not in f"{SECRET} {SECRET!r} {copy.deepcopy(SECRET)!r}"
    with pytest.raises(TypeError):
        orjson.dumps(SECRET)
    assert SECRET
    assert not Secret()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"user": "ann"}, "ann"),
        ({"metadata": {"user_id": "ann"}}, "ann"),
        ({"user": "ann", "metadata": {"user_id": "bob"}}, "ann"),
        ({"user": "", "metadata": {"user_id": "bob"}}, "bob"),
        ({"user": "a\nb"}, "a?b"),
        ({"user": "x" * 100_000}, "x" * MAX_LABEL_CHARACTERS),
        ({"user": 7}, None),
        ({"user": {"id": "ann"}}, None),
        ({"metadata": "ann"}, None),
        ({"metadata": {"user_id": ["ann"]}}, None),
        ({}, None),
    ],
)
def test_a_body_names_its_user(body: dict[str, Any], expected: str | None) -> None:
    assert user("body:user", body, x_user="header") == expected


@given(st.binary(max_size=50))
def test_any_bytes_in_a_header_are_a_printable_user_or_none(value: bytes) -> None:
    fields = Fields([(b"x-user", value)])
    found = Origins("header:x-user", None).of(fields, {}).user
    assert found is None or (found.isprintable() and found == found.strip() != "")


def test_a_task_is_the_hash_of_its_header() -> None:
    found = task("header:X-Task", x_task="run 7 for ann")
    assert found == task("header:x-task", X_TASK="run 7 for ann")
    assert found is not None
    assert len(found) == 32
    assert "ann" not in found
    assert found != task("header:X-Task", x_task="run 8 for ann")
    assert task("header:X-Task") is None


def test_a_task_by_traceparent_is_known_by_its_trace_id() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert task("traceparent", traceparent=trace) is None


@pytest.mark.parametrize("source", ["header:", "header", "head:x", "header:a b", "x-user", "body"])
def test_an_unusable_source_says_what_to_give(source: str) -> None:
    for read, others in ((user_source, "api-key, body:user"), (task_source, "traceparent")):
        with pytest.raises(ValueError, match="will not do") as refusal:
            read(source)
        assert str(refusal.value) == (f"{source!r} will not do: give header:NAME, {others} or off")


@pytest.mark.parametrize("name", ["Authorization", "cookie", "x-api-key", "api-key"])
def test_a_header_with_a_secret_is_no_name(name: str) -> None:
    for read in (user_source, task_source):
        with pytest.raises(ValueError, match=f"header {name.lower()} holds a secret"):
            read(f"header:{name}")
