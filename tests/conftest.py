"""What holds for all tests."""

from hypothesis import HealthCheck, settings
from serve_rig import upstream

__all__ = ["upstream"]  # a fixture

# How long an example takes says how busy the machine is.
settings.register_profile(
    "any_machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any_machine")
