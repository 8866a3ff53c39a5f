"""What the layout promises: a pure core, a test file for each module, a small top level."""

import ast
import fnmatch
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    path.relative_to(ROOT / "proxy")
    for path in ROOT.joinpath("proxy").rglob("*.py")
    if not path.stem.startswith("__")
)
TOP_LEVEL = {
    ".ci",
    ".dockerignore",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "deploy",
    "docs",
    "grafana",
    "proxy",
    "pyproject.toml",
    "tests",
}

# Pure, synchronous, no clock, no input or output.
CORE = {
    "encoding",
    "eventstream",
    "formats",
    "framing",
    "gaps",
    "headers",
    "injection",
    "jsontext",
    "meter",
    "output",
    "outcome",
    "reader",
    "template",
    "tokens",
}
IMPURE = {
    "asyncio",
    "datetime",
    "httpx",
    "io",
    "logging",
    "os",
    "pathlib",
    "random",
    "select",
    "signal",
    "socket",
    "ssl",
    "starlette",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "uvicorn",
    "uvloop",
}


def imports(path: Path) -> Iterator[str]:
    """Full names of what a module imports, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_every_module_has_its_test_file(module: Path) -> None:
    folder = ROOT / "tests" / module.parent
    tests = [*folder.glob(f"test_{module.stem}.py"), *folder.glob(f"test_{module.stem}_*.py")]
    assert tests, f"proxy/{module} needs tests/{module.parent / f'test_{module.stem}.py'}"


@pytest.mark.parametrize(
    "module", [one for one in MODULES if one.with_suffix("").parts[0] in CORE], ids=str
)
def test_the_core_knows_nothing_of_the_shell(module: Path) -> None:
    for name in imports(ROOT / "proxy" / module):
        first, *rest = name.split(".")
        assert first not in IMPURE, f"proxy/{module} imports {name}"
        if first == "proxy":
            assert rest[0] in CORE, f"proxy/{module} imports {name}, which is not of the core"


def test_the_core_is_where_it_is_said_to_be() -> None:
    assert {one.with_suffix("").parts[0] for one in MODULES} >= CORE


def test_nothing_new_lies_on_the_top_level() -> None:
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().split()]
    found = {
        path.name
        for path in ROOT.iterdir()
        if path.name != ".git" and not any(fnmatch.fnmatch(path.name, one) for one in ignored)
    }
    assert found <= TOP_LEVEL
