from pathlib import Path

import pytest
from test_logged import log, stream
from test_weights import of_gguf

from proxy.cli import main


def told(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert main(["ceiling", *flags]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def refused(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(["ceiling", *flags])
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert err.startswith("tokometer: ") and err.count("\n") == 1 and out == ""
    return err.removeprefix("tokometer: ").strip()


SMALL = ("--memory-bandwidth", "150GB/s", "--bytes-per-token", "3.3GB")


def test_the_arithmetic_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, *SMALL, "--measured", "40.9").splitlines() == [
        "memory bandwidth  150 GB/s",
        "read per token    3.3 GB",
        "ceiling           45 tokens/s for one user (150 GB/s / 3.3 GB = 45.455)",
        "reading speed     5 tokens/s (238 words a minute): the ceiling is 9.09 times that",
        "measured          40.9 tokens/s: 90% of the ceiling, 135 GB/s are read",
    ]


@pytest.mark.parametrize(
    ("size", "expected"), [("2.5GB", "40"), ("17GB", "5.9"), ("43GB", "2.3"), ("300MB", "333")]
)
def test_small_speeds_have_a_decimal(
    capsys: pytest.CaptureFixture[str], size: str, expected: str
) -> None:
    assert f" {expected} tokens/s for" in told(
        capsys, "--memory-bandwidth", "100GB/s", "--bytes-per-token", size
    )


def test_without_a_bandwidth_a_time_per_token_tells_what_is_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert told(
        capsys, "--active-parameters", "7B", "--bits-per-weight", "16", "--measured", "14ms"
    ).splitlines() == [
        "read per token  14 GB",
        "measured        71.4 tokens/s: 1 TB/s are read",
    ]


def test_a_known_device_is_told_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    out = told(capsys, "--memory-bandwidth", "h200", "--devices", "2", "--bytes-per-token", "96GB")
    assert "2 x 4.8 TB/s (H200: nvidia.com/en-us/data-center/h200)" in out
    assert "100 tokens/s for one user (9.6 TB/s / 96 GB = 100)" in out


def test_of_a_mixture_of_experts_it_is_told_what_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tensors = {"blk.0.ffn_up_exps.weight": 320_000}
    path = of_gguf(tmp_path / "m.gguf", tensors, expert_count=8, expert_used_count=2)
    out = told(capsys, "--memory-bandwidth", "1GB/s", "--weights", str(path))
    assert "80 kB of 320 kB (2 of 8 experts are used)" in out


def test_a_request_log_is_compared_by_model_and_concurrency(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one = log(tmp_path / "1", stream(40.0), stream(20.0, users=8), stream(None, users=8))
    two = log(tmp_path / "2", stream(5.0, users=15), stream(1.0, "n", 64), stream(9.0, "a", None))
    out = told(capsys, *SMALL, "--log", one, two)
    rows = [line.split() for line in out.split("\n\n")[1].splitlines()]
    assert rows[0][:3] == ["model", "users", "streams"]
    assert rows[1:] == [
        ["a", "unknown", "1", "9", "20%"],
        ["m", "1", "1", "40", "88%"],
        ["m", "8-15", "2", "10", "22%"],
        ["n", "64+", "1", "1", "2%"],
    ]
    only = told(capsys, *SMALL, "--log", one, two, "--model", "n").split("\n\n")[1]
    assert [row.split()[0] for row in only.splitlines()] == ["model", "n"]


def test_a_log_that_cannot_be_used_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    missing = str(tmp_path / "x")
    assert refused(capsys, *SMALL, "--log", missing).endswith(
        f"{missing}: No such file or directory"
    )


BANDWIDTH = "--memory-bandwidth, such as 150GB/s or H200"
SIZE = (
    "what is read for each token, as --bytes-per-token, --weights, or --active-parameters and "
    "--bits-per-weight"
)
PAIR = "--bits-per-weight beside --active-parameters"


@pytest.mark.parametrize(
    ("flags", "give"),
    [
        ((), f"{BANDWIDTH}; and {SIZE}"),
        (("--devices", "2"), f"{BANDWIDTH}; and {SIZE}"),
        (("--measured", "9"), f"{BANDWIDTH}; and {SIZE}"),
        (("--bytes-per-token", "3GB"), BANDWIDTH),
        (("--bytes-per-token", "3GB", "--measured", "9", "--log", "x"), BANDWIDTH),
        (("--bytes-per-token", "3GB", "--measured", "9", "--devices", "2"), BANDWIDTH),
        (("--active-parameters", "7B", "--bits-per-weight", "8"), BANDWIDTH),
        (("--active-parameters", "7B"), f"{BANDWIDTH}; and {PAIR}"),
        (("--memory-bandwidth", "H200"), SIZE),
        (("--memory-bandwidth", "H200", "--measured", "9"), SIZE),
        (("--memory-bandwidth", "H200", "--active-parameters", "7B"), PAIR),
        (
            ("--memory-bandwidth", "H200", "--bits-per-weight", "8"),
            "--active-parameters beside --bits-per-weight",
        ),
    ],
)
def test_what_is_missing_is_told(
    capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], give: str
) -> None:
    assert refused(capsys, *flags) == f"no ceiling yet: give {give}"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            (*SMALL, "--active-parameters", "7B"),
            "bytes_per_token and active_parameters say the same thing: leave one",
        ),
        (
            ("--memory-bandwidth", "H100"),
            "flag --memory-bandwidth: 'H100' is more than one device: give H100 SXM or",
        ),
        (("--weights", "/nowhere"), "flag --weights: cannot read /nowhere (No such file"),
        ((*SMALL, "--measured", "0"), "flag --measured: '0' will not do: give tokens per second"),
        ((*SMALL, "--model", "m"), "model is of request logs: give one with --log, or leave"),
        (("--bandwidth", "1GB/s"), "flag --bandwidth: no such setting: did you mean --memory-b"),
    ],
)
def test_what_will_not_do_is_told(
    capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], said: str
) -> None:
    assert refused(capsys, *flags).startswith(said)
