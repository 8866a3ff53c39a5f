"""Writes the rules: `python -m deploy.prometheus.generate`, at the top of the repository."""

import argparse
import sys
from pathlib import Path

from deploy.prometheus.rules import files, provisioning
from deploy.prometheus.rules.settings import PRESETS, Settings

ROOT = Path(__file__).parents[2]


def rendered(settings: Settings) -> dict[str, str]:
    """The files by their path from the top of the repository."""
    return {
        "deploy/prometheus/tokometer.rules.yml": files.recording(settings),
        "deploy/prometheus/tokometer.alerts.yml": files.alerting(settings),
        "grafana/provisioning/alerting/tokometer.yml": provisioning.alerting(settings),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.prometheus.generate", description=__doc__
    )
    parser.add_argument("--baseline", choices=PRESETS, default="week", help="default: week")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if files differ")
    parser.add_argument(
        "--out", type=Path, default=ROOT, metavar="DIR", help="where to write instead of here"
    )
    options = parser.parse_args(arguments)
    status = 0
    for name, text in rendered(PRESETS[options.baseline]).items():
        path = options.out / name
        if options.check:
            if not path.is_file() or path.read_text("utf-8") != text:
                print(f"{path} is not what its source says", file=sys.stderr)
                status = 1
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
