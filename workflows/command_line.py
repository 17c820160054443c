"""What all commands share: exit codes, errors as one sentence, logging."""

from __future__ import annotations

import enum
import io
import logging
import os
import sys
import traceback
import warnings
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

import click

from workflows.interruptions import Interruption, interruptions
from workflows.printable import printable, printable_lines

LOGGED = ("finder", "gpu", "frame_archive", "cluster_store", "guarded_zarr", "pipeline", "analysis", "workflows")
"""The packages whose log -v and -vv show."""
ENGINE = ("distributed", "tornado", "asyncio")
"""What runs underneath: only -vv shows its log."""


class ExitCode(enum.IntEnum):
    """What a command tells its caller; documented in docs/command_line.md."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    SOME_BATCHES_FAILED = 3
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143


def program_version() -> str:
    """The installed version of photonflow."""
    return version("photonflow")


def run(command: click.Command, name: str | None = None) -> NoReturn:
    """Run ``command`` on ``sys.argv`` and leave the process with one of :class:`ExitCode`.

    Errors that a user can act on (``ValueError``, ``RuntimeError``, ``OSError`` and their kinds in photonflow's
    packages) end in their one sentence on stderr; anything else is a fault of ours and says so. ``-v`` anywhere
    shows the traceback too.
    """
    _prepare_stdout()
    _prepare_helpers()
    prog = name or f"python -m workflows.{command.name if command.name != 'command' else sys.argv[0]}"
    with interruptions.watched():
        code = _outcome(command, prog)
    sys.exit(int(code))


def _outcome(command: click.Command, prog: str) -> ExitCode:
    try:
        # Not `command.main`, which turns an interruption into an error of its own and loses what it says.
        with command.make_context(prog, sys.argv[1:]) as context:
            command.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as request:
        return ExitCode(request.exit_code)
    except click.UsageError as error:
        said = io.StringIO()
        error.show(said)
        click.echo(printable_lines(_redacted(said.getvalue())), err=True, nl=False)
        return ExitCode.USAGE
    except click.ClickException as error:
        _say(error.format_message())
    except KeyboardInterrupt as interruption:
        # A terminal that was closed takes no last words.
        with suppress(OSError):
            _say(str(interruption) or "interrupted")
        return ExitCode(interruption.code) if isinstance(interruption, Interruption) else ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`… --json | head -1`): nothing to tell, and nowhere to tell it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, TypeError, RuntimeError, OSError, MemoryError) as error:
        _show_traceback_if_verbose()
        _say(_sentence(error))
    except Exception as error:
        _show_traceback_if_verbose()
        _say(f"a fault in photonflow ({type(error).__name__}: {error}): please report it with the output of -v")
    else:
        return ExitCode.DONE
    return ExitCode.FAILED


def configure_logging(verbosity: int) -> None:
    """Send the log to stderr: warnings only, with ``-v`` what happens, with ``-vv`` everything."""
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_PrintableFormatter("%(levelname)s %(name)s: %(message)s"))
    handler.addFilter(_hide_secrets)
    if verbosity < 2:
        # Not by the loggers' levels, which Dask sets anew when it is imported.
        handler.addFilter(_leave_out_engine)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    warnings.showwarning = _show_warning
    for name in LOGGED:
        logging.getLogger(name).setLevel(level)


def _leave_out_engine(record: logging.LogRecord) -> bool:
    """What a user must act on comes as an error of ours; their log has tracebacks of links that close at an end."""
    return record.name.partition(".")[0] not in ENGINE or record.levelno >= logging.CRITICAL


def _hide_secrets(record: logging.LogRecord) -> bool:
    record.msg, record.args = _redacted(record.getMessage()), ()
    return True


def _redacted(text: str) -> str:
    # Late, for `photonflow --help` would wait for all that comes with it.
    from pipeline.output.redaction import redacted

    return redacted(text)


def _prepare_stdout() -> None:
    """Let a result be printed wherever stdout goes: to nowhere if it is closed, with ? for what it can't spell."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (it stays open to the end)
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _prepare_helpers() -> None:
    """Keep the process that clears up after one that was killed from telling what it cleared up."""
    asked = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = ",".join([*([asked] if asked else []), "ignore:resource_tracker:UserWarning"])


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
    click.echo(f"photonflow: {printable(_redacted(message))}", err=True)


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _show_traceback_if_verbose() -> None:
    if logging.getLogger("workflows").isEnabledFor(logging.INFO):
        click.echo(printable_lines(_redacted(traceback.format_exc())), err=True, nl=False)
