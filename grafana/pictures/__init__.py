"""Pictures of the boards for the documentation: `python -m grafana.pictures`.

Engines, the proxy and traffic run for some minutes under a real Prometheus; the boards' queries are
asked of it; Grafana's own components draw the answers (grafana/render).
"""
