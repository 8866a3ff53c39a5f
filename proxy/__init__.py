"""tokometer: a transparent streaming proxy that measures how fast language-model servers are."""

__version__ = "0.1.0"
