import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.credentials import shows, token
from proxy.papers import Paper, Papers
from proxy.settings import SettingError

TOKEN = b"0123456789abcdef:xyz"


def basic(user_and_password: bytes) -> bytes:
    return b"Basic " + base64.b64encode(user_and_password)


@pytest.mark.parametrize(
    "header",
    [
        b"Bearer " + TOKEN,
        b"bearer  " + TOKEN,
        basic(b"anybody:" + TOKEN),
        basic(b":" + TOKEN),
    ],
)
def test_who_has_the_token_is_let_in(header: bytes) -> None:
    assert shows(header, TOKEN)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        TOKEN,
        b"Bearer",
        b"Bearer " + TOKEN[:-1],
        b"Bearer " + TOKEN + b"x",
        b"Digest " + TOKEN,
        b"Basic " + TOKEN,
        basic(TOKEN),
        basic(TOKEN + b":"),
        b"Bearer \xff",
    ],
)
def test_who_has_not_is_not(header: bytes) -> None:
    assert not shows(header, TOKEN)


@given(st.binary())
def test_any_header_has_an_answer(header: bytes) -> None:
    assert shows(header, TOKEN) in (False, True)


def with_token(content: bytes) -> Papers:
    return {"admin_token_file": Paper("/a/file", content)}


def test_a_token_is_read_without_the_end_of_its_line() -> None:
    assert token(with_token(TOKEN + b"\r\n")) == TOKEN
    assert token({}) is None


@pytest.mark.parametrize("content", [b"", b"short", b"two words of a token here", b"\xff" * 20])
def test_what_is_no_token_is_refused_and_not_quoted(content: bytes) -> None:
    with pytest.raises(SettingError, match=r"/a/file must hold .*openssl rand") as refusal:
        token(with_token(content))
    assert "words" not in str(refusal.value) and "\n" not in str(refusal.value)
