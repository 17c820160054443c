"""What all commands share: exit codes, errors as one sentence, logging."""

from __future__ import annotations

import enum
import io
import logging
import os
import signal
import sys
import traceback
import warnings
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from workflows.printable import printable, printable_lines


class ExitCode(enum.IntEnum):
    """What a command tells its caller; documented in docs/command_line.md."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    SOME_BATCHES_FAILED = 3
    INTERRUPTED = 130
    TERMINATED = 143


class Interruption(KeyboardInterrupt):
    """Ctrl-C or SIGTERM, with what the user should know and the exit code that tells them apart."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code = code

    @staticmethod
    def of(interruption: KeyboardInterrupt, advice: str) -> Interruption:
        """The same interruption, with advice."""
        if isinstance(interruption, Interruption):
            return Interruption(interruption.code, f"{interruption}; {advice}")
        return Interruption(ExitCode.INTERRUPTED, f"interrupted; {advice}")


def program_version() -> str:
    """The installed version of photonflow."""
    return version("photonflow")


def run(command: click.Command, name: str | None = None) -> NoReturn:
    """Run ``command`` on ``sys.argv`` and leave the process with one of :class:`ExitCode`.

    Errors that a user can act on (``ValueError``, ``RuntimeError``, ``OSError`` and their kinds in photonflow's
    packages) end in their one sentence on stderr; anything else is a fault of ours and says so. ``-v`` anywhere
    shows the traceback too.
    """
    signal.signal(signal.SIGTERM, _terminate)
    _prepare_stdout()
    prog = name or f"python -m workflows.{command.name if command.name != 'command' else sys.argv[0]}"
    try:
        # Not `command.main`, which turns an interruption into an error of its own and loses what it says.
        with command.make_context(prog, sys.argv[1:]) as context:
            command.invoke(context)
        sys.stdout.flush()
        code = ExitCode.DONE
    except click.exceptions.Exit as request:
        code = ExitCode(request.exit_code)
    except click.UsageError as error:
        said = io.StringIO()
        error.show(said)
        click.echo(printable_lines(said.getvalue()), err=True, nl=False)
        code = ExitCode.USAGE
    except click.ClickException as error:
        _say(error.format_message())
        code = ExitCode.FAILED
    except KeyboardInterrupt as interruption:
        _say(str(interruption) or "interrupted")
        code = interruption.code if isinstance(interruption, Interruption) else ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`… --json | head -1`): nothing to tell, and nowhere to tell it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ExitCode.FAILED
    except (ValueError, TypeError, RuntimeError, OSError, MemoryError) as error:
        _show_traceback_if_verbose()
        _say(_sentence(error))
        code = ExitCode.FAILED
    except Exception as error:
        _show_traceback_if_verbose()
        _say(f"a fault in photonflow ({type(error).__name__}: {error}): please report it with the output of -v")
        code = ExitCode.FAILED
    sys.exit(int(code))


def configure_logging(verbosity: int) -> None:
    """Send the log to stderr: warnings only, with ``-v`` what happens, with ``-vv`` everything."""
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_PrintableFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    warnings.showwarning = _show_warning
    for name in ("finder", "frame_archive", "cluster_store", "guarded_zarr", "pipeline", "analysis", "workflows"):
        logging.getLogger(name).setLevel(level)
    # Of Dask's own log only what a user must act on: a worker that leaves at shutdown is not news.
    for name in ("distributed", "tornado"):
        logging.getLogger(name).setLevel(logging.ERROR if verbosity < 2 else logging.INFO)


def _prepare_stdout() -> None:
    """Let a result be printed wherever stdout goes: to nowhere if it is closed, with ? for what it can't spell."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (it stays open to the end)
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _terminate(signum: int, frame: FrameType | None) -> NoReturn:
    raise Interruption(ExitCode.TERMINATED, "terminated")


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    # Ours are for the user; what libraries say to their programmers is for the log.
    if issubclass(category, UserWarning):
        _say(f"warning: {message}")
    else:
        logging.getLogger("workflows").info("%s: %s", category.__name__, message)


class _PrintableFormatter(logging.Formatter):
    """Lines that a terminal shows as they are, whatever names and attributes are in them."""

    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))


def _say(message: str) -> None:
    click.echo(f"photonflow: {printable(message)}", err=True)


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _show_traceback_if_verbose() -> None:
    if logging.getLogger("workflows").isEnabledFor(logging.INFO):
        click.echo(printable_lines(traceback.format_exc()), err=True, nl=False)
