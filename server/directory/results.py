"""What a run has come to, from its records alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from fedpriv import records
from fedpriv.files import replaced
from server.directory import data_place

NOTHING = "no round counted"  # why a run has ended whose every round was skipped


def written_result(directory: Path, header: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
    """result.json: what `fedpriv run --json` prints."""
    found = result(directory, header, end)
    replaced(directory / "result.json", records.written(found), mode=0o644)
    return found


def result(directory: Path, header: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
    """Accuracy, cost and guarantee of all rounds so far."""
    rounds = records.read(directory / "records.jsonl").rounds
    known = records.read_timings(directory / "timings.jsonl")
    timings = [known[line["round"]] for line in rounds if line["round"] in known]
    accuracies = [line["accuracy"] for line in rounds if line["accuracy"] is not None]
    release = header["release"]
    return {
        "directory": str(directory),
        "name": header["name"],
        "data": header["data"] | {"path": data_place(directory)},
        "accuracy": accuracies[-1] if accuracies else None,
        "rounds": end["rounds"],
        "clients": header["clients"],
        "byzantine": header["byzantine"],
        "seconds": sum(line["seconds"] for line in timings),
        "epsilon": end["epsilon"],
        "delta": header["delta"],
        **{name: header[name] for name in ("epsilons", "left_out") if name in header},
        "unit": release["unit"] if release else "client",
        "trust": header["trust"],
        "masked": header["masked"],
        "adjacency": release["adjacency"] if release else None,
        "worst_client": end["worst_client"],
        "client_bytes": header["client_bytes"],
        **({"client_bytes_are": header["client_bytes_are"]} if "client_bytes_are" in header else {}),
        "bytes_up": sum(line["bytes_up"] for line in rounds),
        "bytes_transport": sum(line["bytes_transport"] for line in timings),
        "rejected": _added(line["rejected"] for line in rounds),
        "failed": _added(line["failed"] for line in rounds),
        "skipped": sum(line["skipped"] is not None for line in rounds),
        "tolerance": next((found for line in reversed(rounds) if (found := line.get("tolerance")) is not None), None),
        "not_tried": end.get("not_tried"),
        "why": end["why"],
    }


def _added(counts: Any) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(sorted(total.items()))
