"""Who may read the admin listener."""

import ipaddress

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.credentials import shows, token
from proxy.notices import place, say
from proxy.papers import Read

# For load balancers and container runtimes, which have no token; they tell one word.
_OPEN = ("/healthz", "/readyz")
_CHALLENGE = 'Basic realm="tokometer", charset="UTF-8"'  # what browsers ask their user for


class Guard:
    """Lets requests through to the admin application, or answers them itself.

    Args:
        read: gives the file of the token that has to be shown, if there is one; without a token
            everybody may read.
        local: the listener is on loopback. Then, without a token, the Host must be an address or
            localhost: a web page that somebody here looks at can have its own name point to
            loopback, and would otherwise read along.

    Raises: SettingError.
    """

    def __init__(self, read: Read, local: bool) -> None:
        self._read = read
        self._token = token(read())
        self._local = local

    def reload(self) -> None:
        """Take the token that counts now. Raises SettingError if it is none."""
        self._token = token(self._read())

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
