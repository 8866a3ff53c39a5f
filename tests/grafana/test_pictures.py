"""The pictures in docs/img are of the boards as they are."""

import json
import struct
from pathlib import Path

import pytest

from grafana.pictures.__main__ import DIGESTS, PICTURES, digests
from grafana.pictures.answers import filled, windows

ROOT = Path(__file__).parents[2]
LARGEST = 300_000  # bytes
README = ROOT.joinpath("README.md").read_text("utf-8")


def test_pictures_are_of_the_boards_as_they_are() -> None:
    assert json.loads(DIGESTS.read_text("utf-8")) == digests(), "run: make boards"


@pytest.mark.parametrize("uid", digests())
def test_a_picture_is_one_and_not_too_large(uid: str) -> None:
    path = PICTURES / f"{uid}.png"
    picture = path.read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", picture[16:24])
    assert width > 1000 and height > 500
    assert len(picture) < LARGEST


def test_no_picture_is_of_a_board_that_is_gone() -> None:
    assert {path.stem for path in PICTURES.glob("tokometer-*.png")} == digests().keys()


def test_readme_shows_pictures_and_says_how_they_were_made() -> None:
    for uid in ("tokometer-overview", "tokometer-regression"):
        assert f"docs/img/{uid}.png" in README
    assert "make boards" in README


def test_variables_are_filled_and_groups_of_expressions_are_not() -> None:
    expr = 'label_replace(rate(a{job=~"$job"}[$__rate_interval]), "from", "$1", "x", "([0-9]+).*")'
    filled_in = 'label_replace(rate(a{job=~".*"}[20s]), "from", "$1", "x", "([0-9]+).*")'
    assert filled(expr, {"__rate_interval": "20s"}) == filled_in


def test_a_rate_looks_back_over_four_scrapes_or_a_step() -> None:
    assert windows(900, 5, 5) == {"__rate_interval": "20s", "__range": "900s"}
    assert windows(900, 60, 5) == {"__rate_interval": "65s", "__range": "900s"}
