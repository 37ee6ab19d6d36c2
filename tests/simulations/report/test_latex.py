"""What a report has for a paper: LaTeX that a strict reader takes, embedded letters, the references of its kinds."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_report import ONE_BIT, write_run
from test_sweep_report import ATTACKS, RULES, write_sweep

import fedpriv as fp
from fedpriv._base.spelling import rounded_up
from fedpriv.mechanisms import COSTED
from fedpriv.trust import Word
from server.directory import code
from simulations.cli.list import FAMILIES
from simulations.command_line import main
from simulations.report.latex import references
from simulations.report.latex.references import ACCOUNTING, Reference, all_references, bibtex_file
from simulations.report.latex.spelling import LETTERS, MATHEMATICS, latex_text
from simulations.report.latex.tabulars import ROWS, latex_table

KNOWN = {  # commands of LaTeX and of the packages that main.tex loads
    "documentclass", "usepackage", "begin", "end", "section", "cite", "input", "clearpage", "bibliographystyle",
    "bibliography", "centering", "includegraphics", "caption", "label", "toprule", "midrule", "bottomrule", "resizebox",
    "ifdim", "width", "linewidth", "else", "fi", "raggedright", "arraybackslash", "times",
    *re.findall(r"\\([a-zA-Z]+)", " ".join([*MATHEMATICS.values(), *LETTERS.values()])),
}  # fmt: skip
TOKEN = re.compile(r"\\[a-zA-Z]+\*?|\\.|[^\\]", re.DOTALL)


def plain(text: str) -> str:
    """LaTeX without its comments."""
    return re.sub(r"(?<!\\)%.*\n", "", text)


def check_latex(text: str) -> None:
    """Fail where LaTeX would: raw special letters, braces or environments that do not match, fields that lack."""
    assert text.isascii()
    open_, depth, inside = list[str](), 0, False  # environments, braces, mathematics
    tokens = TOKEN.findall(plain(text))
    assert "".join(tokens) == plain(text)
    for at, token in enumerate(tokens):
        name = token.strip("\\*")
        if token in ("\\begin", "\\end"):
            environment = "".join(tokens[at + 2 : tokens.index("}", at)])
            open_.append(environment) if token == "\\begin" else None
            assert token == "\\begin" or open_.pop() == environment
        elif token.startswith("\\") and name.isalpha() and len(name) > 1:
            assert name in KNOWN, token
        elif token in "{}":
            depth += 1 if token == "{" else -1
            assert depth >= 0
        elif token == "$":
            inside = not inside
        elif token in "^_":
            assert inside
        elif token == "&":
            assert "tabular" in open_
            assert not inside
        assert token != "#"
    assert (open_, depth, inside) == ([], 0, False)
    for spec, body in re.findall(r"\\begin\{tabular\}\{([^\n]*)\}\n(.*?)\\end\{tabular\}", plain(text), re.DOTALL):
        columns = len(re.sub(r">\{.*?\}(?=p)|\{\d+em\}", "", spec))
        *rows, _ = re.sub(r"\\(?:top|mid|bottom)rule\n", "", body).split("\\\\\n")
        assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {columns - 1}


def papers(folder: Path) -> Iterator[str]:
    """Every LaTeX file of a folder, read strictly; what they include is there."""
    files = sorted(folder.glob("*.tex"))
    for file in files:
        text = file.read_text(encoding="ascii")
        check_latex(text)
        for name in re.findall(r"\\(?:input|includegraphics)\{(.*?)\}", text):
            assert (folder / name).is_file()
        yield text
    assert set(re.findall(r"\\input\{(.*?)\}", (folder / "main.tex").read_text())) == {
        file.name for file in files if file.name != "main.tex"
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run, reported with what a paper takes."""
    place = tmp_path_factory.mktemp("run") / "few_%_runs"
    words = ["clients.count=60", "clients.byzantine=6", "run.rounds=2", "attack.kind=Alie"]
    fp.run("digits", place, overrides=words, quiet=True)
    fp.report(place, latex=True)
    return place


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of two rules and two attacks over three seeds, reported with what a paper takes."""
    axes = {"aggregation": RULES, "attack": ATTACKS, "privacy.epsilon": ["2.0", "4.0"]}
    place = write_sweep(
        tmp_path_factory.mktemp("sweep") / "duel", axes, lambda place, seed: 0.5 + 0.1 * seed, (1, 2, 3)
    )
    assert main(["report", str(place), "--latex", "--json"]) == 0
    return place


def test_a_run_s_paper_is_latex_that_holds_together(run: Path) -> None:
    texts = "".join(papers(run / "report" / "latex"))
    epsilon = fp.read_run(run).epsilon
    assert epsilon is not None
    assert rf"$\varepsilon$ $\le$ {rounded_up(epsilon['upper'])} at $\delta$ = $10^{{-5}}$, certified" in texts
    assert texts.count("\\begin{tabular}") == 2


def test_a_sweep_s_paper_has_its_maps_places_and_cells_with_intervals(sweep: Path) -> None:
    texts = "".join(papers(sweep / "report" / "latex"))
    assert r"Mean & 0.70 $\pm$ 0.25 (SignFlip) & 0.70 $\pm$ 0.25 (SignFlip) \\" in texts
    assert "seeds 1--3" in texts
    assert r"$\pm$ is half of the 95\% interval over seeds" in texts
    assert len(re.findall(r"^(?:Mean|Median) & .* finished \\\\$", texts, re.MULTILINE)) == 24


def test_of_several_runs_a_paper_has_what_compares_them(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", rounds=3)
    other = write_run(tmp_path / "other", rounds=3, settings=ONE_BIT)
    fp.report(one, other, latex=True)
    folder = one / "report" / "latex"
    texts = "".join(papers(folder))
    assert {file.name for file in folder.glob("*.toml")} == {"study-A.toml", "study-B.toml"}
    assert "fedpriv report again-A again-B --latex" in texts
    assert {file.name for file in folder.glob("*.pdf")} == {
        f"{name}{wide}.pdf" for name in ("comparison", "bytes-and-accuracy") for wide in ("", "-wide")
    }


def test_figures_are_as_wide_as_a_column_or_a_page_and_embed_their_letters(run: Path, sweep: Path) -> None:
    for file in [*run.glob("report/latex/*.pdf"), *sweep.glob("report/latex/*.pdf")]:
        content = file.read_bytes()
        assert b"/FontFile2" in content
        assert b"/Type3" not in content
        found = re.search(rb"/MediaBox \[ 0 0 ([\d.]+)", content)
        assert found
        inches = float(found[1]) / 72
        wide = file.stem.endswith("-wide") or "heat-map" in file.stem
        assert inches <= 6.9001 if wide else inches == pytest.approx(3.35)


def test_drawing_for_a_paper_leaves_the_page_as_it_was(run: Path) -> None:
    with_paper = (run / "report" / "index.html").read_bytes()
    fp.report(run)
    assert (run / "report" / "index.html").read_bytes() == with_paper


def test_the_command_of_a_figure_makes_the_same_figure_again(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run / "report" / "latex"
    lines = re.findall(r"^% +(.*)$", (folder / "figure-accuracy.tex").read_text(), re.MULTILINE)[1:3]
    shutil.copy(folder / "study.toml", tmp_path)
    monkeypatch.chdir(tmp_path)
    for command in " ".join(line.rstrip("\\") for line in lines).split("&&"):
        assert main(shlex.split(command)[1:]) == 0
    for name in ("accuracy.pdf", "epsilon-wide.pdf", "figure-accuracy.tex", "table-study.tex", "references.bib"):
        assert (tmp_path / "again" / "report" / "latex" / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.skipif(shutil.which("pdflatex") is None or shutil.which("bibtex") is None, reason="no TeX here")
def test_tex_makes_a_paper_of_it(run: Path, sweep: Path, tmp_path: Path) -> None:
    for at, place in enumerate((run, sweep)):
        shutil.copytree(place / "report" / "latex", tmp_path / str(at))
        for words in ("pdflatex", "bibtex", "pdflatex", "pdflatex"):
            command = [words, *(["-interaction=nonstopmode", "-halt-on-error"] if words == "pdflatex" else []), "main"]
            done = subprocess.run(command, cwd=tmp_path / str(at), capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout[-2000:]
        assert "undefined" not in done.stdout


@given(st.text())
def test_any_words_become_latex(words: str) -> None:
    check_latex(latex_text(words))
    assert "\n" not in latex_text(words)


@given(st.text(alphabet=st.characters(categories=["Lu", "Ll", "Nd"], max_codepoint=127)))
def test_letters_and_digits_are_themselves(words: str) -> None:
    assert latex_text(words) == words


@given(st.lists(st.lists(st.text(), min_size=3, max_size=3), max_size=5))
def test_a_table_of_any_words_has_as_many_fields_in_every_row(rows: list[list[str]]) -> None:
    check_latex(latex_table("any", "Any.", (["a", "b_c", "%"], rows)))


def test_a_long_table_comes_in_parts_of_a_page() -> None:
    text = latex_table("long", "Long.", (["n"], [[n] for n in range(2 * ROWS + 1)]))
    check_latex(text)
    assert re.findall(r"Part (\d) of (\d)", text) == [("1", "3"), ("2", "3"), ("3", "3")]
    assert len(re.findall(r"^\d+ \\\\$", text, re.MULTILINE)) == 2 * ROWS + 1


EVERY = {**FAMILIES, "fedpriv account alone": COSTED}  # as `fedpriv list NAME` looks it up
KINDS = {kind for family in EVERY.values() for kind in family}
CITED = {kind for each in all_references() for kind in each.kinds}
PAPERS = (Path(references.__file__).parent / "papers.bib").read_text(encoding="ascii")
OF_NO_PAPER = re.findall(r"\w+", re.findall(r"^Of no paper: (.*?)\.$", PAPERS, re.MULTILINE | re.DOTALL)[0])
LETTERED = {  # what docs/papers.md calls by a letter
    "F": "jinfdp", "P": "wang2022ptr", "L": "shokri2023lecture", "S": "phan2020stobatch", "M": "liu2021prime",
}  # fmt: skip


def test_every_paper_is_cited_for_what_there_is() -> None:
    assert CITED - KINDS - {*get_args(Word), ACCOUNTING} == set()
    keys = [each.key for each in all_references()]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_kind_has_its_paper_or_is_named_as_having_none(kind: str) -> None:
    said = (kind in CITED) + (kind in OF_NO_PAPER)
    assert said == 1, f"{kind}: give papers.bib its paper, or its name among those of no paper, at the head"


def test_what_is_named_as_having_no_paper_is_there() -> None:
    assert len(OF_NO_PAPER) == len(set(OF_NO_PAPER))
    assert set(OF_NO_PAPER) <= KINDS


@pytest.mark.parametrize(("noun", "kind"), [(noun, kind) for noun, family in EVERY.items() for kind in family])
def test_what_a_docstring_cites_is_what_its_entries_say(noun: str, kind: str) -> None:
    told = EVERY[noun][kind].__doc__ or ""
    own = [each for each in all_references() if kind in each.kinds]
    for year in re.findall(r"(?<!\.)\b(?:19|20)\d\d\b(?!\.\d)", told):
        first = [re.findall(r"author = \{(.*?),", each.bibtex)[0] for each in own if f"{{{year}}}" in each.bibtex]
        assert any(name in told for name in first), f"{kind}: no author of {year}"
    for number in re.findall(r"\d{4}\.\d{4,5}", told):
        assert any(number in each.bibtex for each in own), f"{kind}: no arXiv {number}"
    for letter in re.findall(r"\[([FPLSM])\]", told):
        assert LETTERED[letter] in [each.key for each in own], f"{kind}: [{letter}]"


@pytest.mark.parametrize("each", all_references(), ids=lambda each: each.key)
def test_an_entry_is_whole(each: Reference) -> None:
    assert each.bibtex.count("{") == each.bibtex.count("}")
    fields = dict(re.findall(r"^  (\w+) = \{(.*?)\},$", each.bibtex, re.MULTILINE | re.DOTALL))
    assert {"author", "title"} <= fields.keys()
    assert "kinds" not in fields
    place = {"@article": "journal", "@inproceedings": "booktitle", "@misc": "howpublished"}
    assert place[each.bibtex.partition("{")[0]] in fields
    assert "year" in fields or each.bibtex.startswith("@misc")


def test_a_study_s_references_are_of_what_it_used(run: Path) -> None:
    bib = (run / "report" / "latex" / "references.bib").read_text(encoding="ascii")
    cited = {"Baruch", "Bonawitz", "Dong, Jinshuo", "Pedregosa"}
    assert all(name in bib for name in cited)
    assert "Blanchard" not in bib
    main_text = (run / "report" / "latex" / "main.tex").read_text()
    found = re.search(r"\\cite\{(.*?)\}", main_text)
    assert found
    assert re.findall(r"^@\w+\{(\w+),", bib, re.MULTILINE) == found[1].split(", ")


def test_an_attack_by_nobody_is_not_cited(tmp_path: Path) -> None:
    few = ["clients.count=60", "clients.byzantine=0", "run.rounds=1", "attack.kind=Alie"]
    fp.run("digits", tmp_path / "none", overrides=few, quiet=True)
    fp.report(tmp_path / "none", latex=True)
    assert "Baruch" not in (tmp_path / "none" / "report" / "latex" / "references.bib").read_text()


def test_the_list_tells_the_papers_of_a_kind_and_what_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "Krum", "--bibtex"]) == 0
    assert capsys.readouterr().out.rstrip() == bibtex_file(["Krum"]).rstrip()
    assert main(["list", "attacks", "--bibtex", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["bibtex"]
    assert told.startswith("Of this project, or nobody's: ")
    assert "OutputPoisoning" in told.partition("\n")[0]


def test_a_run_says_by_which_commit_it_was_made(run: Path) -> None:
    told = json.loads((run / "environment.json").read_text())
    assert told["commit"] == code.checkout_commit()
    assert code.code_words(run) == f"fedpriv {told['fedpriv']}" + (
        f", commit {told['commit']}" if told["commit"] else ""
    )
    assert code.code_words(run / "report") == "fedpriv of a version that it does not say"
