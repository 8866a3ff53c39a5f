import os
import ssl
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from proxy.papers import Read, read
from proxy.settings import SettingError
from proxy.tls import Certificates, check, check_upstream, connecting, listening


class Files(NamedTuple):
    """PEM files of an authority and of a certificate with its key."""

    ca: str
    cert: str
    key: str


def files(folder: Path, authority: trustme.CA | None = None, name: str = "a") -> Files:
    authority = authority or trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    found = Files(*(str(folder / f"{name}.{kind}.pem") for kind in Files._fields))
    authority.cert_pem.write_to_path(found.ca)
    issued.private_key_pem.write_to_path(found.key)
    Path(found.cert).write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    return found


def reading(**paths: str | None) -> Read:
    """Reads these files, which are by name of their setting."""
    return lambda: read({name: path for name, path in paths.items() if path is not None})


def server_of(own: Files, client_ca: str | None = None) -> Certificates:
    return listening(reading(tls_cert=own.cert, tls_key=own.key, client_ca=client_ca))


def client_of(
    ca: str | None, cert: str | None = None, key: str | None = None, insecure: bool = False
) -> Certificates:
    return connecting(reading(upstream_ca=ca, upstream_cert=cert, upstream_key=key), insecure)


def shake(
    server: ssl.SSLContext,
    client: ssl.SSLContext,
    name: str = "127.0.0.1",
    session: ssl.SSLSession | None = None,
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a connection in memory. Raises ssl.SSLError where they do not agree."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(down, up, server_hostname=name, session=session)
    far = server.wrap_bio(up, down, server_side=True)
    for _ in range(4):
        for end in (near, far):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    far.write(b"x")  # with TLS 1.3 the client's certificate is looked at behind its handshake
    assert near.read(1) == b"x"
    return near, far


def serial(end: ssl.SSLObject) -> object:
    found = end.getpeercert()
    return found and found["serialNumber"]


def test_both_sides_agree_on_http_1_1(tmp_path: Path) -> None:
    own = files(tmp_path)
    client = client_of(own.ca).context
    client.current.set_alpn_protocols(["h2", "http/1.1"])
    near, _ = shake(server_of(own).context, client)
    assert near.selected_alpn_protocol() == "http/1.1"
    assert near.version() in ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_clients_without_the_right_certificate_stay_outside(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    own, others = files(tmp_path), files(tmp_path, name="b")
    server = server_of(own, own.ca).context
    server.maximum_version = version
    shake(server, client_of(own.ca, own.cert, own.key).context)
    for cert, key in ((None, None), (others.cert, others.key)):
        with pytest.raises(ssl.SSLError):
            shake(server, client_of(own.ca, cert, key).context)


def test_an_upstream_is_believed_with_its_authority_and_name_only(tmp_path: Path) -> None:
    own, others = files(tmp_path), files(tmp_path, name="b")
    server = server_of(own).context
    for ca, name in ((None, "127.0.0.1"), (others.ca, "127.0.0.1"), (own.ca, "example.com")):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake(server, client_of(ca).context, name)
    shake(server, client_of(None, insecure=True).context, "example.com")


def test_a_certificate_that_was_read_anew_is_shown(tmp_path: Path) -> None:
    authority = trustme.CA()
    own = files(tmp_path, authority)
    served = server_of(own)
    client = client_of(own.ca).context
    first = serial(shake(served.context, client)[0])
    files(tmp_path, authority)
    assert serial(shake(served.context, client)[0]) == first
    served.reload()
    assert serial(shake(served.context, client)[0]) != first


@pytest.mark.parametrize("broken", ["cert", "key"])
def test_what_cannot_be_read_anew_leaves_what_there_was(tmp_path: Path, broken: str) -> None:
    own = files(tmp_path)
    served = server_of(own)
    client = client_of(own.ca).context
    first = serial(shake(served.context, client)[0])
    others = files(tmp_path, name="b")
    replaced = Path(getattr(own, broken))
    replaced.write_bytes(Path(getattr(others, broken)).read_bytes())
    with pytest.raises(SettingError, match="do not belong together"):
        served.reload()
    assert serial(shake(served.context, client)[0]) == first


def test_without_files_there_is_nothing_to_take() -> None:
    served = client_of(None)
    first = served.context.current
    served.reload()
    assert served.context.current is first


def test_authorities_that_were_read_anew_take_the_place_of_the_old_ones(tmp_path: Path) -> None:
    own, old, new = (files(tmp_path, name=name) for name in ("own", "old", "new"))
    ca = tmp_path / "authorities"
    ca.write_bytes(Path(old.ca).read_bytes())
    server = server_of(own, str(ca))
    clients = [client_of(own.ca, one.cert, one.key).context for one in (old, new)]
    shake(server.context, clients[0])
    ca.write_bytes(Path(new.ca).read_bytes())
    server.reload()
    shake(server.context, clients[1])
    with pytest.raises(ssl.SSLError):
        shake(server.context, clients[0])


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_who_was_let_in_by_an_old_authority_is_asked_again(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    own, old, new = (files(tmp_path, name=name) for name in ("own", "old", "new"))
    ca = tmp_path / "authorities"
    ca.write_bytes(Path(old.ca).read_bytes())
    server = server_of(own, str(ca))
    client = ssl.create_default_context(cafile=own.ca)
    client.load_cert_chain(old.cert, old.key)
    client.maximum_version = version
    session = shake(server.context, client)[0].session
    again, _ = shake(server.context, client, session=session)
    assert again.session_reused
    ca.write_bytes(Path(new.ca).read_bytes())
    server.reload()
    with pytest.raises(ssl.SSLError):
        shake(server.context, client, session=session)


def test_an_upstream_is_believed_once_its_authority_is_read_anew(tmp_path: Path) -> None:
    own, others = files(tmp_path), files(tmp_path, name="b")
    ca = tmp_path / "authorities"
    ca.write_bytes(Path(others.ca).read_bytes())
    client = client_of(str(ca))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server_of(own).context, client.context)
    ca.write_bytes(Path(own.ca).read_bytes())
    client.reload()
    shake(server_of(own).context, client.context)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server_of(others).context, client.context)


def test_a_key_in_the_certificates_file_will_do(tmp_path: Path) -> None:
    own = files(tmp_path)
    both = tmp_path / "both.pem"
    both.write_bytes(Path(own.cert).read_bytes() + Path(own.key).read_bytes())
    server = listening(reading(tls_cert=str(both)))
    shake(server.context, client_of(own.ca).context)


def encrypted(key: str) -> str:
    plain: Any = load_pem_private_key(Path(key).read_bytes(), None)
    cipher = BestAvailableEncryption(b"password")
    sealed: bytes = plain.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, cipher)
    return sealed.decode()


@pytest.mark.parametrize("content", ["", "no PEM", "encrypted"])
def test_an_unusable_key_is_one_line_and_asks_for_no_password(tmp_path: Path, content: str) -> None:
    own = files(tmp_path)
    Path(own.key).write_text(encrypted(own.key) if content == "encrypted" else content)
    with pytest.raises(SettingError, match=r"^tls_cert: .*give PEM files") as problem:
        server_of(own)
    assert "\n" not in str(problem.value)
    with pytest.raises(SettingError, match=r"^upstream_cert: .*give PEM files"):
        client_of(None, own.cert, own.key)


def test_an_unusable_authority_is_named_by_its_setting(tmp_path: Path) -> None:
    own = files(tmp_path)
    with pytest.raises(SettingError, match=r"^client_ca: no certificate in "):
        server_of(own, own.key)
    with pytest.raises(SettingError, match=r"^upstream_ca: no certificate in "):
        client_of(own.key)


def test_settings_that_make_sense_together_are_not_complained_of() -> None:
    check(None, None, None)
    check("c", "k", "a")
    check_upstream("a", "c", "k", insecure=False)
    check_upstream(None, "c", "k", insecure=True)


def test_a_text_is_taken_where_there_is_no_file_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = files(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.delattr(os, "memfd_create", raising=False)
    shake(server_of(own, own.ca).context, client_of(own.ca, own.cert, own.key).context)
    assert list((tmp_path / "tmp").iterdir()) == []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(SettingError, match=r"^no place to put .*name a writable folder in TMPDIR$"):
        server_of(own)
