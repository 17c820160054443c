"""The command line: one module a command, run as ``python -m workflows.<command>`` or ``photonflow <command>``."""

from workflows._installation import require_sound_installation

require_sound_installation()
