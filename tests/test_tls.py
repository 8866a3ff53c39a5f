import ssl
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

from proxy.settings import SettingError
from proxy.tls import check, check_upstream, connecting, listening


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


def shake(
    server: ssl.SSLContext, client: ssl.SSLContext, name: str = "127.0.0.1"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a connection in memory. Raises ssl.SSLError where they do not agree."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(down, up, server_hostname=name)
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
    client = connecting(own.ca, None, None, insecure=False).context
    client.set_alpn_protocols(["h2", "http/1.1"])
    near, _ = shake(listening(own.cert, own.key, None).context, client)
    assert near.selected_alpn_protocol() == "http/1.1"
    assert near.version() in ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_clients_without_the_right_certificate_stay_outside(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    own, others = files(tmp_path), files(tmp_path, name="b")
    server = listening(own.cert, own.key, own.ca).context
    server.maximum_version = version
    shake(server, connecting(own.ca, own.cert, own.key, insecure=False).context)
    for cert, key in ((None, None), (others.cert, others.key)):
        with pytest.raises(ssl.SSLError):
            shake(server, connecting(own.ca, cert, key, insecure=False).context)


def test_an_upstream_is_believed_with_its_authority_and_name_only(tmp_path: Path) -> None:
    own, others = files(tmp_path), files(tmp_path, name="b")
    server = listening(own.cert, own.key, None).context
    for ca, name in ((None, "127.0.0.1"), (others.ca, "127.0.0.1"), (own.ca, "example.com")):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake(server, connecting(ca, None, None, insecure=False).context, name)
    shake(server, connecting(None, None, None, insecure=True).context, "example.com")


def test_a_certificate_that_was_read_anew_is_shown(tmp_path: Path) -> None:
    authority = trustme.CA()
    own = files(tmp_path, authority)
    served = listening(own.cert, own.key, None)
    client = connecting(own.ca, None, None, insecure=False).context
    first = serial(shake(served.context, client)[0])
    files(tmp_path, authority)
    assert serial(shake(served.context, client)[0]) == first
    served.reload()
    assert serial(shake(served.context, client)[0]) != first


@pytest.mark.parametrize("broken", ["cert", "key"])
def test_what_cannot_be_read_anew_leaves_what_there_was(tmp_path: Path, broken: str) -> None:
    own = files(tmp_path)
    served = listening(own.cert, own.key, None)
    client = connecting(own.ca, None, None, insecure=False).context
    first = serial(shake(served.context, client)[0])
    others = files(tmp_path, name="b")
    replaced = Path(getattr(own, broken))
    replaced.write_bytes(Path(getattr(others, broken)).read_bytes())
    with pytest.raises(SettingError, match="do not belong together"):
        served.reload()
    assert serial(shake(served.context, client)[0]) == first


def test_without_a_certificate_of_our_own_there_is_nothing_to_read_anew() -> None:
    connecting(None, None, None, insecure=False).reload()


def test_a_key_in_the_certificates_file_will_do(tmp_path: Path) -> None:
    own = files(tmp_path)
    both = tmp_path / "both.pem"
    both.write_bytes(Path(own.cert).read_bytes() + Path(own.key).read_bytes())
    check(str(both), None, None)


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
        check(own.cert, own.key, None)
    assert "\n" not in str(problem.value)
    with pytest.raises(SettingError, match=r"^upstream_cert: .*give PEM files"):
        check_upstream(None, own.cert, own.key, insecure=False)


def test_an_unusable_authority_is_named_by_its_setting(tmp_path: Path) -> None:
    own = files(tmp_path)
    with pytest.raises(SettingError, match=r"^client_ca: no certificate in "):
        check(own.cert, own.key, own.key)
    with pytest.raises(SettingError, match=r"^upstream_ca: no certificate in "):
        check_upstream(own.key, None, None, insecure=False)
    with pytest.raises(SettingError, match=r"^client_ca: cannot read .* --client-ca$"):
        check(own.cert, own.key, str(tmp_path / "none"))


def test_files_that_are_well_are_not_complained_of(tmp_path: Path) -> None:
    own = files(tmp_path)
    check(None, None, None)
    check(own.cert, own.key, own.ca)
    check_upstream(own.ca, own.cert, own.key, insecure=False)
    check_upstream(None, own.cert, own.key, insecure=True)
