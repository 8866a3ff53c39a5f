"""Fuzz one target, or each in turn: `python -m tests.fuzz [TARGET] [-max_total_time=SECONDS]`.

What breaks a target is left in a file `crash-...`, and the exit code is not 0.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS = 60
sys.path.insert(0, str(Path(__file__).parents[1]))  # the rigs of the other tests


def main(arguments: list[str]) -> int:
    """Each target in a process of its own: the fuzzer ends its process."""
    options = [one for one in arguments if one.startswith("-")] or [f"-max_total_time={SECONDS}"]
    named = [one for one in arguments if not one.startswith("-")]
    if len(named) == 1 and named[0].startswith("@"):
        return fuzz(named[0][1:], options)
    from fuzz_targets import TARGETS

    if unknown := set(named) - TARGETS.keys():
        print(
            f"no such target: {', '.join(unknown)}: give of {', '.join(TARGETS)}", file=sys.stderr
        )
        return 2
    ends = {
        name: subprocess.run([sys.executable, "-m", "tests.fuzz", f"@{name}", *options]).returncode
        for name in named or TARGETS
    }
    print(
        *(f"{name}: {'failed' if end else 'nothing found'}" for name, end in ends.items()), sep="\n"
    )
    return 1 if any(ends.values()) else 0


def fuzz(name: str, options: list[str]) -> int:
    """Until the time is over or something is found."""
    try:
        import atheris
    except ImportError:
        print("make fuzz needs atheris, which this Python has no wheel of", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["proxy"]):
        from fuzz_targets import TARGETS, seeds

    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(seeds()):
            Path(corpus, str(number)).write_bytes(seed)
        atheris.Setup([sys.argv[0], *options, "-max_len=4096", corpus], TARGETS[name])
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
