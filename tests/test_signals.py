"""The queue of signals, in a process of its own: handlers belong to the whole process."""

import subprocess
import sys

from proxy.signals import TWICE

BEGIN = """
import os, signal, time
from proxy.signals import TWICE, Signals

def kill(*numbers):
    for number in numbers:
        os.kill(os.getpid(), number)
"""


def python(script: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", BEGIN + script], capture_output=True, text=True, timeout=30
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_signals_are_taken_out_one_by_one() -> None:
    assert (
        python(
            "signals = Signals(None)\n"
            "kill(signal.SIGHUP, signal.SIGTERM, signal.SIGHUP)\n"
            "print([signals.next() for _ in range(4)])"
        )
        == f"{[1, 15, 1, 0]}\n"
    )


def test_signals_that_other_servers_know_mean_the_same_here() -> None:
    assert (
        python(
            "signals = Signals(None)\n"
            "kill(signal.SIGUSR1, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1)\n"
            "print(*[int(signals.next()) for _ in range(4)])"
        )
        == "1 15 1 0\n"
    )


def test_two_stops_in_one_go_are_one() -> None:
    assert (
        python(
            "signals = Signals(None)\n"
            "kill(signal.SIGINT, signal.SIGTERM)\n"
            "print(signals.next(), signals.next())"
        )
        == "2 0\n"
    )


def test_a_later_stop_is_a_second_one() -> None:
    assert TWICE <= 0.2
    assert (
        python(
            "signals = Signals(None)\n"
            "kill(signal.SIGTERM)\n"
            "first = signals.next()\n"
            "time.sleep(TWICE * 1.5)\n"
            "kill(signal.SIGTERM)\n"
            "print(first, signals.next())"
        )
        == "15 15\n"
    )


def test_waiting_ends_with_a_signal_that_came_before() -> None:
    assert (
        python(
            "signals = Signals(None)\n"
            "kill(signal.SIGHUP, signal.SIGTERM)\n"
            "signals.wait(None)\n"
            "signals.next()\n"
            "signals.wait(None)\n"
            "print(signals.next())"
        )
        == "15\n"
    )


def test_the_end_of_a_child_wakes_and_is_no_signal_to_take() -> None:
    assert (
        python(
            "signals = Signals(None)\n"
            "if not os.fork(): os._exit(0)\n"
            "signals.wait(None)\n"
            "print(signals.next())"
        )
        == "0\n"
    )


def test_waiting_ends_after_its_time() -> None:
    assert python("signals = Signals(None); signals.wait(0.01); print(signals.next())") == "0\n"


def test_the_end_of_the_parent_is_a_stop_once() -> None:
    assert (
        python(
            "end, held = os.pipe()\n"
            "signals = Signals(end)\n"
            "signals.wait(0.01)\n"
            "print(signals.next())\n"
            "os.close(held)\n"
            "signals.wait(None)\n"
            "print(signals.next())\n"
            "time.sleep(TWICE * 1.5)\n"
            "signals.wait(0.01)\n"
            "print(signals.next())\n"
        )
        == "0\n15\n0\n"
    )


def test_a_hangup_of_the_terminal_is_a_stop() -> None:
    assert (
        python(
            "import pty, sys\n"
            "sys.stderr = open(pty.openpty()[1], 'w')\n"
            "signals = Signals(None)\n"
            "kill(signal.SIGHUP)\n"
            "print(signals.next())"
        )
        == "15\n"
    )
