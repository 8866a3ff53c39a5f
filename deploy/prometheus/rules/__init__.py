"""The source of the recording rules and alerts; `deploy.prometheus.generate` writes them."""
