"""The import rule: simulations → server → clients → fedpriv, and fedpriv needs numpy and its kin alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("fedpriv", "clients", "server", "simulations")  # each may import itself and those before it
NOBODY_IMPORTS = {"tests", "benchmarks"}
MATHEMATICS = {"numpy", "scipy", "numba", "llvmlite", "threadpoolctl", "fedpriv", *sys.stdlib_module_names}
MAP = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SOURCES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
DRAWERS = {  # what makes events: what draws what they are charged for, and whoever reads or writes one down in words
    "Event": {
        "fedpriv/event.py", "fedpriv/channel.py", "fedpriv/private_sums/__init__.py", "fedpriv/aggregation/private.py",
        "fedpriv/estimation/budget.py", "fedpriv/certified/functional.py",
    },
    "by_hand": {
        "simulations/account_commands.py", "simulations/reproduce/ptr_release.py",
        "simulations/reproduce/ptr_sampled.py",
    },
    "encoded_packed": {"fedpriv/channel.py"},
    "encoded": {"fedpriv/encoding.py"},
}  # fmt: skip
FLOAT_NOISE = {  # who may draw noise in floats: none of it leaves a client or a curator as a release of theirs
    "fedpriv/attacks/updates.py", "fedpriv/attacks/data.py",  # what attackers do is nobody's privacy
    "fedpriv/certified/functional.py", "clients/randomised.py",  # noise kept on records, and of a model at hand
    "simulations/reproduce/stobatch_printed.py",  # the same, as its paper prints it
    "fedpriv/directions.py", "clients/reading.py", "simulations/reproduce/prime_runs.py",  # synthetic data
    "clients/large_networks.py",  # weights to begin with
    "fedpriv/audit/ranks.py",  # audits that are only simulated
}  # fmt: skip
FLOATS = {"normal", "laplace", "standard_normal", "multivariate_normal", "exponential", "standard_exponential"}
NOT_FOR_FEDPRIV = ("torch", "flwr", "ray", "matplotlib", "randomgen", "scipy.stats")  # scipy.stats takes half a second

Import = tuple[int, str]  # the line, and the module's full dotted name


def imports(source: str, package: str) -> Iterator[Import]:
    """Every import in a module of `package`, wherever it stands: at the top, in a function, or by name.

    >>> list(imports("def f():\\n    from scipy import stats", "fedpriv"))
    [(2, 'scipy.stats')]
    >>> list(imports("from . import noise; from ..errors import real; import_module('ray.util')", "fedpriv.mechanisms"))
    [(1, 'fedpriv.mechanisms.noise'), (1, 'fedpriv.errors.real'), (1, 'ray.util')]
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, name.name) for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                parents = package.split(".")
                above = parents[: len(parents) - level + 1] if level else []
                start = ".".join([*above, *([module] if module else [])])
                yield from ((node.lineno, f"{start}.{name.name}") for name in names)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name
            case ast.Attribute(value=ast.Name(id="scipy"), attr=name):
                yield node.lineno, f"scipy.{name}"


def broken(path: Path) -> list[str]:
    """The imports of one file that break the rule, each as `file:line: what and why`."""
    file = path.relative_to(ROOT)
    room, package = file.parts[0], ".".join(file.parent.parts)
    faults = []
    for line, module in imports(path.read_text(encoding="utf-8"), package):
        if reason := forbidden(room, module):
            faults.append(f"{file}:{line}: imports {module}, but {reason}")
    return faults


def forbidden(room: str, module: str) -> str | None:
    """Why a room may not import a module, or None where it may."""
    top = module.split(".")[0]
    if top in NOBODY_IMPORTS:
        return f"nothing imports {top}/"
    if top in ROOMS[ROOMS.index(room) + 1 :]:
        return f"{room}/ may import only itself and {', '.join(ROOMS[: ROOMS.index(room)]) or 'nothing of ours'}"
    if room == "fedpriv" and module.startswith("scipy.stats"):
        return "scipy.stats takes half a second to load: scipy.special has the functions"
    if room == "fedpriv" and top not in MATHEMATICS:
        return "fedpriv/ uses numpy, scipy, numba, threadpoolctl and the standard library only"
    return None


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    assert not broken(path), "\n".join(["the import rule (docs/architecture.md) is broken:", *broken(path)])


@pytest.mark.parametrize(
    ("room", "module"),
    [
        ("fedpriv", "torch.nn"),
        ("fedpriv", "scipy.stats.norm"),
        ("fedpriv", "clients.noise"),
        ("clients", "server.app"),
        ("server", "simulations.launch"),
        ("simulations", "tests.conftest"),
        ("clients", "benchmarks.run"),
    ],
)
def test_the_rule_forbids(room: str, module: str) -> None:
    assert forbidden(room, module)


@pytest.mark.parametrize(
    ("room", "module"),
    [
        ("fedpriv", "scipy.special.ndtr"),
        ("fedpriv", "math"),
        ("clients", "torch"),
        ("server", "clients.noise"),
        ("simulations", "server.app"),
    ],
)
def test_the_rule_allows(room: str, module: str) -> None:
    assert forbidden(room, module) is None


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_room_is_on_the_map(path: Path) -> None:
    name, *inside = path.relative_to(ROOT).parts[1:]
    name += "/" if inside else ""
    assert name == "__init__.py" or f"`{name}`" in MAP, f"docs/architecture.md does not name {path.relative_to(ROOT)}"


def test_fedpriv_loads_without_torch_flower_or_plots() -> None:
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in SOURCES]
    modules = [name for name in names if name.split(".")[0] == "fedpriv"]
    script = f"""
import importlib, sys
for module in {modules!r}:
    importlib.import_module(module)
    if found := {set(NOT_FOR_FEDPRIV)!r} & set(sys.modules):
        sys.exit(f"importing {{module}} loads {{', '.join(sorted(found))}}")
"""
    outcome = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert outcome.returncode == 0, outcome.stderr.strip()


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    somewhere = re.compile(r"(?<![\w.~*-])/(?:root|home|Users|work)/\w|/tmp/v[a-z]\b|file:///\w")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in tracked()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="ignore").splitlines(), 1)
        if somewhere.search(line)
    ]
    assert not found, "\n".join(["these lines name a path that exists on one machine only:", *found])


def tracked() -> list[Path]:
    """The files git keeps or would keep; where there is no git, everything but environments and caches."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listing.returncode == 0:
        files = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        own = re.compile(r"(?!\.venv|\.\w+_cache|\.git$|\.hypothesis|__pycache__)")
        files = [path for path in ROOT.rglob("*") if all(own.match(part) for part in path.relative_to(ROOT).parts)]
    return [path for path in files if path.is_file()]


@pytest.mark.parametrize("name", DRAWERS)
def test_what_is_drawn_and_what_is_charged_are_made_in_one_place(name: str) -> None:
    """Only a channel turns updates into messages, and an event is made by the object that draws."""
    callers = {
        path.relative_to(ROOT).as_posix()
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    }
    assert callers == DRAWERS[name]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_noise_of_what_leaves_is_drawn_exactly(path: Path) -> None:
    """Float noise tells its sum by its low bits (docs/proofs/grid.md): `fedpriv.fine_grid` adds what is released."""
    drawn = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node.func)}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in FLOATS
        and ast.unparse(node.func.value) not in ("Tradeoff", "densities", "replacing")
    ]
    assert bool(drawn) == (path.relative_to(ROOT).as_posix() in FLOAT_NOISE), drawn
