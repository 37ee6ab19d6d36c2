"""A study is made once: what one round of the embedded study builds, parses and reads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

COUNTED = """
import json, sys
from collections import Counter
from functools import cached_property
from pathlib import Path

import fedpriv.registry, fedpriv.records, clients.data
from clients.training import prepared
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Study
from server import rounds
from server.rounds import _planning
from simulations.runs.direct import Here

count = Counter()

def counting(place, name, called):
    own = getattr(place, name)
    def counted(*words, **settings):
        count[called(*words)] += 1
        return own(*words, **settings)
    setattr(place, name, counted)

counting(fedpriv.registry, "built_kind", lambda kind, *_: f"made {kind}")
counting(fedpriv.records, "read_records", lambda *_: "records read")
for place in (prepared, _planning):
    for name in ("pool_of", "net_of", "division_of"):
        counting(place, name, lambda *_, name=name: name)
counting(study_file, "parsed_study", lambda *_: "parsed")
ids = Study.__dict__["id"].func
Study.id = cached_property(lambda study: count.update(["id"]) or ids(study))
Study.id.__set_name__(Study, "id")

study = study_file.read_study("digits", ["run.rounds=1", "server.fewest=1294"])
rounds.run_rounds(study, Path(sys.argv[1]), Here(2), quiet=True)
print(json.dumps(count))
"""


def test_one_round_of_the_embedded_study_makes_everything_once(tmp_path: Path) -> None:
    words = [sys.executable, "-c", COUNTED, str(tmp_path / "run")]
    outcome = subprocess.run(words, capture_output=True, text=True, check=False)
    assert not outcome.returncode, outcome.stderr
    count = json.loads(outcome.stdout)
    count.pop("made Binomial")  # calibrating tries many, each with another setting
    assert count == {
        "parsed": 1, "id": 1, "pool_of": 1, "net_of": 1, "division_of": 1,
        "made All": 1, "made SignFlip": 1, "made Mean": 1, "made Digits": 1, "made Logistic": 1, "made CrossEntropy": 1,
        "made Sgd": 1,
    }  # fmt: skip
