"""The command ``kfetch``. No other part of kfetch imports typer.

``verbs`` has kfetch's own verbs; ``check``, ``checkpoints`` and ``samples`` have some of them.
``arguments``, ``source_options`` and ``properties`` parse, and ``text`` and ``checkpoint_text``
print. Other distributions add theirs with entry points of the group ``kfetch.verbs``. An entry
point names a function that takes the typer.Typer.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from kfetch.admin.cli import verbs
from kfetch.errors import BrokenPlugin, KfetchError
from kfetch.storage.processes import run_as_child

__all__ = ["command", "main"]

_ABOUT = "Run Spark jobs that read Kafka, and look at jobs, checkpoints and clusters."
_MORE = "kfetch-jobs adds verbs: demo, init, run and up for jobs, broker for a local Kafka."
_MISSING = "{name} may be a verb of kfetch-jobs, which is not installed: pip install kfetch-jobs"


def main() -> None:
    """Run the command. A KfetchError ends it with one line on stderr and its ``exit_code``.

    So does a file, or an object in a store, that can't be read or written.
    """
    run_as_child()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A file or a pipe gets each line at once, and "?" for a letter that its encoding lacks.
        sys.stdout.reconfigure(line_buffering=True, errors="replace")
    try:
        try:
            command()(prog_name="kfetch")
        except OSError as cause:
            if cause.filename is None:
                raise
            name = str(cause.filename)
            raise KfetchError(f"{name} can't be used: {cause.strerror}", file=name) from None
    except KfetchError as error:
        print(f"kfetch: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


class _Group(TyperGroup):
    """Lists kfetch's own verbs last, because users of kfetch-jobs need them least."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of all verbs, in the order of the help."""
        return sorted(super().list_commands(ctx), key=verbs.OWN.__contains__)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the verb. Without other distributions the error names the one that has more."""
        if args and self.get_command(ctx, args[0]) is None and len(self.commands) == len(verbs.OWN):
            ctx.fail(_MISSING.format(name=args[0]))
        return super().resolve_command(ctx, args)


@cache
def command() -> Callable[..., Any]:
    """Returns the click command with all verbs. Raises BrokenPlugin.

    The result is cached, because typer takes 50 ms to build it.
    """
    return build(entry_points(group="kfetch.verbs"))


def build(plugins: Iterable[EntryPoint]) -> Callable[..., Any]:
    """Returns a click command with the plugins' verbs and kfetch's own."""
    plugins = [*plugins]
    app = typer.Typer(
        name="kfetch",
        cls=_Group,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        help=_ABOUT if plugins else f"{_ABOUT}\n\n{_MORE}",
    )
    # A default value, because typer can't evaluate an Annotated that names a local function.
    option = typer.Option(False, "--version", help="Print the version.", callback=_version)

    @app.callback()
    def root(version: bool = option) -> None:
        pass

    for plugin in plugins:
        _mount(plugin, app)
    verbs.add(app)
    return get_command(app)


def _mount(plugin: EntryPoint, app: typer.Typer) -> None:
    try:
        plugin.load()(app)
    except (Exception, SystemExit) as cause:  # another distribution's code may raise anything
        distribution = plugin.dist.name if plugin.dist else plugin.value
        raise BrokenPlugin(
            f"kfetch cannot load the verbs of {distribution} ({type(cause).__name__}: {cause})",
            action="reinstall it, or uninstall it",
            distribution=distribution,
        ) from cause


def _version(requested: bool) -> None:
    if requested:
        from kfetch import __version__

        print(f"kfetch {__version__}")
        sys.exit(0)
