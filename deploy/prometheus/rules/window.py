"""What `now` is: the like-for-like index is told over a short and over a long window.

The short one sees soon what is large where there are many streams. The long one has four times the
streams: where there are few it is sure sooner, and the luck of some minutes moves it less.
"""

from dataclasses import dataclass

from deploy.prometheus.rules.settings import Settings


@dataclass(frozen=True)
class Window:
    """The last `length` seconds."""

    length: int
    name: str  # the operation of what is summed in it: `now`, `long`
    suffix: str  # of the operations of what is made of that


def windows(settings: Settings) -> tuple[Window, Window]:
    """The short and the long one."""
    return (
        Window(settings.index_window, "now", ""),
        Window(settings.index_long_window, "long", "_long"),
    )
