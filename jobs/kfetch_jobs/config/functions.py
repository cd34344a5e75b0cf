"""Checks that ``module:function`` of a job exists. It parses the file and never runs it."""

from __future__ import annotations

import ast
import difflib
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path

from kfetch_jobs.config.yamlfile import display, suggestion

_KFETCH_PACKAGES = frozenset(("kfetch", "kfetch_jobs", "pyspark_kfetch"))


def code_directories(project_file: Path) -> list[Path]:
    """Returns the directories of a project's Python: beside its file, and above ``conf/``."""
    here = project_file.parent
    return [here, here.parent] if here.name == "conf" else [here]


def mistake(name: str, directories: Sequence[Path]) -> str | None:
    """Returns the mistake in ``module:function``; None if the project or a package has it."""
    module, function = name.split(":")
    if module.split(".")[0] in _KFETCH_PACKAGES:
        return f"the name {module} is taken by kfetch's own package: give the module another"
    file = _file(module, directories)
    if file is None:
        if _is_installed(module):
            return None
        searched = " and ".join(map(display, directories))
        near = difflib.get_close_matches(module, _modules(module, directories), n=1)
        hint = f"did you mean {near[0]}?" if near else f"write {module.replace('.', '/')}.py"
        return f"there is no module {module} in {searched}: {hint}"
    try:
        tree = ast.parse(file.read_bytes(), filename=str(file))
    except (OSError, SyntaxError, ValueError) as cause:
        line = getattr(cause, "lineno", None) or 1
        return f"{display(file)}:{line}: not Python: {getattr(cause, 'msg', None) or cause}"
    known = set(_names(tree))
    if function in known:
        return None
    public = [name for name in known if not name.startswith("_")]
    return f"{display(file)} has no function {function}: {suggestion(function, public)}"


def _is_installed(module: str) -> bool:
    """Whether an installed package has the module.

    Python takes any directory on its path for a package without ``__init__.py``. In such a
    directory only files count.
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
    """The modules of the same package, for a suggestion."""
    *package, _ = module.split(".")
    modules: set[str] = set()
    for path in (Path(directory, *package) for directory in directories):
        files = [*path.glob("*.py"), *(init.parent for init in path.glob("*/__init__.py"))]
        modules.update(".".join((*package, file.stem)) for file in files)
    return modules


def _names(tree: ast.Module) -> Iterator[str]:
    """The names that the module's top level defines, assigns or imports."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
