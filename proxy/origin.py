"""Whom a request is from and which task it belongs to: as much of it as may leave the worker."""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from proxy.formats.event import JSON, mapping, text
from proxy.headers import Fields
from proxy.labels import clean

_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
# Where clients put their keys: the first that is there counts.
_KEYS = (b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key")
_SECRET = frozenset(("proxy-authorization", "cookie", *(name.decode() for name in _KEYS)))
_HASH_CHARACTERS = 16  # 64 bits: among a million keys no two are likely to be the same
# Of a user's name; what is longer than a label anyhow need not be looked through.
_MOST_CHARACTERS = 256


class Secret:
    """A key for hashes that nothing prints, compares or writes; empty is false."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes = b"") -> None:
        self._key = key

    def __bool__(self) -> bool:
        return bool(self._key)

    def __repr__(self) -> str:
        return "Secret(...)"

    def pseudonym(self, key: str) -> str:
        """Always the same for a key, and nothing from which it could be guessed: HMAC-SHA256."""
        return hmac.digest(self._key, key.encode(), "sha256").hex()[:_HASH_CHARACTERS]


API_KEY = "api-key"
BODY_USER = "body:user"
TRACEPARENT = "traceparent"
_HEADER = "header:"


def user_source(given: str) -> str:
    """What `--user-from` says. Raises ValueError that says what to give."""
    known = (API_KEY, BODY_USER)
    return given if given in known else _header(given, f"{API_KEY}, {BODY_USER}")


def task_source(given: str) -> str:
    """What `--task-from` says. Raises ValueError that says what to give."""
    return given if given == TRACEPARENT else _header(given, TRACEPARENT)


def _header(given: str, others: str) -> str:
    name = given.removeprefix(_HEADER).lower()
    if not given.startswith(_HEADER) or not _FIELD_NAME.fullmatch(name):
        raise ValueError(f"{given!r} will not do: give header:NAME, {others} or off")
    if name in _SECRET:
        raise ValueError(f"header {name} holds a secret: give another header, {others} or off")
    return _HEADER + name


def _name(source: str | None) -> bytes | None:
    """The header that a source names."""
    if source is None or not source.startswith(_HEADER):
        return None
    return source.removeprefix(_HEADER).encode()


class Origin(NamedTuple):
    """Of one request: the user as a label value, the task as a hash; None where it says nothing."""

    user: str | None = None
    task: str | None = None


_NOBODY = Origin()
Finder = Callable[[Fields, Mapping[str, JSON]], str | None]


class Origins:
    """Reads the origin of requests.

    Args:
        user, task: what `user_source` and `task_source` gave, None for not at all. A task by
            `traceparent` is known by its trace id, and not looked for here.
        secret: for what takes the place of API keys.
    """

    def __init__(
        self, user: str | None = None, task: str | None = None, secret: Secret | None = None
    ) -> None:
        self._user = _user_finder(user, secret or Secret()) if user else None
        self._task = _name(task)

    def of(self, fields: Fields, body: Mapping[str, JSON]) -> Origin:
        """The origin of a request with these headers and this JSON (`{}` where it is not read)."""
        if self._user is None and self._task is None:
            return _NOBODY
        user = self._user(fields, body) if self._user else None
        return Origin(user, _hash(fields[self._task]) if self._task else None)


def _user_finder(source: str, secret: Secret) -> Finder:
    if source == BODY_USER:
        return lambda fields, body: _label(_body_user(body))
    if name := _name(source):
        return lambda fields, body: _label(_utf8(fields[name]))
    return lambda fields, body: (key := _key(fields)) and secret.pseudonym(key)


def _label(value: str | None) -> str | None:
    return clean(value[:_MOST_CHARACTERS]) or None if value else None


def _utf8(value: str) -> str:
    """A header's value as who wrote the bytes will have meant them."""
    return value.encode("latin-1").decode("utf-8", "replace")


def _body_user(body: Mapping[str, JSON]) -> str | None:
    """OpenAI's `user`; Anthropic's `metadata.user_id`."""
    return text(body.get("user")) or text(mapping(body.get("metadata")).get("user_id"))


def _key(fields: Fields) -> str | None:
    """The API key. The same key is the same, whichever header it comes in."""
    for name in _KEYS:
        scheme, _, rest = fields[name].partition(" ")
        if key := rest.strip() if scheme.lower() == "bearer" else fields[name]:
            return key
    return None


def _hash(value: str) -> str | None:
    """Tasks are told apart by it, and nothing of the value is kept."""
    if not value:
        return None
    return hashlib.blake2b(value.encode(), digest_size=16).hexdigest()
