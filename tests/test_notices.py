import os
import subprocess
import sys

import pytest

from proxy.notices import place, report, say, trace

SECRET = "sk-secret"


def broken() -> None:
    raise ValueError(f"could not convert {SECRET}")


def caught() -> ValueError:
    try:
        broken()
    except ValueError as error:
        return error
    raise AssertionError


def test_a_line_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    say("log: full")
    assert capfd.readouterr().err == "tokometer: log: full\n"


def test_the_place_of_a_failure_is_told_without_its_text() -> None:
    error = caught()
    assert place(error).startswith("ValueError in test_notices.py:")
    assert place(ValueError(SECRET)) == "ValueError"
    assert SECRET not in place(error)


def test_a_trace_names_the_way_there() -> None:
    first, *places = trace(caught()).splitlines()
    assert first == "ValueError"
    assert [place.split()[-1] for place in places] == ["caught", "broken"]
    assert SECRET not in trace(caught())


def test_what_an_event_loop_complains_of_is_not_quoted(capfd: pytest.CaptureFixture[str]) -> None:
    report(None, {"message": SECRET, "exception": caught(), "handle": SECRET})
    report(None, {"message": SECRET})
    first, second = capfd.readouterr().err.splitlines()
    assert first.startswith("tokometer: ValueError in test_notices.py:")
    assert second == "tokometer: an event loop's complaint, please report"


def test_pythons_own_last_words_do_not_quote_either() -> None:
    script = (
        "import threading; from proxy.notices import hush; hush()\n"
        "def broken(): raise ValueError('sk-secret')\n"
        "class Held:\n"
        "    def __del__(self): broken()\n"
        "thread = threading.Thread(target=broken); thread.start(); thread.join()\n"
        "held = Held(); del held\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30
    )
    assert done.stderr == "tokometer: ValueError in <string>:2, please report\n" * 2


@pytest.mark.parametrize("broken", ["os.close(2)", "sys.stderr = None", "sys.stderr.close()"])
def test_no_standard_error_is_no_failure(broken: str) -> None:
    script = f"import os, sys; from proxy.notices import say; {broken}; say('x'); os._exit(7)"
    assert subprocess.run([sys.executable, "-c", script], timeout=30).returncode == 7


def test_a_reader_that_is_gone_or_takes_nothing_stops_nobody() -> None:
    script = (
        "import os; from proxy.notices import say\n"
        "for _ in range(3000): say('x' * 100)\n"  # more than a pipe holds
        "os._exit(7)\n"
    )
    for reading in (True, False):
        reader, writer = os.pipe()
        if not reading:
            os.close(reader)
        try:
            command = [sys.executable, "-c", script]
            assert subprocess.run(command, stderr=writer, timeout=30).returncode == 7
        finally:
            os.close(writer)
            if reading:
                os.close(reader)
