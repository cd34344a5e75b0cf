"""Checks that ``module:function`` of a job exists. It parses the file and never runs it."""

from __future__ import annotations

import ast
import difflib
import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kfetch_jobs.config.yamlfile import display, suggestion

_KFETCH_PACKAGES = frozenset(("kfetch", "kfetch_jobs", "pyspark_kfetch"))


def code_directories(project_file: Path) -> list[Path]:
    """Returns the project file's directory, and its parent too if the directory is ``conf``."""
    here = project_file.parent
    return [here, here.parent] if here.name == "conf" else [here]


def mistake(name: str, directories: Sequence[Path]) -> str | None:
    """Returns what is wrong with ``module:function``, None if nothing is.

    Of an installed package, only the name is checked.
    """
    module, function = name.split(":")
    if module.split(".")[0] in _KFETCH_PACKAGES:
        return f"kfetch itself has a package {module}: give your module another name"
    file = _file(module, directories)
    if file is None:
        if _is_installed(module):
            return None
        searched = " and ".join(map(display, directories))
        near = difflib.get_close_matches(module, _modules(module, directories), n=1)
        hint = f"did you mean {near[0]}?" if near else f"create {module.replace('.', '/')}.py there"
        return f"there is no module {module} in {searched}: {hint}"
    try:
        tree = ast.parse(file.read_bytes(), filename=str(file))
    except OSError as cause:
        return f"{display(file)} can't be read: {cause.strerror}"
    except (SyntaxError, ValueError) as cause:
        line = getattr(cause, "lineno", None) or 1
        return f"{display(file)}:{line}: not Python: {getattr(cause, 'msg', None) or cause}"
    known = set(_names(tree.body))
    if function in known:
        return None
    public = [name for name in known if not name.startswith("_")]
    return f"{display(file)} has no function {function}: {suggestion(function, public)}"


def _is_installed(module: str) -> bool:
    """Returns whether an installed package has the module.

    Python imports any directory on its path as a package. So a directory without ``__init__.py``
    must have the module's file.
    """
    package, _, rest = module.partition(".")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is not None:
        return spec is not None
    paths = [Path(path) for path in spec.submodule_search_locations or ()]
    return bool(rest) and _file(rest, paths) is not None


def _file(module: str, directories: Sequence[Path]) -> Path | None:
    path = Path(*module.split("."))
    for directory in directories:
        for candidate in (directory / path.with_suffix(".py"), directory / path / "__init__.py"):
            if candidate.is_file():
                return candidate
    return None


def _modules(module: str, directories: Sequence[Path]) -> set[str]:
    """Returns the modules of the same package, for a suggestion."""
    *package, _ = module.split(".")
    modules: set[str] = set()
    for path in (Path(directory, *package) for directory in directories):
        files = [*path.glob("*.py"), *(init.parent for init in path.glob("*/__init__.py"))]
        modules.update(".".join((*package, file.stem)) for file in files)
    return modules


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yields the names that the module's top level defines, assigns or imports, also below ``if``.

    What functions and classes have inside is theirs alone.
    """
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        else:
            yield from _names(ast.iter_child_nodes(node))
