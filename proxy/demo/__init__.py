"""`tokometer demo`: simulated engines, the proxy before them, sample traffic, live figures."""
