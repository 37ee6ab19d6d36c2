"""Words of a report as LaTeX in plain ASCII: special letters escaped, mathematical ones as mathematics."""

from __future__ import annotations

import re
from unicodedata import combining, normalize

GREEK = dict(zip("αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ", (
    "alpha", "beta", "gamma", "delta", "varepsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu",
    "xi", "pi", "rho", "sigma", "tau", "upsilon", "varphi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda",
    "Xi", "Pi", "Sigma", "Phi", "Psi", "Omega",
), strict=True))  # fmt: skip
SIGNS = {
    "±": r"\pm", "≤": r"\le", "≥": r"\ge", "∞": r"\infty", "×": r"\times", "·": r"\cdot", "−": "-", "→": r"\to",
    "√": r"\surd", "≈": r"\approx", "≠": r"\ne", "∝": r"\propto", "∈": r"\in", "ℓ": r"\ell", "‖": r"\|", "∇": r"\nabla",
    "½": r"\frac12", "¼": r"\frac14", "⌊": r"\lfloor", "⌋": r"\rfloor", "⊙": r"\odot", "<": "<", ">": ">", "|": "|",
    "✓": r"\checkmark", "◐": r"\circ", "✗": r"\times", "°": r"^{\circ}",
}  # fmt: skip
RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᵈʷ", "0123456789-dw", strict=True))
LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉ᵢⱼ", "0123456789ij", strict=True))
MATHEMATICS = (
    {letter: rf"\{name}" for letter, name in GREEK.items()}
    | SIGNS
    | {letter: f"^{{{plain}}}" for letter, plain in RAISED.items()}
    | {letter: f"_{{{plain}}}" for letter, plain in LOWERED.items()}
)
LETTERS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", '"': "''", "–": "--", "—": "---", "…": r"\ldots{}",
    "“": "``", "”": "''", "‘": "`", "’": "'", "„": ",,", "ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "ø": r"\o{}",
    "Ø": r"\O{}", "ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}", "\u00a0": "~", "\u2002": " ", "\u2009": r"\,",
    "§": r"\S{}",
}  # fmt: skip
ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c", "\u0328": "k",
}  # fmt: skip
POWER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)e(-\d+)(?!\w)")  # of ten, and below one: an id has no such sign


def latex_text(words: str) -> str:
    r"""Any words of a report as LaTeX that shows them, on one line and in ASCII, for captions and tables.

    >>> print(latex_text("ε ≤ 4 at δ = 1e-5: 10% of R&D_1, 0.84 ± 0.01"))
    $\varepsilon$ $\le$ 4 at $\delta$ = $10^{-5}$: 10\% of R\&D\_1, 0.84 $\pm$ 0.01
    >>> print(latex_text("Müller — 中 --set"))
    M\"{u}ller --- [U+4E2D] -{}-set
    """
    parts = POWER.split(" ".join(words.split()))
    made = _plain(parts[0])
    for factor, exponent, rest in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        times = "" if factor == "1" else rf"{factor}\times "
        made += f"${times}10^{{{exponent}}}$" + _plain(rest)
    return made


def _plain(words: str) -> str:
    """Words in which no power of ten stands, letter by letter as LaTeX; two hyphens stay two."""
    words = normalize("NFC", words)
    pairs = zip(words, f"{words[1:]} ", strict=False)
    return "".join("-{}" if one == other == "-" else letter_in_latex(one) for one, other in pairs)


def letter_in_latex(letter: str) -> str:
    """One letter of a report as LaTeX shows it: itself, escaped, accented, mathematics; without a name its number."""
    if letter in LETTERS:
        return LETTERS[letter]
    if letter in MATHEMATICS:
        return f"${MATHEMATICS[letter]}$"
    if " " <= letter <= "~":
        return letter
    parts = normalize("NFD", letter)
    if len(parts) == 2 and parts[1] in ACCENTS and parts[0].isascii():
        return rf"\{ACCENTS[parts[1]]}{{{parts[0]}}}"
    return "" if combining(letter) else f"[U+{ord(letter):04X}]"
