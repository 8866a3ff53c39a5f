"""Writes the rules: `python -m deploy.prometheus.generate`, at the top of the repository."""

import argparse
import re
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from deploy.prometheus.rules import files, provisioning
from deploy.prometheus.rules.settings import PRESETS, Settings

ROOT = Path(__file__).parents[2]
# No blank, no quote, no brace, which a template would be made of, and nothing of what links add.
_URL = re.compile(r"https?://[^\s\"'`<>{}|\\^?#\x00-\x1f\x7f]+")

# What Python has and RE2 has not: looking around and back, groups and repeats that give nothing up.
_NOT_RE2 = re.compile(r"\(\?(?![:i])|\\[1-9Z]|[*+?}]\+")


def rendered(settings: Settings) -> dict[str, str]:
    """The files by their path from the top of the repository."""
    return {
        "deploy/prometheus/tokometer.rules.yml": files.recording(settings),
        "deploy/prometheus/tokometer.alerts.yml": files.alerting(settings),
        "grafana/provisioning/alerting/tokometer.yml": provisioning.alerting(settings),
    }


def main(arguments: list[str] | None = None) -> int:
    """Write or check the files; the status to exit with."""
    options = parser().parse_args(arguments)
    status = 0
    for name, text in rendered(_settings(options)).items():
        path = options.out / name
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        elif not path.is_file() or path.read_text("utf-8") != text:
            print(f"{path} is not what its source says: generate it", file=sys.stderr)
            status = 1
    return status


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="python -m deploy.prometheus.generate", description=__doc__)
    made.add_argument("--check", action="store_true", help="write nothing; 1 if files differ")
    made.add_argument(
        "--out",
        type=_folder,
        default=ROOT,
        metavar="DIR",
        help="where to write instead of here, in the same places below it: "
        + ", ".join(rendered(Settings())),
    )
    made.add_argument(
        "--baseline", choices=PRESETS, default="week", help="what now is compared with (week)"
    )
    made.add_argument(
        "--baseline-end",
        type=_moment,
        metavar="TIME",
        help="pin the baseline: it ends here for good (2026-11-23T00:00:00Z), as long as "
        "Prometheus keeps that time",
    )
    usual = Settings()
    made.add_argument(
        "--runbooks",
        type=_url,
        default=usual.runbooks,
        metavar="URL",
        help="where docs/runbooks.md can be read",
    )
    made.add_argument(
        "--grafana", type=_url, default=usual.grafana, metavar="URL", help=f"({usual.grafana})"
    )
    made.add_argument(
        "--job",
        type=_regex,
        default=usual.job,
        metavar="REGEX",
        help=f"the jobs that scrape tokometer ({usual.job})",
    )
    return made


def _folder(text: str) -> Path:
    folder = Path(text)
    if not text or (folder.exists() and not folder.is_dir()):
        raise argparse.ArgumentTypeError(f"{text!r} is no folder: give one, there or new")
    return folder


def _url(text: str) -> str:
    """An address that links are made of: a path, a query or a fragment is put behind it."""
    if not _URL.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} will not do: give an http URL without blanks, quotes, braces, ? and #, such "
            f"as {Settings().grafana}"
        )
    return text.rstrip("/")


def _regex(text: str) -> str:
    """A regular expression that is the same to Prometheus (RE2) and to Python."""
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no regular expression ({error}): mend it, or write \\ before what is "
            "meant as it stands"
        ) from None
    if not text or _NOT_RE2.search(text) or not text.isprintable():
        raise argparse.ArgumentTypeError(
            f"{text!r} will not do: give the name of a job, or several as one|other; Prometheus "
            "knows nothing that looks around or back"
        )
    return text


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text} is no moment like 2026-11-23T00:00:00Z")
    return moment


def _settings(options: argparse.Namespace) -> Settings:
    chosen = PRESETS[options.baseline]
    baseline = replace(chosen.baseline, end=options.baseline_end)
    return replace(
        chosen,
        baseline=baseline,
        runbooks=options.runbooks,
        grafana=options.grafana,
        job=options.job,
    )


if __name__ == "__main__":
    sys.exit(main())
