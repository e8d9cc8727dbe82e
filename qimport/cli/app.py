"""The command group. Commands live in modules of their names, imported when they run: help stays instant."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Any, NoReturn

import click

from qimport.cli.failures import BROKEN_PIPE, explain, show_warning
from qimport.errors import unknown_name
from qimport.version import VERSION

COMMANDS: dict[str, str] = {
    "bench": "Time models beside other run-times.",
    "build": "Write an object file, its C header and an example program.",
    "cache": "Show the compiled models that are kept on disk, or remove them.",
    "check": "Say whether models can be compiled; every reason if not.",
    "inspect": "Show what a model consists of, at any stage.",
    "run": "Run a model on this machine.",
    "targets": "List what code can be built for.",
    "verify": "Compare a model's outputs with the TFLite interpreter's.",
}
"""Command -> one line about it."""


class Application(click.Group):
    """A group that knows its commands by name and turns every exception into a sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"qimport.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in the base class, with the nearest command for a wrong one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            raise click.UsageError(unknown_name("command", name, sorted(COMMANDS)), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run and end the process. A command returns its exit code, None for 0."""
        stdout = sys.stdout
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
        except BaseException as error:
            # click puts another stream where the reader has gone, and exits with 1: here "differs".
            code = explain(error) if sys.stdout is stdout else BROKEN_PIPE
        sys.exit(code or 0)


def _show_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"qimport {VERSION}")
        ctx.exit()


@click.group(
    cls=Application, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.pass_context
def app(context: click.Context) -> None:
    """Compile quantized TensorFlow Lite models to native code that gives the interpreter's exact bytes.

    Exit codes: 0 fine, 1 outputs differ, 2 malformed file, 3 unsupported model, 4 wrong target or argument,
    70 a bug of qimport.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _open_closed_streams() -> None:
    """Put the null device where a standard stream is closed: Python has None there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - lives as the process


def main() -> NoReturn:
    """Run the command line with the arguments of the process."""
    _open_closed_streams()
    warnings.showwarning = show_warning
    app.main(prog_name="qimport")
