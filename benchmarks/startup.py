"""What somebody waits for before anything happens: `python -m benchmarks.startup`.

CPU seconds from the start of Python to the end of what is named, the least of several runs that take turns with what
stands beside it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys

RUNS = 15
COMMAND = "import sys; sys.argv[1:] = {!r}.split()\nfrom fedpriv import main\ntry: main()\nexcept SystemExit: pass\n"
ACCOUNT = "account Binomial clip=0.1 scale=1 trials=16 --rounds 1000 --delta 1e-5"
LOADED = (
    "\nprint('\\n'.join(name for name in sys.modules if name.split('.')[0] in ('numpy', 'scipy')), file=sys.stderr)"
)


def seconds(program: str) -> float:
    """CPU seconds of a process, its children's included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(program)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(program: str) -> str:
    """A program in a new interpreter with one thread; what it says on standard error."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return done.stderr


def imports(program: str) -> str:
    """A program that imports exactly what of numpy and scipy another one had loaded when it ended."""
    names = run(f"{program}import sys{LOADED}").split()
    return f"import {', '.join(names)}" if names else "pass"


def side_by_side(program: str, beside: str) -> tuple[float, float]:
    """The least of both, in turns."""
    pairs = [(seconds(program), seconds(beside)) for _ in range(RUNS)]
    return min(one for one, _ in pairs), min(other for _, other in pairs)


def rows() -> list[dict[str, object]]:
    """A row for each thing that somebody waits for."""
    bare = "pass"
    told = {
        "import fedpriv as fp": ("import fedpriv as fp\n", "Python itself", bare),
        "fp.Study": ("import fedpriv as fp; fp.Study\n", "numpy and scipy, as far as it loads them", ""),
        "fp.Tradeoff, fp.Account": ("import fedpriv as fp; fp.Tradeoff; fp.Account\n", "the same", ""),
        "fedpriv --help": (COMMAND.format("--help"), "Python itself", bare),
        f"fedpriv {ACCOUNT}": (COMMAND.format(ACCOUNT), "numpy and scipy, as far as it loads them", ""),
    }
    found: list[dict[str, object]] = []
    for name, (program, words, beside) in told.items():
        own, other = side_by_side(program, beside or imports(program))
        more = f"{own - other:.3f} s"
        found.append(
            {"what": f"`{name}`", "CPU": f"{own:.3f} s", "beside": words, "its CPU": f"{other:.3f} s", "more": more}
        )
    return found


if __name__ == "__main__":
    for row in rows():
        print("  ".join(str(value) for value in row.values()))
