"""Scrape configuration, recording rules and alerts for Prometheus."""
