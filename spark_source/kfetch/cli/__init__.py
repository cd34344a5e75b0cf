"""``kfetch``: the command line. The only part of kfetch that imports typer.

kfetch has a few verbs by itself (``verbs``). Other distributions mount theirs through entry points
of the group ``kfetch.verbs``: each names a function that takes the typer.Typer. So there is one
command and one help.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from kfetch.cli import verbs
from kfetch.errors import BrokenPlugin, KfetchError

__all__ = ["command", "main"]

_ABOUT = "Read Kafka with Spark: jobs that stream from it, and tools to look at both."
_MORE = "kfetch-jobs adds verbs: demo, init, run and up for jobs, broker for a local Kafka."
_MISSING = "{name} may be a verb of kfetch-jobs, which is not installed: pip install kfetch-jobs"


def main() -> None:
    """Run the ``kfetch`` script. An expected error is one line on stderr; its class has the code
    to exit with."""
    try:
        command()(prog_name="kfetch")
    except KfetchError as error:
        print(f"kfetch: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


class _Group(TyperGroup):
    """Lists kfetch's own verbs last: a user of jobs needs them least."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all verbs, in the order of the help."""
        own = {verb.__name__ for verb in verbs.OWN}
        return sorted(super().list_commands(ctx), key=own.__contains__)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the verb. Without other distributions the error names the one that has more."""
        if args and self.get_command(ctx, args[0]) is None and len(self.commands) == len(verbs.OWN):
            ctx.fail(_MISSING.format(name=args[0]))
        return super().resolve_command(ctx, args)


@cache
def command() -> Callable[..., Any]:
    """Return the whole command line, a click command. Raises BrokenPlugin.

    It is made once, because typer takes 50 ms to make it of the annotations.
    """
    return build(entry_points(group="kfetch.verbs"))


def build(plugins: Iterable[EntryPoint]) -> Callable[..., Any]:
    """Make a command line of the verbs of other distributions, and then kfetch's own."""
    plugins = [*plugins]
    app = typer.Typer(
        name="kfetch",
        cls=_Group,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        help=_ABOUT if plugins else f"{_ABOUT}\n\n{_MORE}",
    )
    # A default, not Annotated: typer could not evaluate an annotation that names a local.
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
    except (Exception, SystemExit) as cause:  # it is code of another distribution
        distribution = plugin.dist.name if plugin.dist else plugin.value
        raise BrokenPlugin(
            f"the verbs of {distribution} cannot be loaded ({type(cause).__name__}: {cause})",
            action="install it anew, or uninstall it",
            distribution=distribution,
        ) from cause


def _version(requested: bool) -> None:
    if requested:
        from kfetch import __version__

        print(f"kfetch {__version__}")
        sys.exit(0)
