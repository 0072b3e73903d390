"""The table of commands, and ``main``: arguments in, exit code out.

The modules of the commands import nothing heavy; each command imports what it needs when it is called, so that
``evodevo --help`` stays quick.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Annotated, TextIO

import typer

from evodevo import __version__
from evodevo.cli import output
from evodevo.cli.drive.ablate import ablate
from evodevo.cli.drive.evolve import evolve
from evodevo.cli.drive.fit import fit
from evodevo.cli.drive.grow import grow
from evodevo.cli.drive.resume import resume
from evodevo.cli.drive.train import COMMAND as train_class
from evodevo.cli.drive.train import train
from evodevo.cli.extend import COMMAND as extend
from evodevo.cli.failures import TerminatedError, explain
from evodevo.cli.keep.repair import repair
from evodevo.cli.keep.replay import replay
from evodevo.cli.keep.store import store
from evodevo.cli.look.cost import cost
from evodevo.cli.look.diff import diff
from evodevo.cli.look.front import front
from evodevo.cli.look.lineage import lineage
from evodevo.cli.look.pick import pick
from evodevo.cli.look.report import report
from evodevo.cli.look.show import show
from evodevo.cli.look.status import status
from evodevo.cli.look.trace import trace
from evodevo.cli.start.demo import demo
from evodevo.cli.start.doctor import doctor
from evodevo.cli.start.recipes import recipes
from evodevo.cli.use.evaluate import evaluate
from evodevo.cli.use.export import export
from evodevo.cli.use.generate import generate
from evodevo.cli.use.predict import predict
from evodevo.errors import ExitCode

app = typer.Typer(
    name="evodevo",
    help="Neural networks that design themselves.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Begin": (doctor, demo),
    "Search and train": (fit, evolve, train, grow, ablate, resume),
    "Look": (status, front, pick, show, diff, lineage, trace, report, cost),
    "Use": (predict, generate, evaluate, export),
    "Keep": (replay, repair),
}
CLASSES = {train: train_class, grow: train_class}
for _panel, _commands in PANELS.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel, cls=CLASSES.get(_command))(_command)
app.add_typer(recipes, name="recipes", rich_help_panel="Begin")
app.add_typer(extend, name="extend", rich_help_panel="Search and train")
app.add_typer(store, name="store", rich_help_panel="Keep")


def _version(wanted: bool) -> None:
    if wanted:
        output.line(f"evodevo {__version__}")
        raise typer.Exit


@app.callback()
def evodevo(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Neural networks that design themselves: evolve language-model backbones, look at them, use them."""


def run(arguments: list[str]) -> int:
    """Run one command line.

    Returns:
        The exit code. Errors have been printed on stderr.
    """
    streams = sys.stdout, sys.stderr
    try:
        # Without arguments the commands are listed; that is not an error.
        answer = typer.main.get_command(app).main(arguments or ["--help"], "evodevo", standalone_mode=False)
        output.close_quietly()
    except output.ReaderGoneError:
        return ExitCode.SUCCESS
    except SystemExit as error:
        return _broken_pipe(error, arguments, streams)
    except typer.Abort:
        return explain(KeyboardInterrupt(), arguments)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        where = context.command_path if context else "evodevo"
        output.words(f"evodevo: {output.one_line(error.format_message()).rstrip('.')}. See: {where} --help")
        return error.exit_code
    except (Exception, KeyboardInterrupt, TerminatedError) as error:
        return explain(error, arguments)
    if type(answer) is int and answer == ExitCode.INTERRUPTED:
        # A plain number is typer's, which catches Ctrl-C; commands that stopped and told so answer an ``ExitCode``.
        return explain(KeyboardInterrupt(), arguments)
    return answer if isinstance(answer, int) else ExitCode.SUCCESS


def _broken_pipe(error: SystemExit, arguments: list[str], streams: tuple[TextIO, TextIO]) -> int:
    """The exit code where a library ends the process because of a broken pipe.

    rich prints the help, and ends the process where the reader of it has gone. typer does so for every broken pipe in a
    command, and silences both streams first: such a pipe is an error like any other.

    Raises:
        SystemExit: it has another reason.
    """
    if not isinstance(error.__context__, BrokenPipeError):
        raise error
    if (sys.stdout, sys.stderr) == streams:
        return ExitCode.SUCCESS
    sys.stdout, sys.stderr = streams
    if not arguments or {"--help", "-h"} & set(arguments):  # which writes to nothing else
        return ExitCode.SUCCESS
    return explain(error.__context__, arguments)


def main() -> None:
    """Entry point of the console script."""
    signal.signal(signal.SIGTERM, _terminate)
    output.open_missing_streams()
    if sys.argv[1:] and sys.argv[1] in {look.__name__ for look in PANELS["Look"]}:
        # These read up to hundreds of thousands of rows, and hold them to their end: to search them for garbage again
        # and again takes a third of their time.
        gc.disable()
    code = run(sys.argv[1:])
    with suppress(output.ReaderGoneError, OSError):  # what failed before may still be in a buffer
        output.close_quietly()
    gc.freeze()  # else the interpreter looks through everything once more at its end
    sys.exit(code)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise TerminatedError
