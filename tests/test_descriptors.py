"""A worker can have more connections than the usual limit of open files."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
from proxy.descriptors import make_room
before = sorted(os.listdir("/dev/fd"))
make_room()
assert sorted(os.listdir("/dev/fd")) == before, "left open"
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
size = [line for line in open("/proc/self/status") if line.startswith("FDSize")]
print(int(size[0].split()[1]))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the size")
def test_the_limit_is_raised_and_the_table_is_there_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stderr == ""
    limit, table = map(int, done.stdout.split())
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert limit == (1 << 16 if hard == resource.RLIM_INFINITY else min(hard, 1 << 16))
    assert table >= limit
