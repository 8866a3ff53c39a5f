"""A real engine behind a real tokometer; see run.py."""
