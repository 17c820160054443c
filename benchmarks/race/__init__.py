"""The CPU finder side by side with its peer, on the same frames in the same run: ``make bench``."""
