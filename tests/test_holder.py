from pathlib import Path

import pytest
from test_tls import Files, files

from proxy.holder import Holder
from proxy.papers import MOST_BYTES
from proxy.settings import SettingError

TOKEN = "0123456789abcdef"


def paths(own: Files, token: Path) -> dict[str, str]:
    listener = {"tls_cert": own.cert, "tls_key": own.key, "client_ca": own.ca}
    upstreams = {"upstream_cert": own.cert, "upstream_key": own.key, "upstream_ca": own.ca}
    return {**listener, **upstreams, "admin_token_file": str(token)}


@pytest.fixture
def own(tmp_path: Path) -> Files:
    return files(tmp_path)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    return path


def test_files_are_held_until_they_are_read_again(own: Files, token: Path) -> None:
    holder = Holder(paths(own, token))
    before = holder.now()
    assert {setting: paper.path for setting, paper in before.items()} == paths(own, token)
    assert before["client_ca"].text == Path(own.ca).read_bytes()
    token.write_text("fedcba9876543210")
    assert holder.now() == before
    holder.reload()
    assert holder.now()["admin_token_file"].text == b"fedcba9876543210"


@pytest.mark.parametrize("setting", ["tls_cert", "tls_key", "client_ca", "admin_token_file"])
@pytest.mark.parametrize("content", [None, "no such thing"])
def test_what_will_not_do_is_said_in_one_line_and_the_old_one_stays(
    own: Files,
    token: Path,
    setting: str,
    content: str | None,
    capfd: pytest.CaptureFixture[str],
) -> None:
    given = paths(own, token)
    del given["upstream_cert"], given["upstream_key"], given["upstream_ca"]
    holder = Holder(given)
    before = holder.now()
    if content is None:
        Path(given[setting]).unlink()
    else:
        Path(given[setting]).write_text(content)
    holder.reload()
    assert holder.now() == before
    said = capfd.readouterr().err
    assert said.startswith(f"tokometer: nothing new is taken: {setting.replace('key', '')}"[:40])
    assert given[setting] in said
    assert said.count("\n") == 1
    with pytest.raises(SettingError):
        Holder(given)


def test_what_is_of_another_kind_is_taken_all_the_same(own: Files, token: Path) -> None:
    holder = Holder(paths(own, token))
    Path(own.key).unlink()
    token.write_text("fedcba9876543210")
    holder.reload()
    assert holder.now()["admin_token_file"].text == b"fedcba9876543210"
    assert holder.now()["tls_key"].text.startswith(b"-----BEGIN")


def test_the_largest_files_have_room(own: Files, token: Path) -> None:
    for path in {*own, str(token)}:
        content = Path(path).read_bytes()
        Path(path).write_bytes(content + b"\n" * (MOST_BYTES - len(content)))
    holder = Holder(paths(own, token))
    assert {len(paper.text) for paper in holder.now().values()} == {MOST_BYTES}


def test_without_files_there_is_nothing_to_hold() -> None:
    holder = Holder({})
    holder.reload()
    assert holder.now() == {}
