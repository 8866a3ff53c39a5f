"""The command line. What a command needs is imported when it runs, so that --help is quick."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from proxy import __version__
from proxy.descriptors import fill_standard
from proxy.settings import (
    Setting,
    SettingError,
    add_flags,
    from_flags,
    one_line,
    settings_of,
    unknown,
)

BAD_INPUT = 2
INTERRUPTED = 130  # what shells say of a program that SIGINT ended
PRECEDENCE = (
    "Flags come before TOKOMETER_* variables (--stall-threshold is TOKOMETER_STALL_THRESHOLD), "
    "those before the TOML file given with --config (stall_threshold)."
)

NEGATIVE = re.compile(r"-\.?\d")
BARE_FLAG = re.compile(r"--[a-z-]+")
URL = re.compile(r"https?://|unix:/")

Flags = dict[str, object]  # names of settings and their raw values, of the flags that were used


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        if message.endswith("expected one argument"):
            message += ": give it, behind a = if it begins with -"
        self.exit(BAD_INPUT, f"tokometer: {one_line(message)}\n")


class Command(NamedTuple):
    """A command: `run` takes the flags that were used and gives an exit code."""

    help: str
    settings: Callable[[], list[Setting]]
    run: Callable[[Flags], int]
    epilog: str = ""


def _serve_settings() -> list[Setting]:
    from proxy.config import FLAGS

    return FLAGS


def _serve(flags: Flags) -> int:
    from proxy.config import load

    config = load(flags, os.environ)
    for note in config.dials.notes():
        print(f"tokometer: {note}", file=sys.stderr, flush=True)
    from proxy.supervisor import serve

    return serve(config)


def _engine_settings() -> list[Setting]:
    from proxy.engine.settings import EngineSettings

    return settings_of(EngineSettings)


def _engine(flags: Flags) -> int:
    from proxy.engine import EngineSettings, serve_engine
    from proxy.sockets import address, listen

    settings = EngineSettings(**from_flags(_engine_settings(), flags))
    listener = listen(settings.host, settings.port)
    where = address(listener, settings.host)
    print(f"tokometer engine: {where}", file=sys.stderr, flush=True)
    serve_engine(settings, listener)
    return 0


def _demo_settings() -> list[Setting]:
    from proxy.demo.settings import DemoSettings

    return settings_of(DemoSettings)


def _demo(flags: Flags) -> int:
    from proxy.demo.run import run
    from proxy.demo.settings import DemoSettings

    return run(DemoSettings(**from_flags(_demo_settings(), flags)))


def _ceiling_settings() -> list[Setting]:
    from proxy.ceiling import CeilingSettings

    return settings_of(CeilingSettings)


def _ceiling(flags: Flags) -> int:
    from proxy.ceiling import CeilingSettings, run

    return run(CeilingSettings(**from_flags(_ceiling_settings(), flags)))


def _health_settings() -> list[Setting]:
    from proxy.health import HealthSettings

    return settings_of(HealthSettings)


def _health(flags: Flags) -> int:
    from proxy.health import HealthSettings, check

    well, line = check(HealthSettings(**from_flags(_health_settings(), flags)))
    print(line)
    return 0 if well else 1


COMMANDS = {
    "serve": Command("the proxy", _serve_settings, _serve, PRECEDENCE),
    "demo": Command("simulated engine, proxy and sample traffic", _demo_settings, _demo),
    "engine": Command(
        "simulated inference server with interfaces like those of OpenAI, Anthropic and Ollama",
        _engine_settings,
        _engine,
    ),
    "ceiling": Command(
        "the most that one user can get from a model and its hardware", _ceiling_settings, _ceiling
    ),
    "health": Command(
        "says whether a running proxy is well, exit code 0 or 1: for health checks",
        _health_settings,
        _health,
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit code. Bad input is told in one line, exit code 2."""
    fill_standard()
    arguments = _joined(sys.argv[1:] if argv is None else argv)
    parser = _parser(arguments)
    if not arguments:
        parser.error(f"give a command: {', '.join(COMMANDS)} (tokometer --help says more)")
    given, stray = parser.parse_known_args(arguments)
    flags = vars(given)
    command = COMMANDS[flags.pop("command")]
    try:
        if stray:
            raise SettingError(_no_such(stray, command.settings()))
        return command.run(flags)
    except SettingError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED


def _joined(arguments: Sequence[str]) -> list[str]:
    """Puts a value that begins like a negative number behind its flag's `=`.

    argparse takes `-3s` for a flag, and says that a value is missing.
    """
    joined: list[str] = []
    for argument in arguments:
        if NEGATIVE.match(argument) and joined and BARE_FLAG.fullmatch(joined[-1]):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def _parser(arguments: Sequence[str]) -> Parser:
    """The parser. Of the commands, only one that is named in `arguments` gets its flags."""
    parser = Parser("tokometer", description="A speedometer for language-model servers.")
    parser.add_argument("--version", action="version", version=f"tokometer {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        of = commands.add_parser(
            name,
            help=command.help,
            description=f"tokometer {name}: {command.help}.",
            epilog=command.epilog,
            allow_abbrev=False,
        )
        if name in arguments:
            add_flags(of, command.settings())
    return parser


def _no_such(stray: Sequence[str], settings: Sequence[Setting]) -> str:
    """What to say of arguments that the command does not have."""
    flag = next((argument for argument in stray if argument.startswith("-")), None)
    if flag is None:
        if URL.match(stray[0]) and any(setting.flag == "--upstream" for setting in settings):
            return "a URL alone says nothing: write --upstream before it"  # it may hold a key
        return f"{stray[0]}: no such argument: leave it out"
    name = flag.split("=")[0]
    return f"flag {name}: {unknown(name, [setting.flag for setting in settings])}"
