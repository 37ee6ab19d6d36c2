"""A folder of what a paper takes from a report: figures, tables and references, a paper of all of it, and how made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulations.figures.files import put_files
from simulations.figures.markdown import markdown_table
from simulations.figures.style import COLUMN, PAGE, Picture, for_paper
from simulations.figures.tables import Table
from simulations.report.latex.references import bibtex_file, references_of
from simulations.report.latex.spelling import latex_text
from simulations.report.latex.tabulars import latex_table

FOLDER = "latex"  # below a report's
PACKAGES = "amsmath,amssymb,array,booktabs,graphicx"


FLOAT = r"""{made}{wide}\begin{{{float}}}
\centering
\includegraphics{{{name}.pdf}}
\caption{{{caption}}}
\label{{fig:{name}}}
\end{{{float}}}
"""
MAIN = r"""{made}\documentclass[10pt,twocolumn]{{article}}
\usepackage[margin=0.8in]{{geometry}}
\usepackage{{{packages}}}
\begin{{document}}
\section*{{{name}}}
{said}

{promise} What was used: \cite{{{cited}}}.
{shown}\bibliographystyle{{plain}}
\bibliography{{references}}
\end{{document}}
"""
README = """# {name}, for a paper

`main.tex` holds all of it: `pdflatex main && bibtex main && pdflatex main && pdflatex main`. A paper of its own takes
`\\input{{figure-NAME}}`, `\\input{{table-NAME}}` and `\\bibliography{{references}}`, with
`\\usepackage{{{packages}}}`. `NAME.pdf` is {column} inches wide, one column of two,
`NAME-wide.pdf` {page}, the page; letters are embedded. `fedpriv report --latex` writes all of this anew: what is
changed by hand belongs elsewhere.

{promise}

Every figure and table is made again, in this folder, by

```sh
{command}
```

{figures}
"""


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
    column, page = drawn_across(COLUMN, pieces), drawn_across(PAGE, pieces)
    chosen = [own if own.inches <= COLUMN else page[name] for name, own in column.items()]
    made = {f"figure-{each.name}.tex": figure_float(each, pieces) for each in chosen}
    for name, words, table in pieces.tables:
        float_ = latex_table(name, latex_text(f"{words} {pieces.promise}"), table)
        made[f"table-{name}.tex"] = f"{_made_by(pieces)}{float_}"
    texts = {"main.tex": main_text(list(made), pieces)} | made | {"references.bib": bibtex_file(pieces.used)}
    texts |= {**pieces.studies, "README.md": readme_text(chosen, pieces)}
    pictures = {f"{each.name}.pdf": each.pdf for each in chosen}
    pictures |= {f"{name}-wide.pdf": page[name].pdf for name, own in column.items() if own.inches <= COLUMN}
    return put_files(directory / FOLDER, {name: text.encode() for name, text in texts.items()} | pictures)


def drawn_across(inches: float, pieces: Pieces) -> dict[str, Picture]:
    """A report's figures by name, drawn for a paper in that width."""
    with for_paper(inches):
        return {each.name: each for each in pieces.drawn()}


def command_again(command: str, studies: Sequence[str], options: str = "") -> str:
    """The one command that makes a report's pieces again from studies, by `fedpriv run` or `sweep`, and their report.

    >>> print(command_again("sweep", ["study.toml"]))
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


def figure_float(picture: Picture, pieces: Pieces) -> str:
    """A figure of a paper as a LaTeX float: the PDF in its own size, with a caption of what it shows, and of what."""
    narrow = picture.inches <= COLUMN
    words = " ".join(filter(None, [picture.title and f"{picture.title}.", picture.alt, picture.note, pieces.promise]))
    return FLOAT.format(
        made=_made_by(pieces), wide=f"% {picture.name}-wide.pdf is as wide as the page, for figure*\n" * narrow,
        float="figure" if narrow else "figure*", name=picture.name, caption=latex_text(words[:1].upper() + words[1:]),
    )  # fmt: skip


def main_text(parts: Sequence[str], pieces: Pieces) -> str:
    """A paper, in LaTeX, that holds all of a report's pieces and cites all that they used."""
    cited = ", ".join(each.key for each in references_of(pieces.used))
    shown = "".join(f"\\input{{{name}}}\n" + "\\clearpage\n" * (at % 4 == 0) for at, name in enumerate(parts, 1))
    name, promise, said = map(latex_text, (pieces.name, pieces.promise, " ".join(pieces.said)))
    return MAIN.format(
        made=_made_by(pieces), packages=PACKAGES, name=name, said=said, promise=promise, cited=cited, shown=shown
    )


def readme_text(chosen: Sequence[Picture], pieces: Pieces) -> str:
    """What a folder for a paper holds, and for each figure the study and the one command that make it again."""
    studies = ", ".join(f"`{name}`" for name in pieces.studies)
    rows = [[f"`{each.name}.pdf`", each.title or each.alt.split(",")[0], studies] for each in chosen]
    return README.format(
        name=pieces.name, packages=PACKAGES, column=COLUMN, page=PAGE, promise=pieces.promise, command=pieces.command,
        figures=markdown_table(["figure", "shows", "made by"], rows),
    )  # fmt: skip
