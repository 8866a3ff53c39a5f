"""Which times of a benchmark the hypervisor disturbed."""

import pytest
from bench import accounting, quiet

MS = 1_000_000


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> quiet.Watch:
    monkeypatch.setattr(quiet, "CLOCK", lambda: 0)
    monkeypatch.setattr(accounting, "stolen_seconds", lambda: 5.0)
    watch = quiet.Watch()
    # From 1,000 to 1,040 ms and at 2,000 something is taken away.
    looks = [(1000, 5.0), (1020, 5.01), (1040, 5.03), (1060, 5.03), (1980, 5.03), (2000, 5.04)]
    for at, stolen in looks:
        watch.look(at * MS, stolen)
    return watch


@pytest.mark.parametrize(
    ("begin", "end", "is_quiet"),
    [
        (0, 900, True),
        (0, 970, False),
        (900, 3000, False),
        (1030, 1031, False),
        (1070, 1075, False),
        (1085, 1900, True),
        (1085, 1945, False),
        (2035, 2036, False),
        (2045, 9000, True),
    ],
)
def test_what_touches_stolen_time_is_not_quiet(
    watch: quiet.Watch, begin: int, end: int, is_quiet: bool
) -> None:
    assert watch.quiet(begin * MS, end * MS) is is_quiet
