"""Who may read the admin listener."""

import ipaddress

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.credentials import read_token, shows
from proxy.notices import place, say
from proxy.settings import SettingError

# For load balancers and container runtimes, which have no token; they tell one word.
_OPEN = ("/healthz", "/readyz")
_CHALLENGE = 'Basic realm="tokometer", charset="UTF-8"'  # what browsers ask their user for


class Guard:
    """Lets requests through to the admin application, or answers them itself.

    Args:
        token_file: of the token that has to be shown; None if everybody may read.
        local: the listener is on loopback. Then, without a token, the Host must be an address or
            localhost: a web page that somebody here looks at can have its own name point to
            loopback, and would otherwise read along.

    Raises: SettingError.
    """

    def __init__(self, token_file: str | None, local: bool) -> None:
        self._token_file = token_file
        self._token = read_token(token_file) if token_file is not None else None
        self._local = local

    def reload(self) -> None:
        """Read the token anew; where that fails the old one stays."""
        if self._token_file is not None:
            try:
                self._token = read_token(self._token_file)
            except SettingError as problem:
                say(f"the admin listener keeps the token that it has: {problem}")

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application behind this guard."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await (self._refusal(scope) or app)(scope, receive, send)
            except Exception as error:  # the server answers 500, and has no words for it
                say(f"{place(error)} in the admin listener, please report")
                raise

        return guarded

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        if scope["type"] != "http" or scope["path"] in _OPEN:
            return None
        headers = Headers(scope=scope)
        if self._token is not None:
            if shows(headers.get("authorization", "").encode("latin-1"), self._token):
                return None
            challenge = {"WWW-Authenticate": _CHALLENGE}
            return PlainTextResponse("a token is needed: see --admin-token-file\n", 401, challenge)
        if self._local and not is_own(headers.get("host", "")):
            return PlainTextResponse("ask for localhost or an address of this machine\n", 421)
        return None


def is_own(host: str) -> bool:
    """Whether a Host header is none that somebody else's DNS could have made."""
    name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    if not name or name.lower().rstrip(".") == "localhost":
        return True
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return False
