"""`make real`: measures a real engine through tokometer and compares with the engine's own numbers.

ENGINE=vllm (default) or ENGINE=llamacpp. Everything it needs is put under `.real/` the first time.
"""

import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    # as a package of the repository, so that its modules find each other by relative imports
    sys.path[0] = str(ROOT)
    runpy.run_module("tests.real", run_name="__main__", alter_sys=True)
