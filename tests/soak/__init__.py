"""A long run of good and bad exchanges, each of which has to be accounted for."""
