"""What the demo is told: one field per setting."""

from dataclasses import dataclass, field
from typing import Any


def setting(default: Any, **metadata: Any) -> Any:
    """A dataclass field that is a setting; see `proxy.settings` for the metadata."""
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class DemoSettings:
    """The running settings of the demo."""

    seconds: float | None = setting(
        None, unit="seconds", least=1, shown="until Ctrl-C", help="how long it runs"
    )
    host: str = setting("127.0.0.1", help="address of the proxy's two ports")
    port: int = setting(
        8080,
        least=0,
        most=65535,
        shown="8080, or a free one if that is busy",
        help="the proxy's port",
    )
    admin_port: int = setting(
        9464,
        least=0,
        most=65535,
        shown="9464, or a free one if that is busy",
        help="port of the proxy's metrics",
    )
