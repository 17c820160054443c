"""The workers of a run: how they start, what is known of them, and how they end."""
