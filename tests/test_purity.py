"""Pure modules: import-linter contracts name them, and they open no file and read no clock."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE_ROOTS = {"kfetch": "spark_source", "kfetch_jobs": "jobs"}
CLAIMS_PURITY = re.compile(r"\bpure\b(?! Python)", re.IGNORECASE)
CORE_CONTRACT = "The core has no socket, thread or clock, and no Spark, through all its imports"
IMPURE_CALLS = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes"),
    *("now", "utcnow", "today"),
}
"""No import shows these: they are builtins, or methods of classes that pure code may use."""
PERHAPS_IMPURE = re.compile(rf"\b({'|'.join(IMPURE_CALLS)})\(")


def contracts() -> list[dict[str, object]]:
    """Returns the contracts of import-linter."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return list(pyproject["tool"]["importlinter"]["contracts"])


def files_of(module: str) -> list[str]:
    """Returns the files of a module or a package, as paths below the repository."""
    path = ROOT.joinpath(SOURCE_ROOTS[module.partition(".")[0]], *module.split("."))
    files = path.glob("**/*.py") if path.is_dir() else [path.with_suffix(".py")]
    return [str(file.relative_to(ROOT)) for file in files]


def files_without_clock() -> Iterator[str]:
    """Yields the files of modules that a contract forbids to import ``time``."""
    for contract in contracts():
        if "time" in contract.get("forbidden_modules", ()):  # type: ignore[operator]
            for module in contract["source_modules"]:  # type: ignore[attr-defined]
                yield from files_of(module)


def claims_purity(path: Path) -> bool:
    """Returns whether a module's docstring says that the module is pure."""
    text = path.read_text()
    if CLAIMS_PURITY.search(text) is None:  # parsing all files would take a second
        return False
    return CLAIMS_PURITY.search(ast.get_docstring(ast.parse(text)) or "") is not None


def called_names(path: Path) -> set[str]:
    """Returns the last names of all calls in a file that may have an impure one."""
    text = path.read_text()
    if PERHAPS_IMPURE.search(text) is None:
        return set()
    nodes = ast.walk(ast.parse(text))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return {ast.unparse(call.func).rpartition(".")[2] for call in calls}


def test_modules_that_claim_purity_have_a_contract() -> None:
    """A contract of import-linter names each module whose docstring says that it is pure."""
    files = [file for package in SOURCE_ROOTS for file in files_of(package)]
    modules = [file for file in files if not file.endswith("__init__.py")]
    pure = {file for file in modules if claims_purity(ROOT / file)}

    assert len(pure) > 10
    assert set() == pure - set(files_without_clock())


def test_the_core_imports_no_operating_system() -> None:
    """The contract of the core forbids ``os`` and ``pathlib`` too, through all its imports."""
    (core,) = [contract for contract in contracts() if CORE_CONTRACT == contract["name"]]
    forbidden = set(core["forbidden_modules"])  # type: ignore[call-overload]

    assert set() == {"os", "pathlib", "random", "socket", "threading", "time"} - forbidden
    assert not core.get("allow_indirect_imports", False)


def test_pure_files_open_no_file_and_read_no_clock() -> None:
    """A pure file calls no function that opens a file or reads the time."""
    impure = {file: called_names(ROOT / file) & IMPURE_CALLS for file in {*files_without_clock()}}
    assert {} == {file: names for file, names in impure.items() if names}
