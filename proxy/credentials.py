"""The admin listener's token: where it comes from, and who has shown it."""

import base64
import binascii
import hmac

from proxy.papers import Papers
from proxy.settings import SettingError

_LEAST_CHARACTERS = 16


def token(papers: Papers) -> bytes | None:
    """The token in the file for it, without white space around it; None if there is no such file.

    Raises SettingError.
    """
    if (paper := papers.get("admin_token_file")) is None:
        return None
    token = paper.text.strip()
    if len(token) < _LEAST_CHARACTERS or not all(33 <= byte <= 126 for byte in token):
        raise SettingError(
            f"admin_token_file: {paper.path} must hold one token of at least {_LEAST_CHARACTERS} "
            "visible characters: openssl rand -hex 32 makes one"
        )
    return token


def shows(authorization: bytes, token: bytes) -> bool:
    """Whether an `Authorization` header holds it: as bearer, or as password of any user.

    Browsers ask for a password where a page needs one; scrapers bring either. The time that this
    takes tells nothing of the token.
    """
    scheme, _, given = authorization.partition(b" ")
    given = given.strip()
    if scheme.lower() == b"basic":
        try:
            given = base64.b64decode(given, validate=True).partition(b":")[2]
        except binascii.Error:
            return False
    elif scheme.lower() != b"bearer":
        return False
    return hmac.compare_digest(given, token)
