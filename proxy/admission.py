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
METHOD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ")
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
    if len(headers) > MAX_HEADERS or _size(target, headers) > MAX_HEAD_BYTES:
        return errors.HEAD_TOO_LARGE
    hosts = [value for name, value in headers if len(name) == 4 and name.lower() == b"host"]
    if len(hosts) != 1 and (hosts or version == "1.1"):
        return errors.BAD_HOST
    if not all(_HOST.fullmatch(host.strip(b" \t")) for host in hosts):
        return errors.BAD_HOST
    return _coding(version, headers) or _targeting(target)


def _size(target: bytes, headers: list[Pair]) -> int:
    return len(target) + sum(len(name) + len(value) + 4 for name, value in headers)


def _coding(version: str, headers: list[Pair]) -> Failure | None:
    """Only `chunked` is undone here, and sent on: nobody would undo the others."""
    codings = [v.strip(b" \t").lower() for n, v in headers if n.lower() == b"transfer-encoding"]
    if not codings:
        return None
    if version == "1.0":  # which has none: who counts in another way smuggles requests
        return errors.BAD_REQUEST
    return None if codings == [b"chunked"] else errors.BAD_CODING


def _targeting(target: bytes) -> Failure | None:
    if b"#" in target:  # some servers end the path there, others do not
        return errors.BAD_TARGET
    if (origin := _SCHEME.match(target)) and not (origin[1] and _HOST.fullmatch(origin[1])):
        return errors.BAD_TARGET
    return None
