"""Benchmarks: what the proxy costs beside other proxies. Run as `python -m tests.bench`."""
