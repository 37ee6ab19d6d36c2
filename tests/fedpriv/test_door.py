"""The public door: what `import fedpriv as fp` gives and loads, and what it says where another's folder is first."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpriv as fp
from fedpriv.errors import FedprivError
from simulations.command_line import COMMANDS, main, parser_of

ROOT = Path(__file__).parents[2]
HEAVY = ("numba", "torch", "flwr", "ray", "matplotlib", "sklearn", "scipy.optimize", "scipy.stats")


def loaded(program: str, *, cwd: Path | None = None) -> set[str]:
    """The modules that a program has loaded when it ends."""
    told = "\nimport sys as _sys\nprint('\\n'.join(_sys.modules), file=_sys.stderr)\n"
    done = python(program + told, cwd or ROOT)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def python(program: str, cwd: Path, *, path: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A program from standard input, as a notebook has none of `if __name__`; the directory is first on its path."""
    environment = os.environ | {"PYTHONPATH": str(path)}
    return subprocess.run(
        [sys.executable, "-"], input=program, cwd=cwd, env=environment, capture_output=True, text=True
    )


def test_every_name_is_there_and_is_told() -> None:
    for name in fp.__all__:
        assert getattr(fp, name) is not None
    assert sorted(fp.__all__) == fp.__all__ == dir(fp)
    with pytest.raises(AttributeError, match="module 'fedpriv' has no attribute 'runn'"):
        fp.runn  # noqa: B018


def test_type_checkers_see_what_is_looked_up() -> None:
    tree = ast.parse((ROOT / "fedpriv" / "__init__.py").read_text(encoding="utf-8"))
    seen = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for block in tree.body
        if isinstance(block, ast.If)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {name: path.replace(":", ".") for name, path in fp._NAMES.items()}
    for room in ("fedpriv", "clients", "server", "simulations"):
        assert (ROOT / room / "py.typed").exists()


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert fp.__version__ == project["version"]
    assert project["scripts"]["fedpriv"] == "fedpriv:main"


@pytest.mark.parametrize(
    ("program", "kept_out"),
    [
        ("import fedpriv as fp", ("numpy", "fedpriv.errors", "pathlib", "importlib.metadata", *HEAVY)),
        ("import fedpriv as fp; fp.Study", ("clients", "server", *HEAVY)),
        ("import fedpriv as fp; fp.Tradeoff; fp.Account; fp.Ledger; fp.mechanisms", ("clients", "server", *HEAVY)),
        ("import sys; sys.argv[1:] = []; from fedpriv import main; main()", ("numpy", "clients", "server", *HEAVY)),
        (
            "import sys; sys.argv[1:] = 'account Binomial clip=1 scale=4 trials=2 --rounds 9'.split()\n"
            "from fedpriv import main; main()",
            ("clients", "server", *set(HEAVY) - {"scipy.optimize"}),  # which finds a published value
        ),
    ],
)
def test_no_more_is_loaded_than_is_used(program: str, kept_out: tuple[str, ...]) -> None:
    assert not loaded(program) & set(kept_out)


def test_a_command_loads_its_own_module_alone() -> None:
    rooms = {f"simulations.cli.{module}" for module, _ in COMMANDS.values()}
    found = loaded("from simulations.command_line import parser_of\nparser_of('tolerance')")
    assert found & rooms == {"simulations.cli.tolerance", "simulations.cli.account"}  # whose --compare it has


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_where_the_table_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        parser_of(name).parse_args([name, "--help"])
    assert capsys.readouterr().out.startswith(f"usage: fedpriv {name}")


def test_all_commands_are_told_with_what_they_are_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert all(f"{name} {words}" in shown for name, (_, words) in COMMANDS.items())


# Studies


FEW = ["clients.count=60", "run.rounds=2"]


def test_a_script_without_a_guard_runs_goes_on_and_reports(tmp_path: Path) -> None:
    program = f"""
import fedpriv as fp

class Half:
    def on_updates(self, updates, view):
        return updates / 2

run = fp.run(fp.read_study("digits", {FEW!r}), "one", overrides=["attack.kind='__main__:Half'"], quiet=True)
assert (len(run.rounds), run.ended) == (2, "finished")
assert len(fp.resume("one", quiet=True).rounds) == 2
assert fp.read_run("one").header == run.header
assert fp.report("one") == run.directory / "report" / "index.html"
assert fp.audit(run, canaries=60, quiet=True)["study"] == run.header["study"]
assert fp.run("digits", overrides={FEW!r}, quiet=True).directory.as_posix() == "runs/digits"
print("done")
"""
    done = python(program, tmp_path)
    assert done.stdout == "done\n", done.stderr


@pytest.mark.parametrize("driver", ["direct", pytest.param("flower", marks=[pytest.mark.flower, pytest.mark.slow])])
def test_both_drivers_give_the_records_of_the_command(driver: str, tmp_path: Path) -> None:
    sets = [word for each in FEW for word in ("--set", each)]
    assert main(["run", "digits", *sets, "--driver", "direct", "--quiet", "--out", str(tmp_path / "command")]) == 0
    run = fp.run("digits", tmp_path / "door", driver=driver, overrides=FEW, quiet=True)
    same = (tmp_path / "command" / "records.jsonl").read_bytes()
    assert (run.directory / "records.jsonl").read_bytes() == same


def test_what_cannot_be_run_is_an_error_in_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FedprivError, match="clients has no key 'cuont'"):
        fp.run("digits", tmp_path / "run", overrides=["clients.cuont=3"], quiet=True)
    with pytest.raises(FedprivError, match="driver 'ray' is unknown; choices: flower, direct"):
        fp.run("digits", tmp_path / "run", driver="ray")
    with pytest.raises(FedprivError, match="holds no run to go on with"):
        fp.resume(tmp_path / "run")
    with pytest.raises(FedprivError, match="Plain promises nothing"):
        fp.audit("digits", overrides=["privacy={mechanism={kind='Plain'}}", "aggregation.kind=Mean"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("study", "overrides", "words"),
    [
        ({}, (), "a study is read from a file"),
        (None, (), "a study is read from a file"),
        (5, (), "a study is read from a file"),
        ({"a": 1}, (), "study: the study has no table 'a'"),
        ({5: 1}, (), "study: a setting's path is table.key, got 5"),
        ("digits", 7, "overrides are a dict"),
        ("digits", "run.rounds=3", "overrides are a dict"),
        ("digits", [5], "takes table.key=value, got 5"),
        ("digits", {"run.": 3}, "a setting's path is table.key, got 'run.'"),
        ("digits", {"run.rounds": 1.5}, "run.rounds must be a whole number"),
        ("digits", {"attack": None}, "attack must be a table, got None"),
    ],
)
def test_a_study_of_a_dict_is_checked_like_any_other(study: Any, overrides: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(FedprivError, match=words):
        fp.run(study, tmp_path / "run", overrides=overrides, quiet=True)
    assert not list(tmp_path.iterdir())


def test_a_dict_a_text_and_words_say_the_same_study() -> None:
    nested = {"name": "study", "data": {"kind": "Digits"}, "clients": {"count": np.int64(9)}, "run": {"rounds": 2}}
    text = 'data.kind = "Digits"\nclients.count = 9\nrun.rounds = 2\n'
    flat = {"name": "study", "data.kind": "Digits", "clients.count": 9, "run.rounds": 2}
    studies = [fp.read_study(source) for source in (nested, flat, text)]
    studies.append(fp.read_study(studies[0], {}))
    assert len({study.id for study in studies}) == 1
    assert fp.read_study("digits", {"run": {"rounds": 3}}) == fp.read_study("digits", ["run.rounds=3"])
    assert fp.read_study(studies[0], {"run.rounds": 3}).clients.count == 9


def test_a_grid_is_a_dict_of_lists() -> None:
    with pytest.raises(FedprivError, match="a grid is a dict of lists by path, got 'runs/x'; a directory is named"):
        fp.sweep("digits", "runs/x")  # type: ignore[arg-type]
    with pytest.raises(FedprivError, match="seed must be a list of values, got 3"):
        fp.sweep("digits", {"run.seed": 3})  # type: ignore[dict-item]
    with pytest.raises(FedprivError, match="second argument is a dict of them, or the directory"):
        fp.run("digits", {"run.rounds": 1}, overrides={"run.rounds": 2})


# Another's folder


@pytest.mark.parametrize("name", ["clients", "server", "simulations"])
@pytest.mark.parametrize("kind", ["package", "module"])
def test_another_of_that_name_is_named_with_what_to_do(name: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    file = tmp_path / name / "__init__.py" if kind == "package" else tmp_path / f"{name}.py"
    file.write_text("MINE = 1\n")
    line = f"package '{name}' is {file}, where fedpriv needs its own in {ROOT / name}: rename that one, or keep its "
    done = python("import fedpriv as fp\nfp.run('digits')", tmp_path)
    assert done.stderr.splitlines()[-1].startswith(f"fedpriv.errors.FedprivError: {line}")
    done = python("import sys\nfrom fedpriv import main\nsys.exit(main())", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"fedpriv: {line}")
    assert done.stderr.count("\n") == 1


def test_what_needs_no_study_to_be_run_works_beside_anothers_folders(tmp_path: Path) -> None:
    for name in ("clients", "server", "simulations"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = 1\n")
    program = """
import clients
import fedpriv as fp
low, high = fp.compose([(fp.mechanisms.StochasticSign(clip=1, scale=10).tradeoff(), 10)]).epsilon(1e-5)
assert low <= high < 3 and clients.MINE
print(fp.read_study("digits").clients.count, fp.tolerance, fp.aggregation, fp.attacks, fp.estimation, fp.certified)
"""
    done = python(program, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1437 ")


def test_a_study_read_in_python_finds_its_own_modules_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_mine.py").write_text("class Flips:\n    def on_updates(self, updates, *_): return -updates\n")
    study = (ROOT / "fedpriv" / "studies" / "catalogue" / "digits.toml").read_text(encoding="utf-8")
    (tmp_path / "mine.toml").write_text(study.replace('"SignFlip"', '"beside_mine:Flips"'), encoding="utf-8")
    program = f"""
from pathlib import Path
import fedpriv as fp
print(fp.read_study(Path({str(tmp_path / "mine.toml")!r}), ["run.rounds=2"]).attack.kind)
try:
    fp.read_study("digits", "run.rounds=2")
except fp.FedprivError as error:
    print(error)
"""
    done = python(program, ROOT)
    assert done.stdout.startswith("beside_mine:Flips\na study is read from"), done.stderr
