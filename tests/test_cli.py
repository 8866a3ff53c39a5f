import subprocess
import sys
from pathlib import Path

import pytest
from test_weights import of_gguf

from proxy import __version__
from proxy.cli import COMMANDS, main


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int | str | None, str, str]:
    """Exit code, standard output and standard error."""
    try:
        code: int | str | None = main(arguments)
    except SystemExit as end:
        code = end.code
    return code, *capsys.readouterr()


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "--version") == (0, f"tokometer {__version__}\n", "")


def test_python_m_proxy_is_the_same_command() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "proxy", "--version"], capture_output=True, text=True, timeout=30
    )
    assert result.stdout == f"tokometer {__version__}\n"


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "--help")
    assert code == 0
    for name, command in COMMANDS.items():
        assert f" {name} " in out
        assert command.help.split()[0] in out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_lists_its_settings(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = said(capsys, name, "--help")
    assert code == 0
    for setting in COMMANDS[name].settings():
        assert f"  {setting.flag}" in out


def test_help_needs_no_server_code() -> None:
    heavy = "('uvicorn', 'httpx', 'asyncio', 'starlette', 'prometheus_client')"
    script = (
        "import sys; from proxy.cli import main\n"
        "try: main(['serve', '--help'])\n"
        f"finally: print([name for name in {heavy} if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30
    )
    assert result.stdout.endswith("[]\n"), result.stdout


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("serve", "no upstream: pass --upstream URL, such as --upstream http://127.0.0.1:8000"),
        ("serve --prot 80", "flag --prot: no such setting: did you mean --port?"),
        ("serve --prot=80", "flag --prot: no such setting: did you mean --port?"),
        ("serve --adm 80", "flag --adm: no such setting: leave it out"),
        ("serve here", "here: no such argument: leave it out"),
        ("serve --port 99999", "flag --port: '99999' will not do: give a whole number from 0 to"),
        ("serve --port", "argument --port: expected one argument"),
        ("serve http://a:80/?key=x", "a URL alone says nothing: write --upstream before it\n"),
        ("serve unix:/run/a", "a URL alone says nothing: write --upstream before it\n"),
        ("engine http://a", "http://a: no such argument: leave it out"),
        ("serve --config /no/such/file", "config: cannot read /no/such/file (No such file"),
        ("health --admin here", "admin: no such address: give one such as http://127.0.0.1:9464"),
        ("engine --rate fast", "flag --rate: 'fast' will not do: give a number"),
        (
            "demo --host unix:/run/a",
            "host: the demo has several ports: give an address",
        ),
        ("demo --seconds -3s", "flag --seconds: '-3s' will not do: give a duration such as 5"),
        ("serve --idle-timeout -3s", "flag --idle-timeout: '-3s' will not do: give a duration"),
        ("serve --max-inspect-bytes -1MiB", "flag --max-inspect-bytes: '-1MiB' will not do: give"),
        ("serve --objective-ttft -.5s", "flag --objective-ttft: '-.5s' will not do: give a"),
        ("serve --bits-per-weight -1e3", "flag --bits-per-weight: '-1e3' will not do: give a"),
        (
            "ceiling --memory-bandwidth -3GB/s",
            "flag --memory-bandwidth: '-3GB/s' is no device that is known here: give its bandwidth",
        ),
        ("serve --prot -3s", "flag --prot: no such setting: did you mean --port?"),
        ("serve -3s", "flag -3s: no such setting: leave it out"),
        (
            "serve --host -a",
            "argument --host: expected one argument: give it, behind a = if it begins with -",
        ),
        ("demo --seconds soon", "flag --seconds: 'soon' will not do: give a duration"),
        ("srve", "argument COMMAND: invalid choice: 'srve'"),
        ("", f"give a command: {', '.join(COMMANDS)} (tokometer --help says more)\n"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said(capsys, *arguments.split())
    assert code == 2
    assert out == ""
    assert err.startswith(f"tokometer: {line}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["a\nb"], ["serve", "a\nb"], ["serve", "--a\nb"], ["serve", "--port", "\x1b[31m"]]
)
def test_what_breaks_lines_is_quoted_without_breaking_any(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = said(capsys, *arguments)
    assert code == 2
    assert err.rstrip("\n").isprintable()


def test_a_bad_variable_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKOMETER_WORKERS", "many")
    code, _, err = said(capsys, "serve", "--upstream", "http://127.0.0.1:8000")
    assert code == 2
    assert err.startswith("tokometer: environment variable TOKOMETER_WORKERS: 'many' will not do")


def test_what_a_models_files_do_not_tell_is_said_before_serving(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = of_gguf(tmp_path / "m.gguf", {"blk.0.ffn_up_exps.weight": 320})
    monkeypatch.setattr("proxy.supervisor.serve", lambda config: 0)
    flags = ("--upstream", "http://h:1", "--weights", str(path))
    code, _, err = said(capsys, "serve", *flags)
    assert code == 0
    assert err == (
        "tokometer: weights: how many experts are used is not told: all of it is taken\n"
        "tokometer: no ceiling yet: give memory_bandwidth, such as 150GB/s or H200\n"
    )
    assert said(capsys, "serve", *flags, "--memory-bandwidth", "H200")[2].count("\n") == 1
