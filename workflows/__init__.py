"""The command line: one module a command, run as ``python -m workflows.<command>`` or ``photonflow <command>``."""

from workflows._first_moments import end_quietly_on_ctrl_c

end_quietly_on_ctrl_c()

from workflows._installation import require_sound_installation  # noqa: E402 (after Ctrl-C has been seen to)

require_sound_installation()
