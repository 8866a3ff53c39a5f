"""The demo's processes, from a process of its own: what pytest holds open is not theirs to end."""

import subprocess
import sys

BEGIN = """
import os, signal, sys, time
from functools import partial
from proxy.demo.programs import Ended, Programs
"""


def python(script: str) -> subprocess.CompletedProcess[str]:
    # communicate() returns when the last process that holds our pipe is gone.
    return subprocess.run(
        [sys.executable, "-c", BEGIN + script], capture_output=True, text=True, timeout=30
    )


def test_all_programs_are_ended_the_last_one_first() -> None:
    result = python(
        "def run(name):\n"
        "    def stop(*_):\n"
        "        print(name, flush=True)\n"
        "        os._exit(0)\n"
        "    signal.signal(signal.SIGTERM, stop)\n"
        "    os.write(held, b'!')\n"
        "    time.sleep(600)\n"
        "end, held = os.pipe()\n"
        "with Programs() as programs:\n"
        "    programs.start('engine', partial(run, 'engine'))\n"
        "    programs.start('proxy', partial(run, 'proxy'))\n"
        "    os.read(end, 1), os.read(end, 1)\n"
        "    programs.check()\n"
    )
    assert result.stdout == "proxy\nengine\n", result.stderr


def test_one_that_ignores_the_signal_is_killed() -> None:
    result = python(
        "import proxy.demo.programs as p; p.PATIENCE = 0.1\n"
        "def run():\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    os.write(held, b'!')\n"
        "    time.sleep(600)\n"
        "end, held = os.pipe()\n"
        "with Programs() as programs:\n"
        "    programs.start('engine', run)\n"
        "    os.read(end, 1)\n"
        "print('over')"
    )
    assert result.stdout == "over\n", result.stderr


def test_one_that_has_ended_is_told_by_name_and_is_not_ended_again() -> None:
    result = python(
        "with Programs() as programs:\n"
        "    programs.start('the proxy', lambda: sys.exit(3))\n"
        "    while True:\n"
        "        try: programs.check()\n"
        "        except Ended as ended: print(ended); break\n"
    )
    assert result.stdout == "the proxy ended with 3\n", result.stderr
