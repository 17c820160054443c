"""Ready cluster configurations for ``--cluster``."""
