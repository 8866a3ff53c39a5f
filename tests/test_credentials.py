import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.credentials import read_token, shows
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


def test_a_token_is_read_without_the_end_of_its_line(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(TOKEN + b"\r\n")
    assert read_token(str(tmp_path / "t")) == TOKEN


@pytest.mark.parametrize("content", [b"", b"short", b"two words of a token here", b"\xff" * 20])
def test_what_is_no_token_is_refused_and_not_quoted(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(SettingError, match="openssl rand") as refusal:
        read_token(str(tmp_path / "t"))
    assert "words" not in str(refusal.value) and "\n" not in str(refusal.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"admin_token_file: cannot read .*No such file"):
        read_token(str(tmp_path / "t"))
