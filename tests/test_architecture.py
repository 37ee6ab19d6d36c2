"""The house: which way imports point, between folders, packages and past a package's door; its pages are true."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tools import tables

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("fedpriv", "clients", "server", "simulations")  # each may import itself and those before it
ORDER = {  # the packages and modules on each landing: each may import those before it
    "fedpriv": (
        "errors", "settings", "_base", "given", "registry", "bounds", "trust", "curves", "randomness", "mechanisms",
        "packed", "accounting", "channel", "records", "tolerance", "population", "certified", "releases", "aggregation",
        "attacks", "estimation", "studies", "wire", "masking", "node", "frontier", "auditing", "flower",
    ),
    "clients": ("data", "models", "robustness", "training", "node", "flower", "app"),
    "server": ("directory", "progress", "rounds", "nodes", "app"),
    "simulations": (
        "figures", "report", "flower", "runs", "audit", "certify", "sweep", "reproduce", "cli",
        "command_line",
    ),
}  # fmt: skip
LANDINGS = 50  # names directly in the four folders: more than that nobody overlooks
NOBODY_IMPORTS = {"tests", "benchmarks", "examples", "tools"}
MATHEMATICS = {
    "numpy",
    "scipy",
    "numba",
    "llvmlite",
    "randomgen",
    "threadpoolctl",
    "cryptography",
    "fedpriv",
    *sys.stdlib_module_names,
}
SOURCES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
DRAWERS = {  # what makes events: what draws what they are charged for, and whoever reads or writes one down in words
    "Event": {
        "fedpriv/accounting/event.py", "fedpriv/channel/__init__.py", "fedpriv/releases/__init__.py",
        "fedpriv/releases/hidden.py",
        "fedpriv/estimation/private_mean.py", "fedpriv/estimation/_budget.py", "fedpriv/certified/functional.py",
        "fedpriv/estimation/dp_ftrl.py",
    },
    "by_hand": {
        "simulations/cli/account.py", "simulations/reproduce/ptr/release.py",
        "simulations/reproduce/ptr/sampled.py", "fedpriv/flower/_accountant.py",  # what Flower's strategies draw
    },
    "encoded_packed": {"fedpriv/channel/__init__.py"},
    "encoded_rows": {"fedpriv/channel/encoding.py"},
}  # fmt: skip
FLOAT_NOISE = {  # who may draw noise in floats: none of it leaves a client or a curator as a release of theirs
    "fedpriv/attacks/_updates.py", "fedpriv/attacks/_data.py",  # what attackers do is nobody's privacy
    "fedpriv/certified/functional.py", "clients/models/randomised.py",  # noise kept on records, and of a model at hand
    "simulations/reproduce/stobatch/_printed.py",  # the same, as its paper prints it
    "fedpriv/studies/directions.py", "clients/data/reading.py",  # synthetic data
    "simulations/reproduce/prime/_runs.py",  # the same
    "fedpriv/estimation/tested.py",  # the same, that a probe looks at in the records' place
    "clients/models/_large_networks.py",  # weights to begin with
    "clients/data/features/_convolutions.py",  # public filters
    "clients/data/features/_drawn.py",  # public shapes
    "fedpriv/auditing/ranks.py",  # audits that are only simulated
}  # fmt: skip
FLOATS = {"normal", "laplace", "standard_normal", "multivariate_normal", "exponential", "standard_exponential"}
DOOR = "fedpriv/__init__.py"  # the one file that names other folders: to type checkers, and as strings
ONE_WORD = {  # public functions of one word, each with one meaning in the whole project
    "audit", "calibrate", "compose", "joint", "report", "resume", "run", "sweep", "main",  # the door, and commands
    "train", "mask", "introduce",  # what Flower calls
    "above", "limited", "reason", "curated", "stream", "compiled",
    "bernoulli", "binomial", "poisson", "skellam", "ternary",  # exact draws, by their distribution
}  # fmt: skip
FOR_FLOWER = "fedpriv.flower"  # the one package of fedpriv/ that knows Flower, which no other one imports
NOT_FOR_FEDPRIV = ("torch", "flwr", "ray", "matplotlib", "scipy.stats")  # scipy.stats takes half a second

Import = tuple[int, str]  # the line, and the module's full dotted name


@cache
def parsed(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.Module, package: str) -> Iterator[Import]:
    """Every import in a module of `package`, wherever it stands: at the top, in a function, or by name.

    >>> list(imports(ast.parse("def f():\\n    from scipy import stats"), "fedpriv"))
    [(2, 'scipy.stats')]
    >>> source = "from . import noise; from ..errors import real; import_module('ray.util')"
    >>> list(imports(ast.parse(source), "fedpriv.mechanisms"))
    [(1, 'fedpriv.mechanisms.noise'), (1, 'fedpriv.errors.real'), (1, 'ray.util')]
    """
    for node in ast.walk(tree):
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
    if str(file) == DOOR:
        return []
    room, package = file.parts[0], ".".join(file.parent.parts)
    faults = []
    for line, module in imports(parsed(path), package):
        if package == FOR_FLOWER and module.split(".")[0] == "flwr":
            continue
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
        return "fedpriv/ uses numpy, scipy, numba, randomgen, threadpoolctl, cryptography and the standard library only"
    return None


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    assert not broken(path), "\n".join(["the import rule (docs/architecture.md) is broken:", *broken(path)])


@pytest.mark.parametrize(
    ("room", "module"),
    [
        ("fedpriv", "torch.nn"),
        ("fedpriv", "scipy.stats.norm"),
        ("fedpriv", "clients.models"),
        ("clients", "server.app"),
        ("server", "simulations.flower.launch"),
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
        ("server", "fedpriv.randomness.cryptographic"),
        ("simulations", "server.app"),
    ],
)
def test_the_rule_allows(room: str, module: str) -> None:
    assert forbidden(room, module) is None


def module(path: Path) -> str:
    """A file's dotted name."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module(path): path for path in SOURCES}


def edges() -> Iterator[tuple[str, str]]:
    """Which of our modules imports which other one, wherever in it."""
    for name, path in MODULES.items():
        if str(path.relative_to(ROOT)) == DOOR:
            continue
        package = ".".join(path.relative_to(ROOT).parent.parts)
        for _, whole in imports(parsed(path), package):
            target = whole
            while target and target not in MODULES:
                target = target.rpartition(".")[0]
            if target and target != name:
                yield name, target


EDGES = sorted({(a, b) for a, b in edges() if a != "fedpriv"})  # whose door leads everywhere


def landing(name: str) -> tuple[str, int]:
    """The folder of a module, and the place in its order of what the module belongs to; a folder itself comes first."""
    folder, *inside = name.split(".")
    return folder, ORDER[folder].index(inside[0]) if inside else -1


def circles(graph: list[tuple[str, str]]) -> set[tuple[str, ...]]:
    """Sets of modules each of which imports, by way of others, each other one.

    >>> circles([("a", "b"), ("b", "a"), ("b", "c")])
    {('a', 'b')}
    """
    left, before = graph, None
    while before != left:  # who imports nothing that is left, or is imported by nothing left, is in no circle
        before, ends, starts = left, {a for a, _ in left}, {b for _, b in left}
        left = [(a, b) for a, b in left if b in ends and a in starts]
    reached = {a: {a} for a, _ in left}
    for _ in reached:
        for a, b in left:
            reached[a] |= reached[b]
    return {tuple(sorted(b for b in reached if a in reached[b] and b in reached[a])) for a in reached} - {
        (a,) for a in reached
    }


def test_every_name_on_a_landing_has_its_place_in_the_order() -> None:
    for folder, order in ORDER.items():
        assert {name.split(".")[1] for name in MODULES if name.startswith(f"{folder}.")} == set(order)


def test_packages_import_only_what_stands_before_them() -> None:
    against = {(a, b) for a, b in EDGES if landing(a)[0] == landing(b)[0] and landing(a)[1] < landing(b)[1]}
    assert not against


def test_no_modules_import_each_other_in_circles() -> None:
    assert not circles(EDGES)


def test_nobody_passes_a_package_s_door() -> None:
    """`_name` belongs to the package it is in; `fedpriv._base` to the project."""
    past = set()
    for name, target in EDGES:
        parts = target.removeprefix("fedpriv._base.").split(".")
        for depth, part in enumerate(parts):
            if part.startswith("_") and not f"{name}.".startswith(".".join(parts[:depth]) + "."):
                past.add((name, target))
    assert not past


def test_a_stranger_can_overlook_the_landings() -> None:
    assert sum(map(len, ORDER.values())) <= LANDINGS


def functions() -> Iterator[tuple[Path, str, int, int]]:
    """Every function: its file, its name, lines of its body without the docstring, how often the file names it."""
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Name | ast.Attribute)
        )
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[ast.get_docstring(node) is not None and len(node.body) > 1]
                yield path, node.name, (node.end_lineno or 0) - first.lineno + 1, named[node.name]


def test_functions_and_modules_fit_on_a_page() -> None:
    lengths = sorted(length for _, _, length, _ in functions())
    assert lengths[-1] <= 40
    assert lengths[int(0.9 * len(lengths))] <= 14
    assert not [path for path in SOURCES if path.read_text(encoding="utf-8").count("\n") > 300]


def test_functions_exist_for_their_names_not_because_their_caller_grew() -> None:
    private = [count for _, name, _, count in functions() if name.startswith("_") and not name.startswith("__")]
    assert private.count(1) <= 0.35 * len(private)


def test_a_public_function_says_what_it_is_without_its_module() -> None:
    """One word is for the public door, for what a command or Flower calls so, and for a few used everywhere."""
    found = {
        f"{path.relative_to(ROOT).as_posix()}: {node.name}"
        for path in SOURCES
        if not path.stem.startswith("_") or path.stem == "__init__"
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and "_" not in node.name and node.name not in ONE_WORD
    }
    assert not found


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is_for(name: str) -> None:
    assert tables.described(name.split(".")[0])[name], f"{name} has no docstring"


@pytest.mark.parametrize("page", [*tables.pages(), tables.SCHEMA], ids=lambda path: str(path.relative_to(ROOT)))
def test_tables_that_come_from_the_code_are_fresh(page: Path) -> None:
    assert tables.fresh(page) == page.read_text(encoding="utf-8"), f"{page.relative_to(ROOT)} is stale: make tables"


def test_the_map_names_all_that_stands_on_the_landings() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = set(re.findall(r"^      (\w+)(?:/|\.py) ", page, re.MULTILINE))
    assert drawn == {name for order in ORDER.values() for name in order}


def test_no_other_file_of_fedpriv_names_another_folder() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in SOURCES
        if path.is_relative_to(ROOT / "fedpriv")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and is_elsewhere(node.value)
    }
    assert found == {DOOR}


def is_elsewhere(word: str) -> bool:
    """Whether a string names a module of another folder than fedpriv/, or something in one."""
    room, *inside = word.partition(":")[0].split(".")
    place = ROOT.joinpath(room, *inside)
    return room in ROOMS[1:] and bool(inside) and (place.is_dir() or place.with_suffix(".py").is_file())


def test_fedpriv_loads_without_torch_flower_or_plots() -> None:
    modules = [name for name in MODULES if name.split(".")[0] == "fedpriv" and not name.startswith(FOR_FLOWER)]
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
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    }
    assert callers == DRAWERS[name]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_noise_of_what_leaves_is_drawn_exactly(path: Path) -> None:
    """Float noise tells its sum by low bits (docs/proofs/grid.md): `fedpriv.randomness.grid` adds what is released."""
    drawn = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node.func)}"
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in FLOATS
        and ast.unparse(node.func.value) not in ("Tradeoff", "densities", "replacing")
    ]
    assert bool(drawn) == (path.relative_to(ROOT).as_posix() in FLOAT_NOISE), drawn


@pytest.mark.parametrize("path", [path for path in SOURCES if path.name == "__init__.py"], ids=lambda p: str(p.parent))
def test_no_name_of_a_package_is_that_of_a_module_in_it(path: Path) -> None:
    """Importing the module would put it in the place of the other."""
    inside = {each.stem for each in path.parent.iterdir() if each.suffix == ".py" or each.is_dir()}
    named: set[str] = set()
    for node in parsed(path).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                named.add(name)
            case ast.Assign(targets=targets):
                named |= {each.id for each in targets if isinstance(each, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                named.add(name)
    assert not named & inside


def test_what_lingers_is_there() -> None:
    """`make test-fast` leaves out what tests/lingering.txt lists: a name that is none would only look as if it did."""
    for name in (ROOT / "tests" / "lingering.txt").read_text(encoding="utf-8").splitlines():
        file, *_, own = name.split("::")
        *_, own = own.split(".")  # a doctest's name says where it stands
        kinds = ast.FunctionDef | ast.ClassDef
        assert any(isinstance(node, kinds) and node.name == own for node in ast.walk(parsed(ROOT / file))), name
