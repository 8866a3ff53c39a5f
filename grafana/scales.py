"""Where values are good or bad, and the rows of heatmaps. Other values have no colours."""

from grafana.parts import Steps
from proxy.buckets import R5, R10, preferred

BLUE, GREEN, YELLOW, ORANGE, RED = "blue", "green", "yellow", "orange", "red"

# Tokens per second; 5 are about 238 words a minute, the mean of adults who read silently
# (Brysbaert, Journal of Memory and Language 109, 2019).
READERS: Steps = [(None, RED), (5, ORANGE), (10, GREEN)]
READING_SPEED: Steps = [(None, "transparent"), (5, RED)]

ERRORS: Steps = [(None, GREEN), (0.01, YELLOW), (0.05, RED)]
GOODPUT: Steps = [(None, RED), (0.95, YELLOW), (0.99, GREEN)]
SLOW_SHARE: Steps = [(None, GREEN), (0.01, YELLOW), (0.05, RED)]
STALLED: Steps = [(None, GREEN), (1, RED)]
ANY: Steps = [(None, GREEN), (1e-9, RED)]
COVERAGE: Steps = [(None, "transparent"), (0.5, ORANGE)]
UP: Steps = [(None, RED), (1, GREEN)]
CEILING: Steps = [(None, "transparent"), (0.6, GREEN)]
# 1.5 is where the alert fires.
LOAD: Steps = [(None, GREEN), (1, YELLOW), (1.5, RED)]

OUTCOMES = {
    "completed": GREEN,
    "client_closed": BLUE,
    "rejected": YELLOW,
    "error_midstream": ORANGE,
    "truncated": RED,
    "unreachable": "dark-red",
    "timeout": "purple",
    "aborted": "dark-purple",
}

# Rows of heatmaps: of the histograms' bounds those that matter.
LATENCY = preferred(R5, 0.01, 63)  # seconds
GAPS = preferred(R5, 0.001, 25)
DELAYS = preferred(R5, 0.00001, 1)
SPEEDS = preferred(R10, 1, 400)  # tokens per second
LENGTHS = tuple(float(2**power) for power in range(2, 18))  # tokens
CHUNKS = preferred(R10, 1, 63)  # tokens
TENTHS = tuple(tenth / 10 for tenth in range(10))
CALLS = tuple(float(2**power) for power in range(8))
