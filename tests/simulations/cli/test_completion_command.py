"""`fedpriv completion`: a shell that has read it completes subcommands, options, their words and studies."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from simulations.command_line import COMMANDS, main

ASK = """source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_fedpriv; printf '%s\\n' "${COMPREPLY[@]}" """


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What bash is to read."""
    file = tmp_path_factory.mktemp("completion") / "fedpriv.bash"
    with pytest.MonkeyPatch.context() as patch, file.open("w") as out:
        patch.setattr("sys.stdout", out)
        assert main(["completion", "bash"]) == 0
    return file


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["re"], ["report", "reproduce"]),
        ([""], list(COMMANDS)),
        (["run", "--dr"], ["--dry-run", "--driver"]),
        (["run", "--driver", ""], ["flower", "direct"]),
        (["run", "fashion-"], ["fashion-records", "fashion-votes"]),
        (["report", "--c"], ["--csv"]),
        (["deploy", ""], ["up", "status", "down", "check"]),
        (["completion", ""], ["bash", "zsh", "tcsh"]),
    ],
    ids=str,
)
def test_bash_completes(words: list[str], wanted: list[str], script: Path, tmp_path: Path) -> None:
    command = ["bash", "-c", ASK, str(script), "fedpriv", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""
    assert set(done.stdout.split()) == set(wanted)


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_are_given_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in COMMANDS)


def test_a_shell_that_is_not_known_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
