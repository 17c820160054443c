"""A report of a run: what it found, how close it came to the machine's limits, and what held it back."""
