import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.address import Upstream


def parsed(url: str, prefix: str = "/") -> Upstream:
    return Upstream.parse("default", url, prefix)


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://127.0.0.1:8000", ("http", "127.0.0.1", 8000, "")),
        ("http://vllm", ("http", "vllm", 80, "")),
        ("https://api.example.com/", ("https", "api.example.com", 443, "")),
        ("https://api.example.com:8443/v1/", ("https", "api.example.com", 8443, "/v1")),
        ("http://[::1]:8000/a%20b", ("http", "::1", 8000, "/a%20b")),
        ("HTTP://My_Host.:81", ("http", "my_host.", 81, "")),
    ],
)
def test_the_parts_of_a_url(url: str, parts: tuple[str, str, int, str]) -> None:
    found = parsed(url)
    assert (found.scheme, found.host, found.port, found.base) == parts


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("localhost:8000", "http://"),
        ("127.0.0.1:8000", "http://"),
        ("ftp://host", "http://"),
        ("http://", "host"),
        ("http://:80", "host"),
        ("http://host:0", "port"),
        ("http://host:65536", "from 1 to 65535"),
        ("http://host:x", "from 1 to 65535"),
        ("http://[::1", "such as http://127.0.0.1:8000"),
        ("http://host?", "leave out"),
        ("http://host/?a=b", "leave out"),
        ("http://host/#a", "leave out"),
        ("http://ho st", "plain ASCII"),
        ("http://h\u00f6st", "plain ASCII"),
        ("http://host\n", "plain ASCII"),
        ("http://-host", "host"),
        ("", "plain ASCII"),
    ],
)
def test_an_unusable_url_is_refused_with_a_remedy(url: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        parsed(url)


LABEL = "a" * 63
LONGEST = ".".join([LABEL, LABEL, LABEL, "a" * 61])  # 253 characters


@pytest.mark.parametrize("host", [LABEL, LONGEST, LONGEST + ".", "a.b.", "a_b.c-d", "1.2.3.4"])
def test_a_name_may_be_as_long_as_names_can_be(host: str) -> None:
    assert parsed(f"http://{host}:81").host == host


@pytest.mark.parametrize(
    "host", [LABEL + "a", f"x.{LABEL}a.y", LONGEST + "a", "a." * 128, "a" * 300, "a..b", "a..", "."]
)
@pytest.mark.parametrize("url", ["http://{}", "https://{}:8443/v1", "http://{}."])
def test_a_name_that_no_server_can_have_is_refused(url: str, host: str) -> None:
    with pytest.raises(ValueError, match="no usable host"):
        parsed(url.format(host))


@pytest.mark.parametrize("url", ["http://me:secret@host", "ftp://me:secret@host", "//x:secret@h"])
def test_a_password_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="leave user and password out") as refusal:
        parsed(url)
    assert "secret" not in str(refusal.value)


@given(st.text())
def test_any_text_is_a_url_or_refused_in_one_line(text: str) -> None:
    try:
        found = parsed(text)
    except ValueError as error:
        assert "\n" not in str(error)
    else:
        assert found.scheme in ("http", "https")


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://host", "host"),
        ("http://host:80", "host"),
        ("https://host:80", "host:80"),
        ("http://[::1]:8000", "[::1]:8000"),
    ],
)
def test_the_authority_leaves_out_the_usual_port(url: str, authority: str) -> None:
    assert parsed(url).authority == authority


def test_the_url_is_put_together_again() -> None:
    assert parsed("http://host:8000/base/").url == "http://host:8000/base"


@pytest.mark.parametrize(
    ("prefix", "expected"), [("/", "/"), ("/fast", "/fast"), ("/fast/", "/fast"), ("/a/b", "/a/b")]
)
def test_a_prefix_has_no_slash_at_its_end(prefix: str, expected: str) -> None:
    assert parsed("http://host", prefix).prefix == expected


@pytest.mark.parametrize("prefix", ["", "fast", "//", "/a//b", "/a?b", "/a#b", "/a b", "/\u00f6"])
def test_an_unusable_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        parsed("http://host", prefix)


@pytest.mark.parametrize("name", ["", "Fast", "a b", "a.b", "\u00f6"])
def test_an_unusable_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="use a-z"):
        Upstream.parse(name, "http://host")
