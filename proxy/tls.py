"""TLS on both sides: contexts made of PEM texts, which can be exchanged while they are in use."""

import contextlib
import ssl
from collections.abc import Callable, Iterator
from typing import Any

from proxy.papers import Paper, Papers, Read
from proxy.settings import SettingError
from proxy.shared import as_file

_PROTOCOLS = ["http/1.1"]  # ALPN


class _Latest(ssl.SSLContext):
    """Begins each connection with the context that it was given last.

    A context can be given another certificate, but forgets no authority, and its tickets would
    let in who was vouched for by one that no longer counts.
    """

    current: ssl.SSLContext

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """As of the context that is behind this one."""
        return self.current.wrap_bio(*args, **kwargs)


class Certificates:
    """A context, of what `read` gave last and `make` makes of it.

    Connections that are open keep what they began with. Raises SettingError.
    """

    def __init__(self, read: Read, make: Callable[[Papers], ssl.SSLContext]) -> None:
        self._read = read
        self._make = make
        self._papers = read()
        made = make(self._papers)
        self.context = _Latest(made.protocol)
        self.context.current = made

    def reload(self) -> None:
        """Take what there is now. Raises SettingError; then all stays as it was."""
        papers = self._read()
        if papers != self._papers:
            self.context.current = self._make(papers)
            self._papers = papers


def listening(read: Read) -> Certificates:
    """For the clients' side. With `client_ca` only clients that it vouches for come in.

    Raises SettingError.
    """
    return Certificates(read, _listening)


def connecting(read: Read, insecure: bool = False) -> Certificates:
    """For https upstreams: the system's trust, and `upstream_ca`; none is needed if `insecure`.

    Raises SettingError.
    """
    return Certificates(read, _believing if insecure else _connecting)


def _listening(papers: Papers) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    _load(context, papers, "tls_")
    if "client_ca" in papers:
        _trust(context, papers["client_ca"], "client_ca")
        context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(_PROTOCOLS)
    return context


def _connecting(papers: Papers) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if "upstream_ca" in papers:
        _trust(context, papers["upstream_ca"], "upstream_ca")
    if "upstream_cert" in papers:
        _load(context, papers, "upstream_")
    return context


def _believing(papers: Papers) -> ssl.SSLContext:
    context = _connecting(papers)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def check(cert: str | None, key: str | None, client_ca: str | None) -> None:
    """The listener's settings: whether they make sense together. Raises SettingError."""
    for name, value in (("tls_key", key), ("client_ca", client_ca)):
        if cert is None and value is not None:
            raise SettingError(f"{name} does nothing alone: give the certificate with --tls-cert")


def check_upstream(ca: str | None, cert: str | None, key: str | None, insecure: bool) -> None:
    """The settings for upstreams: whether they make sense together. Raises SettingError."""
    if key is not None and cert is None:
        raise SettingError(
            "upstream_key does nothing alone: give the certificate with --upstream-cert"
        )
    if insecure and ca is not None:
        raise SettingError(
            "upstream_insecure believes everybody, upstream_ca does not: leave one of them out"
        )


def _load(context: ssl.SSLContext, papers: Papers, side: str) -> None:
    """Loads the certificate and the key of a side; the key may be in the certificate's file."""
    cert = papers[f"{side}cert"]
    key = papers.get(f"{side}key", cert)
    named = f"{side}cert: {cert.path} with {'the key in it' if key is cert else key.path}"
    try:
        with _files(cert, key) as (cert_file, key_file):
            # Without a password an encrypted key would have somebody asked for it at the terminal.
            context.load_cert_chain(cert_file, key_file, password="")
    except ssl.SSLError as error:
        why = "they do not belong together" if "MISMATCH" in (error.reason or "") else "not usable"
        raise SettingError(
            f"{named}: {why}: give PEM files of a certificate and of its key, not encrypted"
        ) from None


def _trust(context: ssl.SSLContext, ca: Paper, setting: str) -> None:
    try:
        with _files(ca) as paths:
            context.load_verify_locations(*paths)
    except ssl.SSLError:
        raise SettingError(
            f"{setting}: no certificate in {ca.path}: give a PEM file of authorities' certificates"
        ) from None


@contextlib.contextmanager
def _files(*papers: Paper) -> Iterator[list[str]]:
    """Paths for OpenSSL, which takes texts from files alone."""
    with contextlib.ExitStack() as stack:
        try:
            paths = [stack.enter_context(as_file(one.text)) for one in papers]
        except OSError as error:
            raise SettingError(
                f"no place to put {papers[0].path} for a moment ({error.strerror}): raise the "
                "limit on descriptors (ulimit -n), or name a writable folder in TMPDIR"
            ) from None
        yield paths
