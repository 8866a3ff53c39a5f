"""Coverage-guided fuzzing of every parser: `make fuzz`, or `python -m tests.fuzz TARGET`."""
