"""The command line. What a command needs is imported when it runs, so that --help is quick."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from proxy import __version__
from proxy.settings import SettingError, add_flags, from_flags, settings_of, unknown

BAD_INPUT = 2
INTERRUPTED = 130  # what shells say of a program that SIGINT ended
PRECEDENCE = (
    "Flags come before TOKOMETER_* variables (--stall-threshold is TOKOMETER_STALL_THRESHOLD), "
    "those before the TOML file given with --config (stall_threshold)."
)

Flags = dict[str, object]  # names of settings and their raw values, of the flags that were used


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"tokometer: {message}\n")


class Command(NamedTuple):
    """`settings` gives a parser its flags; `run` gives an exit code."""

    help: str
    settings: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Flags], int]


def _serve_settings(parser: argparse.ArgumentParser) -> None:
    from proxy.config import FLAGS

    parser.epilog = PRECEDENCE
    add_flags(parser, FLAGS)


def _serve(flags: Flags) -> int:
    from proxy.config import load

    config = load(flags, os.environ)
    from proxy.supervisor import serve

    return serve(config)


def _engine_settings(parser: argparse.ArgumentParser) -> None:
    from proxy.engine import EngineSettings

    add_flags(parser, settings_of(EngineSettings))


def _engine(flags: Flags) -> int:
    from proxy.engine import EngineSettings, serve

    return serve(_built(EngineSettings, flags))


def _demo_settings(parser: argparse.ArgumentParser) -> None:
    from proxy.demo import DemoSettings

    add_flags(parser, settings_of(DemoSettings))


def _demo(flags: Flags) -> int:
    from proxy.demo import DemoSettings, run

    return run(_built(DemoSettings, flags))


def _built(cls: type, flags: Flags) -> Any:
    """The settings class with what the flags say. Raises SettingError."""
    try:
        return cls(**from_flags(settings_of(cls), flags))
    except ValueError as error:
        raise SettingError(f"flag --{error}") from None


COMMANDS = {
    "serve": Command("the proxy", _serve_settings, _serve),
    "demo": Command("simulated engine, proxy and sample traffic", _demo_settings, _demo),
    "engine": Command(
        "simulated inference server with an interface like OpenAI's", _engine_settings, _engine
    ),
}


def _parser(arguments: Sequence[str]) -> Parser:
    """The parser. Of the commands, only one that is named in `arguments` gets its flags."""
    parser = Parser("tokometer", description="A speedometer for language-model servers.")
    parser.add_argument("--version", action="version", version=f"tokometer {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        of = commands.add_parser(
            name, help=command.help, description=f"{command.help}.", allow_abbrev=False
        )
        if name in arguments:
            command.settings(of)
    return parser


def _stray(extra: Sequence[str], flags: Sequence[str]) -> str:
    """What to say of arguments that no parser knows."""
    flag = next((argument for argument in extra if argument.startswith("-")), None)
    if flag is None:
        return f"{extra[0]}: no such argument: leave it out"
    name = flag.split("=")[0]
    return f"flag {name}: {unknown(name, flags)}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit code. Bad input is told in one line, exit code 2."""
    arguments = sys.argv[1:] if argv is None else argv
    parser = _parser(arguments)
    given, extra = parser.parse_known_args(arguments)
    flags = vars(given)
    command = COMMANDS[flags.pop("command")]
    try:
        if extra:
            known = argparse.ArgumentParser(add_help=False)
            command.settings(known)
            raise SettingError(_stray(extra, list(known._option_string_actions)))
        return command.run(flags)
    except SettingError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
