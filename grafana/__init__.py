"""Grafana dashboards of tokometer, written from one description: `python -m grafana.build`."""
