"""Forks, in a process of their own: what pytest holds open is not theirs to end."""

import subprocess
import sys

import pytest

FORK = """
import os, select, signal, sys, time
from proxy.child import Lifeline, fork
from proxy.settings import SettingError
SIGNALS = (signal.SIGTERM, signal.SIGINT)
lifeline = Lifeline()

def code_of(run):
    pid = fork("worker 0", run, SIGNALS, lifeline)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def bad(): raise SettingError("port: 99999 will not do")
def missing(): open("/nowhere/at/all")
def broken(): raise KeyError("surprise")
def leaving(): sys.exit(5)
"""


def python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", FORK + script], capture_output=True, text=True, timeout=30
    )


@pytest.mark.parametrize(
    ("run", "code", "said"),
    [
        ("lambda: None", 0, ""),
        ("bad", 2, "tokometer: port: 99999 will not do\n"),
        (
            "missing",
            1,
            "tokometer: worker 0: [Errno 2] No such file or directory: '/nowhere/at/all'\n",
        ),
        ("leaving", 5, ""),
    ],
)
def test_an_expected_end_is_an_exit_code_and_at_most_one_line(
    run: str, code: int, said: str
) -> None:
    result = python(f"print(code_of({run}))")
    assert (result.stdout, result.stderr) == (f"{code}\n", said)


def test_a_surprise_is_told_with_its_places_and_without_its_text() -> None:
    result = python("print(code_of(broken))")
    assert result.stdout == "1\n"
    first, *places = result.stderr.splitlines()
    assert first == "tokometer: worker 0 failed, please report: KeyError"
    assert places[-1].endswith(" broken")
    assert "surprise" not in result.stderr


def test_a_childs_title_is_its_name() -> None:
    result = python(
        "code_of(lambda: print(open('/proc/self/cmdline').read().rstrip('\\0'), flush=True))"
    )
    assert result.stdout == "tokometer: worker 0\n"


@pytest.mark.parametrize("number", ["SIGHUP", "SIGUSR1"])
def test_a_hangup_before_a_child_is_ready_does_not_end_it(number: str) -> None:
    hup = f"lambda: (os.kill(os.getpid(), signal.{number}), print('on', flush=True))"
    assert python(f"SIGNALS = (signal.{number},)\ncode_of({hup})").stdout == "on\n"


def test_who_follows_with_a_signal_can_finish_what_it_must() -> None:
    result = python(
        "def last(*_): print('last words', flush=True); os._exit(0)\n"
        "ready, up = os.pipe()\n"
        "def run():\n"
        "    signal.signal(signal.SIGQUIT, last)\n"
        "    lifeline.follow(signal.SIGQUIT)\n"
        "    print('up', flush=True)\n"
        "    os.write(up, b'.')\n"
        "    while True: signal.pause()\n"
        "pid = fork('a', run, SIGNALS, lifeline)\n"
        "os.read(ready, 1)\n"
        "os._exit(0)\n"
    )
    assert result.stdout == "up\nlast words\n"


def test_what_a_child_prints_is_not_lost_and_not_printed_twice() -> None:
    result = python("sys.stdout.write('p'); sys.stdout.flush(); code_of(lambda: print('c'))")
    assert result.stdout == "pc\n"


def test_a_child_has_default_handlers_and_a_process_group_of_its_own() -> None:
    result = python(
        "signal.signal(signal.SIGTERM, lambda *_: None)\n"
        "def tell(): print(signal.getsignal(signal.SIGTERM).name, os.getpgid(0) == os.getpid(),\n"
        "    SIGNALS[0] in signal.pthread_sigmask(signal.SIG_BLOCK, ()))\n"
        "code_of(tell)"
    )
    assert result.stdout == "SIG_DFL True False\n", result.stderr


# The child holds on to our end of the pipe: `python` returns when the child, too, is gone.
@pytest.mark.parametrize(
    "watch", ["lifeline.follow(); time.sleep(600)", "select.select([lifeline.end], [], [])"]
)
def test_a_child_can_end_when_its_parent_is_killed(watch: str) -> None:
    result = python(
        f"def run(): {watch}\n"
        "fork('worker 0', run, SIGNALS, lifeline)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert result.returncode == -9
