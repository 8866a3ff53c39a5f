"""Memory bandwidth of known devices, as their makers state it."""

import difflib
import re
from typing import NamedTuple

GB = 10**9
TB = 10**12

_NVIDIA = "nvidia.com/en-us"
_ADA = "NVIDIA Ada GPU Architecture whitepaper, appendix A"
_AMPERE = "NVIDIA Ampere GA102 GPU Architecture whitepaper"
_BLACKWELL = "NVIDIA RTX Blackwell GPU Architecture whitepaper"
_AMD = "amd.com/en/products/accelerators/instinct"
_MACBOOK = "Apple, MacBook Pro technical specifications"
_STUDIO = "Apple, Mac Studio technical specifications"
_NEWSROOM = "apple.com/newsroom"


class Device(NamedTuple):
    """A processor and its memory: bytes per second of one device, and who says so."""

    name: str
    bandwidth: int
    source: str


def _gb(name: str, figure: float, source: str) -> Device:
    return Device(name, round(figure * GB), source)


DEVICES = (
    _gb("GB300", 8000, f"{_NVIDIA}/data-center/gb300-nvl72 (576 TB/s for 72 GPUs)"),
    _gb("GB200", 8000, f"{_NVIDIA}/data-center/gb200-nvl72 (576 TB/s for 72 GPUs)"),
    _gb("B300", 8000, f"{_NVIDIA}/data-center/dgx-b300"),
    _gb("B200", 8000, f"{_NVIDIA}/data-center/dgx-b200 (64 TB/s for 8 GPUs)"),
    _gb("H200", 4800, f"{_NVIDIA}/data-center/h200"),
    _gb("H100 SXM", 3350, f"{_NVIDIA}/data-center/h100"),
    _gb("H100 NVL", 3900, f"{_NVIDIA}/data-center/h100"),
    _gb("H100 PCIe", 2000, "NVIDIA H100 PCIe product brief PB-11133-001 (over 2,000 GB/s)"),
    _gb("A100 40GB", 1555, "NVIDIA A100 datasheet of 2020"),
    _gb("A100 80GB SXM", 2039, f"{_NVIDIA}/data-center/a100"),
    _gb("A100 80GB PCIe", 1935, f"{_NVIDIA}/data-center/a100"),
    _gb("L40S", 864, f"{_NVIDIA}/data-center/l40s"),
    _gb("L4", 300, f"{_NVIDIA}/data-center/l4"),
    _gb("RTX PRO 6000 Workstation", 1792, _BLACKWELL),
    _gb(
        "RTX PRO 6000 Server", 1597, f"{_NVIDIA}/data-center/rtx-pro-6000-blackwell-server-edition"
    ),
    _gb("RTX 6000 Ada", 960, f"{_NVIDIA}/design-visualization/rtx-6000"),
    _gb("RTX 5090", 1792, _BLACKWELL),
    _gb("RTX 4090", 1008, _ADA),
    _gb("RTX 3090", 936, _AMPERE),
    _gb("DGX Spark", 273, f"{_NVIDIA}/products/workstations/dgx-spark"),
    _gb("MI355X", 8000, f"{_AMD}/mi350/mi355x.html"),
    _gb("MI325X", 6000, f"{_AMD}/mi300/mi325x.html"),
    _gb("MI300X", 5300, f"{_AMD}/mi300/mi300x.html"),
    _gb("Strix Halo", 256, "AMD Ryzen AI Max+ 395 specifications (256 bits of LPDDR5X-8000)"),
    _gb("M1", 68.25, "Apple, MacBook Air (M1, 2020): 128 bits of LPDDR4X-4266"),
    _gb("M1 Pro", 200, f"{_NEWSROOM}, October 2021"),
    _gb("M1 Max", 400, f"{_NEWSROOM}, October 2021"),
    _gb("M1 Ultra", 800, f"{_NEWSROOM}, March 2022"),
    _gb("M2", 100, f"{_NEWSROOM}, June 2022"),
    _gb("M2 Pro", 200, f"{_NEWSROOM}, January 2023"),
    _gb("M2 Max", 400, f"{_NEWSROOM}, January 2023"),
    _gb("M2 Ultra", 800, f"{_NEWSROOM}, June 2023"),
    _gb("M3", 100, _MACBOOK),
    _gb("M3 Pro", 150, _MACBOOK),
    _gb("M3 Max 14-core", 300, _MACBOOK),
    _gb("M3 Max 16-core", 400, _MACBOOK),
    _gb("M3 Ultra", 819, _STUDIO),
    _gb("M4", 120, _MACBOOK),
    _gb("M4 Pro", 273, _MACBOOK),
    _gb("M4 Max 14-core", 410, _MACBOOK),
    _gb("M4 Max 16-core", 546, _MACBOOK),
)
_WORDS = re.compile(r"[a-z0-9]+")
_MAKERS = re.compile(r"\b(nvidia|geforce|tesla|amd|instinct|apple)\b")


def _key(name: str) -> str:
    return "".join(_MAKERS.sub("", " ".join(_WORDS.findall(name.lower()))).split())


_BY_KEY = {_key(device.name): device for device in DEVICES}


def device(name: str) -> Device:
    """The device of that name; case, blanks, hyphens and the maker's name do not matter.

    Raises ValueError, one line, if there is none, or more than one kind of it.
    """
    key = _key(name)
    if key in _BY_KEY:
        return _BY_KEY[key]
    kinds = [one.name for known, one in _BY_KEY.items() if key and known.startswith(key)]
    if kinds:
        raise ValueError(f"{name!r} is more than one device: give {' or '.join(kinds)}")
    near = [_BY_KEY[one].name for one in difflib.get_close_matches(key, _BY_KEY, n=3)]
    remedy = f"did you mean {' or '.join(near)}?" if near else "give its bandwidth, such as 150GB/s"
    raise ValueError(f"{name!r} is no device that is known here: {remedy}")
