"""What the pages show, works. Every command and program in README.md is run here, and so is what docs/ marks.

In README.md: the `fedpriv …` lines of every ```sh block, every ```python block, and every `$ fedpriv …` of a ```console
block, whose output must then be what the block shows (`...` stands for anything, spaces are not counted). A `make …`
line must name a target, a ```toml block must be a study. In docs/*.md only what is marked: ```sh run, ```python run,
```console run. What cannot be run here is marked ```sh skip.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedpriv.studies import file as study_file

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
MINUTES = 5


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    file: str
    line: int
    language: str
    mark: str
    text: str

    @property
    def place(self) -> str:
        """Where it stands, as `file:line`."""
        return f"{self.file}:{self.line}"


def blocks(path: Path) -> list[Block]:
    """Every fenced block of a Markdown file that is to be run."""
    if not path.exists():
        return []
    page = path.read_text(encoding="utf-8")
    found = []
    for fence in re.finditer(r"^```(\w+)[ ]?(\w*)[ ]*\n(.*?)^```[ ]*$", page, re.MULTILINE | re.DOTALL):
        line = page.count("\n", 0, fence.start()) + 1
        found.append(Block(path.name, line, *fence.groups()))
    return [block for block in found if block.mark == "run" or (path == README and block.mark != "skip")]


def commands(block: Block) -> list[tuple[str, str | None]]:
    """The commands of a block, continuation lines joined, each with the output it must give (None: any)."""
    text = re.sub(r"\\\n\s*", " ", block.text)
    if block.language == "sh":
        return [(line.strip(), None) for line in text.splitlines()]
    if block.language == "console":
        parts = re.split(r"^\$ (.*)\n?", text, flags=re.MULTILINE)[1:]
        return list(zip(parts[::2], parts[1::2], strict=True))
    return []


BLOCKS = [block for path in [README, *sorted((ROOT / "docs").glob("*.md"))] for block in blocks(path)]
COMMANDS = [(block.place, line, output) for block in BLOCKS for line, output in commands(block)]
RUN = [pytest.param(line, out, id=f"{place}: {line}") for place, line, out in COMMANDS if line.startswith("fedpriv ")]
MAKE = [pytest.param(line, id=f"{place}: {line}") for place, line, _ in COMMANDS if re.match(r"make\b", line)]
PYTHON = [pytest.param(block, id=block.place) for block in BLOCKS if block.language == "python"]


def test_the_readme_shows_how_to_use_it() -> None:
    assert README.exists(), "README.md is missing"
    shown = [command for place, command, _ in COMMANDS if place.startswith("README.md")]
    for start in ("fedpriv ", "make test", "make check"):
        assert any(line.startswith(start) for line in shown), f"README.md shows no command that begins with '{start}'"


@pytest.mark.parametrize(("command", "output"), RUN)
def test_command_runs_as_shown(command: str, output: str | None, tmp_path: Path) -> None:
    outcome = run(["sh", "-c", command], tmp_path)
    assert outcome.returncode == 0, f"{command}\nended with {outcome.returncode}:\n{outcome.stderr}"
    if output:
        assert same(output, outcome.stdout), f"{command}\nis shown to print\n{output}\nbut prints\n{outcome.stdout}"


@pytest.mark.parametrize("command", MAKE)
def test_make_target_exists(command: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    wanted = {word for word in shlex.split(command, comments=True)[1:] if "=" not in word and not word.startswith("-")}
    assert wanted <= targets, f"'{command}': the Makefile has no target {', '.join(wanted - targets)}"


@pytest.mark.parametrize("block", PYTHON)
def test_program_runs_as_shown(block: Block, tmp_path: Path) -> None:
    program = block.text
    if ">>> " in program:
        (tmp_path / "session.txt").write_text(program, encoding="utf-8")
        program = "import doctest, sys; sys.exit(doctest.testfile('session.txt', module_relative=False).failed)"
    outcome = run([sys.executable, "-c", program], tmp_path)
    assert outcome.returncode == 0, f"{block.place}:\n{outcome.stdout}{outcome.stderr}"


@pytest.mark.parametrize("block", [pytest.param(block, id=block.place) for block in BLOCKS if block.language == "toml"])
def test_study_is_one(block: Block) -> None:
    assert study_file.parsed_study(block.text).run.rounds > 0


def run(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    """Run in an empty directory, with `fedpriv` on the path."""
    return subprocess.run(
        command,
        cwd=directory,
        env=environment(directory),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60 * MINUTES,
    )


def same(shown: str, printed: str) -> bool:
    """Whether the output is what the page shows."""
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(shown.strip(), printed.strip(), options)


def environment(directory: Path) -> dict[str, str]:
    """The environment of the running Python, with `fedpriv` on its path even where the project is not installed."""
    scripts = Path(sysconfig.get_path("scripts"))
    found = {**os.environ, "PATH": f"{scripts}:{os.environ.get('PATH', '')}"}
    if not (scripts / "fedpriv").exists():
        scripts = directory / "scripts"
        scripts.mkdir()
        (scripts / "fedpriv").write_text(
            f"#!{sys.executable}\nimport sys\nfrom simulations.command_line import main\nsys.exit(main())\n",
            encoding="utf-8",
        )
        (scripts / "fedpriv").chmod(0o755)
        found |= {"PATH": f"{scripts}:{found['PATH']}", "PYTHONPATH": str(ROOT)}
    return found
