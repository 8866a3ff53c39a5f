"""Replay: seeded traffic through real Prometheus, to see when the alerts fire."""
