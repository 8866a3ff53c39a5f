"""What holds for all tests."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from serve_rig import Upstream, engine

# How long an example takes says how busy the machine is.
settings.register_profile(
    "any_machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any_machine")


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """An engine of one scripted stream."""
    with engine() as running:
        yield running
