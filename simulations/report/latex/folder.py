"""A folder of what a paper takes from a report: figures, tables and references, a paper of all of it, and how made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulations.figures.files import put_files
from simulations.figures.style import COLUMN, PAGE, Picture, for_paper
from simulations.figures.tables import Table
from simulations.report.latex.references import bibliography, references_of
from simulations.report.latex.spelling import latex_text
from simulations.report.latex.tabulars import latex_table

FOLDER = "latex"  # below a report's
PACKAGES = "amsmath,amssymb,array,booktabs,graphicx"


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """What a report has for a paper; all words are plain, and become LaTeX here."""

    name: str  # of the study
    said: Sequence[str]  # what was found, in sentences
    drawn: Callable[[], Sequence[Picture]]  # the report's figures, as wide as whoever draws them says
    tables: Sequence[tuple[str, str, Table]]  # of each its name, what it shows, and itself
    promise: str  # whose ε it is and how large, and by which code: the end of every caption
    used: Sequence[str]  # kinds that were used, for the references
    studies: Mapping[str, str]  # by file name the studies that made it
    command: str  # what makes all of it again from those files


def write_pieces(directory: Path, pieces: Pieces) -> list[Path]:
    """Write a report's folder for a paper into a directory: the files' paths, main.tex first."""
    with for_paper(COLUMN):
        column = {each.name: each for each in pieces.drawn()}
    with for_paper(PAGE):
        page = {each.name: each for each in pieces.drawn()}
    chosen = [own if own.inches <= COLUMN else page[name] for name, own in column.items()]
    made = {f"figure-{each.name}.tex": _figure(each, pieces).encode() for each in chosen}
    made |= {f"table-{name}.tex": _table(name, words, table, pieces) for name, words, table in pieces.tables}
    pictures = {f"{each.name}.pdf": each.pdf for each in chosen}
    pictures |= {f"{name}-wide.pdf": page[name].pdf for name, own in column.items() if own.inches <= COLUMN}
    content = {
        "main.tex": _main(list(made), pieces).encode("ascii"), **made, **pictures,
        "references.bib": bibliography(pieces.used).encode("ascii"),
        **{name: text.encode() for name, text in pieces.studies.items()}, "README.md": _readme(chosen, pieces).encode(),
    }  # fmt: skip
    return put_files(directory / FOLDER, content)


def again(command: str, studies: Sequence[str], options: str = "") -> str:
    """The one command that makes a report's pieces again from studies, by `fedpriv run` or `sweep`, and their report.

    >>> print(again("sweep", ["study.toml"]))
    fedpriv sweep study.toml --out again && \\
      fedpriv report again --latex
    """
    places = {name: name.replace("study", "again").removesuffix(".toml") for name in studies}
    made = [f"fedpriv {command} {name} --out {place}{options}" for name, place in places.items()]
    return " && \\\n  ".join([*made, f"fedpriv report {' '.join(places.values())} --latex"])


def _made_by(pieces: Pieces) -> str:
    """The comment over every piece of a paper: the studies that made it, and the one command that does so again."""
    lines = [
        f"made by {', '.join(pieces.studies)} beside this file; again, in this folder:",
        *pieces.command.split("\n"),
    ]
    return "".join(f"% {line}\n" for line in lines)


def _figure(picture: Picture, pieces: Pieces) -> str:
    """A figure of a paper as a float: the PDF in its own size, and a caption that says what it shows and of what."""
    float_ = "figure" if picture.inches <= COLUMN else "figure*"
    words = " ".join(filter(None, [picture.title and f"{picture.title}.", picture.alt, picture.note, pieces.promise]))
    caption = latex_text(words[:1].upper() + words[1:])
    wide = f"% {picture.name}-wide.pdf is as wide as the page, for figure*\n" if float_ == "figure" else ""
    return (
        f"{_made_by(pieces)}{wide}\\begin{{{float_}}}\n\\centering\n\\includegraphics{{{picture.name}.pdf}}\n"
        f"\\caption{{{caption}}}\n\\label{{fig:{picture.name}}}\n\\end{{{float_}}}\n"
    )


def _table(name: str, words: str, table: Table, pieces: Pieces) -> bytes:
    """A table of a paper as LaTeX, with the comment on what made it and the caption that says of what it is."""
    return (_made_by(pieces) + latex_table(name, latex_text(f"{words} {pieces.promise}"), table)).encode("ascii")


def _main(parts: Sequence[str], pieces: Pieces) -> str:
    """A paper that holds all of a report's pieces and cites all that they used."""
    cited = f"What was used: \\cite{{{', '.join(each.key for each in references_of(pieces.used))}}}."
    shown = "".join(f"\\input{{{name}}}\n" + "\\clearpage\n" * (at % 4 == 0) for at, name in enumerate(parts, 1))
    return (
        f"{_made_by(pieces)}\\documentclass[10pt,twocolumn]{{article}}\n\\usepackage[margin=0.8in]{{geometry}}\n"
        f"\\usepackage{{{PACKAGES}}}\n\\begin{{document}}\n\\section*{{{latex_text(pieces.name)}}}\n"
        f"{latex_text(' '.join(pieces.said))}\n\n{latex_text(pieces.promise)} {cited}\n{shown}"
        "\\bibliographystyle{plain}\n\\bibliography{references}\n\\end{document}\n"
    )


def _readme(chosen: Sequence[Picture], pieces: Pieces) -> str:
    """What a folder for a paper holds, and for each figure the study and the one command that make it again."""
    studies = ", ".join(f"`{name}`" for name in pieces.studies)
    rows = "".join(f"| `{each.name}.pdf` | {each.title or each.alt.split(',')[0]} | {studies} |\n" for each in chosen)
    return f"""# {pieces.name}, for a paper

`main.tex` holds all of it: `pdflatex main && bibtex main && pdflatex main && pdflatex main`. A paper of its own takes
`\\input{{figure-NAME}}`, `\\input{{table-NAME}}` and `\\bibliography{{references}}`, with
`\\usepackage{{{PACKAGES}}}`. `NAME.pdf` is {COLUMN} inches wide, one column of two,
`NAME-wide.pdf` {PAGE}, the page; letters are embedded. `fedpriv report --latex` writes all of this anew: what is
changed by hand belongs elsewhere.

{pieces.promise}

Every figure and table is made again, in this folder, by

```sh
{pieces.command}
```

| figure | shows | made by |
|---|---|---|
{rows}"""
