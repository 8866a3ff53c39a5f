"""Which requests are let in: those that every server between here and the model reads alike.

The parser refuses most of what is ambiguous; this is the rest. What HAProxy and Envoy refuse by
default is refused here too. Sources: RFC 9112 sections 3.2 (Host, targets), 6.1 (transfer
codings), 2.3 (versions); RFC 9110 section 4.2.4 (no user in a target).
"""

import re

from proxy import errors
from proxy.errors import Failure
from proxy.headers import Pair

# Of a head: that of Envoy is 60 KiB and 100 headers.
MAX_HEAD_BYTES = 64 << 10
MAX_HEADERS = 256

# Methods are tokens (RFC 9110, 5.6.2); no server has long ones.
METHOD = re.compile(rb"[\r\n]*([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ")
METHOD_BEGUN = re.compile(rb"[\r\n]*[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}")
# RTSP's (RFC 2326, 10): the parser knows them, and refuses them in HTTP.
FOREIGN_METHODS = frozenset(
    b"ANNOUNCE DESCRIBE FLUSH GET_PARAMETER PAUSE PLAY RECORD REDIRECT SETUP SET_PARAMETER "
    b"TEARDOWN".split()
)
_HOST = re.compile(rb"(?:[\w.~%!$&'()*+;=-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?", re.ASCII)
_SCHEME = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)


def fault(version: str, target: bytes, headers: list[Pair]) -> Failure | None:
    """What is wrong with the head of a request that the parser took for HTTP; None if nothing is.

    Args:
        version: of HTTP, as `1.1`.
        target: the request target as it came.
    """
    if version not in ("1.1", "1.0"):
        return errors.VERSION
    size, hosts, codings = len(target), [], []
    for name, value in headers:  # one pass: every request takes it
        length = len(name)
        size += length + len(value) + 4
        if length == 4 and name.lower() == b"host":
            hosts.append(value)
        elif length == 17 and name.lower() == b"transfer-encoding":
            codings.append(value)
    if size > MAX_HEAD_BYTES or len(headers) > MAX_HEADERS:
        return errors.HEAD_TOO_LARGE
    if len(hosts) != 1 and (hosts or version == "1.1"):
        return errors.BAD_HOST
    if hosts and not _HOST.fullmatch(hosts[0].strip(b" \t")):
        return errors.BAD_HOST
    if codings and (problem := _coding(version, codings)):
        return problem
    return _targeting(target)


def _coding(version: str, codings: list[bytes]) -> Failure | None:
    """Only `chunked` is undone here, and sent on: nobody would undo the others."""
    if version == "1.0":  # which has none: who counts in another way smuggles requests
        return errors.BAD_REQUEST
    plain = len(codings) == 1 and codings[0].strip(b" \t").lower() == b"chunked"
    return None if plain else errors.BAD_CODING


def _targeting(target: bytes) -> Failure | None:
    if b"#" in target:  # some servers end the path there, others do not
        return errors.BAD_TARGET
    if target.startswith(b"/"):
        return None
    if (origin := _SCHEME.match(target)) and not (origin[1] and _HOST.fullmatch(origin[1])):
        return errors.BAD_TARGET
    return None
