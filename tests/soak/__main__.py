"""`python -m tests.soak`: 200,000 exchanges, a fault in every third."""

import argparse
import sys

from .run import soak


def main() -> int:
    """Run it and print what came of it; 1 where something is missing or left."""
    parser = argparse.ArgumentParser("python -m tests.soak", description=__doc__)
    parser.add_argument("--exchanges", type=int, default=200_000)
    parser.add_argument("--warm", type=int, default=20_000, help="exchanges before the first look")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    report = soak(given.exchanges, given.warm, given.seed)
    print(report.text())
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
