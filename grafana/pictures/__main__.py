"""Makes docs/img: `make boards` has what it needs installed first."""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from grafana.boards import BOARDS
from grafana.build import stale
from grafana.pictures.answers import answered
from grafana.pictures.scene import watched

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "img"
DIGESTS = PICTURES / "boards.json"
RENDER = ROOT / "grafana" / "render"
NEEDED = ("node", "prometheus", "chromium")


def digests() -> dict[str, str]:
    """SHA-256 of each board, by its uid: a picture of another board is out of date."""
    boards = [board.json() for board in BOARDS]
    return {
        board["uid"]: hashlib.sha256(json.dumps(board, sort_keys=True).encode()).hexdigest()
        for board in boards
    }


def draw(answers: Path) -> None:
    """Pictures of all boards whose answers are in this folder."""
    PICTURES.mkdir(exist_ok=True)
    browser = str(shutil.which("chromium"))
    command = ["node", *map(str, (RENDER / "render.mjs", answers, PICTURES))]
    subprocess.run(command, check=True, env=os.environ | {"CHROMIUM": browser})
    DIGESTS.write_text(json.dumps(digests(), indent=2) + "\n", "utf-8")


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m grafana.pictures", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=900, help="how long the scene plays (default: 900)"
    )
    parser.add_argument(
        "--answers",
        type=Path,
        metavar="DIR",
        help="where answers are kept; if there are any, they are drawn and nothing is played",
    )
    options = parser.parse_args()
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        parser.error(f"{missing[0]} is not on PATH: install it")
    if stale():
        parser.error("boards are not up to date: run python -m grafana.build")
    with TemporaryDirectory() as folder:
        answers = options.answers or Path(folder, "answers")
        if not list(answers.glob("*.json")):
            _play(Path(folder), answers, options.seconds)
        draw(answers)
    return 0


def _play(folder: Path, answers: Path, seconds: float) -> None:
    answers.mkdir(parents=True, exist_ok=True)
    with watched(folder, seconds) as seen:
        for board in BOARDS:
            told = answered(board.json(), seen)
            (answers / f"{board.uid}.json").write_text(json.dumps(told), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
