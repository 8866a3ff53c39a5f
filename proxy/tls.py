"""TLS on both sides: contexts made of PEM files, checked at the start, read anew on SIGHUP."""

import ssl

from proxy.settings import SettingError

_PROTOCOLS = ["http/1.1"]  # ALPN


class Certificates:
    """A context and the certificate that it shows, which can be read anew.

    Connections that are open keep what they began with.
    """

    def __init__(self, context: ssl.SSLContext, cert: str | None, key: str | None) -> None:
        self.context = context
        self._files = (cert, key) if cert is not None else None

    def reload(self) -> None:
        """Read the files again. Raises SettingError; then the old certificate stays."""
        if self._files is not None:
            _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), *self._files)  # half a load is lasting
            _load(self.context, *self._files)


def listening(cert: str, key: str | None, client_ca: str | None) -> Certificates:
    """For the clients' side. With `client_ca` only clients that it vouches for come in.

    Raises SettingError.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    _load(context, cert, key)
    if client_ca is not None:
        _trust(context, client_ca, "client_ca")
        context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(_PROTOCOLS)
    return Certificates(context, cert, key)


def connecting(ca: str | None, cert: str | None, key: str | None, insecure: bool) -> Certificates:
    """For https upstreams: the system's trust, and `ca`; none is needed if `insecure`.

    Raises SettingError.
    """
    context = ssl.create_default_context()
    if ca is not None:
        _trust(context, ca, "upstream_ca")
    if cert is not None:
        _load(context, cert, key, "upstream_")
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return Certificates(context, cert, key)


def check(cert: str | None, key: str | None, client_ca: str | None) -> None:
    """The listener's files, as they are named in the settings. Raises SettingError."""
    if cert is not None:
        listening(cert, key, client_ca)
        return
    for name, value in (("tls_key", key), ("client_ca", client_ca)):
        if value is not None:
            raise SettingError(f"{name} does nothing alone: give the certificate with --tls-cert")


def check_upstream(ca: str | None, cert: str | None, key: str | None, insecure: bool) -> None:
    """The files for upstreams, as they are named in the settings. Raises SettingError."""
    if key is not None and cert is None:
        raise SettingError(
            "upstream_key does nothing alone: give the certificate with --upstream-cert"
        )
    if insecure and ca is not None:
        raise SettingError(
            "upstream_insecure believes everybody, upstream_ca does not: leave one of them out"
        )
    if ca is not None or cert is not None:
        connecting(ca, cert, key, insecure)


def _load(context: ssl.SSLContext, cert: str, key: str | None, setting: str = "tls_") -> None:
    try:
        # Without a password an encrypted key would have somebody asked for it at the terminal.
        context.load_cert_chain(cert, key, password="")
    except ssl.SSLError as error:
        why = "they do not belong together" if "MISMATCH" in (error.reason or "") else "not usable"
        raise SettingError(
            f"{setting}cert: {cert} with {key or 'the key in it'}: {why}: give PEM files of a "
            f"certificate and of its key, not encrypted"
        ) from None
    except OSError as error:
        files = cert if key is None else f"{cert} or {key}"
        raise SettingError(_unreadable(f"{setting}cert", files, error)) from None


def _trust(context: ssl.SSLContext, ca: str, setting: str) -> None:
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError:
        raise SettingError(
            f"{setting}: no certificate in {ca}: give a PEM file of authorities' certificates"
        ) from None
    except OSError as error:
        raise SettingError(_unreadable(setting, ca, error)) from None


def _unreadable(setting: str, path: str, error: OSError) -> str:
    flag = "--" + setting.replace("_", "-")
    return f"{setting}: cannot read {path} ({error.strerror}): give a PEM file with {flag}"
