"""Writes dashboards and their reference: `python -m grafana.build`.

With `--check` nothing is written; the exit code is 1 if a file is not what it should be.
"""

import json
import sys
from pathlib import Path

from grafana.boards import BOARDS
from grafana.reference import reference

HERE = Path(__file__).parent


def files() -> dict[Path, str]:
    """All that follows from the description: contents by path."""
    boards = [board.json() for board in BOARDS]
    found = {
        HERE / "dashboards" / f"{board['uid']}.json": json.dumps(board, indent=2) + "\n"
        for board in boards
    }
    readme = HERE / "README.md"
    return found | {readme: reference(readme.read_text("utf-8"), boards)}


def stale() -> list[Path]:
    """Files that differ from what they should be, those included that should not be there."""
    wanted = files()
    differing = [
        path
        for path, text in wanted.items()
        if not path.exists() or path.read_text("utf-8") != text
    ]
    return differing + [path for path in HERE.glob("dashboards/*") if path not in wanted]


def main(arguments: list[str]) -> int:
    """The exit code."""
    if arguments == ["--check"]:
        wrong = [path.relative_to(HERE.parent) for path in stale()]
        for path in wrong:
            print(f"{path} is not up to date: python -m grafana.build", file=sys.stderr)
        return 1 if wrong else 0
    if arguments:
        print("usage: python -m grafana.build [--check]", file=sys.stderr)
        return 2
    for path, text in files().items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
