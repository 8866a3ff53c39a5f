"""Installs the peers: those from PyPI into a virtual environment, Debian's by apt."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from .peers import PEERS, SCRATCH, VENV, Peer


def install(names: Sequence[str]) -> int:
    """Install those of `names` (all if empty) that are missing; an exit code."""
    known = [peer.name for peer in PEERS]
    if unknown := [name for name in names if name not in known]:
        print(f"no such proxy: {unknown[0]} (there are {','.join(known)})", file=sys.stderr)
        return 2
    wanted = [peer for peer in PEERS if peer.missing and (not names or peer.name in names)]
    debian = [p.package.removeprefix("apt:") for p in wanted if p.package.startswith("apt:")]
    python = [p.package for p in wanted if not p.package.startswith("apt:")]
    if python:
        _pip(python)
    if debian:
        _apt(debian)
    there = [peer for peer in PEERS if not names or peer.name in names]
    for peer in there:
        print(f"{peer.name}: {_state(peer)}")
    return 1 if any(peer.missing for peer in there) else 0


def _state(peer: Peer) -> str:
    return f"not installed: {peer.missing}" if peer.missing else "installed"


def _pip(packages: Sequence[str]) -> None:
    SCRATCH.mkdir(exist_ok=True)
    if not VENV.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    for package in packages:  # one that fails shall not keep the others away
        pip = [str(VENV / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *package.split()], check=False)


def _apt(packages: Sequence[str]) -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    apt = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(apt, check=False, env=env)
