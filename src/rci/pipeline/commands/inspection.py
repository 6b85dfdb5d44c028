"""What an artefact folder holds, for people and for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rci.data import store
from rci.data.artefacts.labels import named_channels
from rci.data.artefacts.policy_estimates import Estimates
from rci.data.artefacts.signals import labels_in, named_signals
from rci.data.record import fitting
from rci.data.risk.thresholds import describe_ladder
from rci.data.types import Demonstrators, Episodes, Labels, Scores, StepCosts

MOST_KEYS = 3  # that are shown


def describe(path: Path, verify: bool) -> dict[str, Any]:
    """The manifest's facts and a few numbers of the content. With `verify`, every checksum is recomputed."""
    manifest = store.read_manifest(path)
    record = store.read(path, verify=verify)
    with fitting(str(path)):
        numbers = _numbers(record)
    return {
        "path": str(path),
        "kind": manifest["kind"],
        "hash": manifest["hash"],
        "verified": verify,
        "numbers": numbers,
        "arrays": manifest["arrays"],
        "bytes": sum(entry.stat().st_size for entry in path.iterdir()),
        **{"config": {}, "parents": {}, **manifest["provenance"]},
    }


def describe_lines(path: Path, description: dict[str, Any]) -> list[str]:
    """The same as lines of text."""
    lines = [f"{path}: {description['kind']}, {_size(description['bytes'])}, {description['hash'][:12]}"]
    lines += [f"  {name}: {_text(value)}" for name, value in description["numbers"].items()]
    lines += [
        f"  {name}.npy  {entry['dtype']} {'x'.join(map(str, entry['shape'])) or 'scalar'}"
        for name, entry in list(description["arrays"].items())[:12]
    ]
    if len(description["arrays"]) > 12:
        lines.append(f"  and {len(description['arrays']) - 12} more arrays")
    if description["config"]:
        lines.append("  made with " + ", ".join(f"{k}={v}" for k, v in description["config"].items()))
    lines += [f"  from {name} {parent[:12]}" for name, parent in description["parents"].items()]
    return [*lines, "  every checksum is right"] if description["verified"] else lines


def _numbers(record: Any) -> dict[str, Any]:
    """The few figures one wants to see first."""
    if isinstance(record, Demonstrators):
        kept = record.info["checkpoints"]
        return {
            "task": record.info["task"],
            "checkpoints": len(kept),
            "steps": kept[-1]["steps"],
            "mean_return": [checkpoint["return"] for checkpoint in kept],
        }
    if isinstance(record, Episodes):
        return {
            "task": record.task,
            "episodes": len(record),
            "steps": int(record.lengths.sum()),
            **_signals(named_signals(record.signals)),
            **{f"key {name}": _few(keys) for name, keys in record.keys.items()},
        }
    if isinstance(record, Labels):
        why = dict(zip(record.channels, (record.channel_cost > 0).sum(axis=0).tolist()))
        reasons = {"stopped_by_channel": why} if why else {}
        return {"episodes": len(record), "stopped": int(record.stopped.sum()), **reasons}
    if isinstance(record, StepCosts):
        named = record.info["by_channel"][record.channels[0]] if "by_channel" in record.info else record.info
        figures = {k: record.figure(k) for k, v in named.items() if isinstance(v, int | float)}
        unit = {} if record.unit == "cost" else {"unit": record.unit}
        kind = {"method": record.method, "return_equivalent": record.return_equivalent, **unit}
        return {**kind, **named_channels(record.channels), **figures}
    if isinstance(record, Scores):
        from rci.evaluation.stats import clopper_pearson

        return {
            "episodes": len(record),
            "violation_rate": record.violation_rate,
            "violation_interval": list(clopper_pearson(int(record.violated.sum()), len(record))),
            **{name: value for name, value in record.info.items() if name.startswith("channel_")},
            "mean_return": record.mean_return,
            "mean_return_until_stop": record.mean_return_until_stop,
        }
    if isinstance(record, Estimates):
        stops = {
            name: f"{one.stop.estimate:.1%} ({one.stop.low:.1%} to {one.stop.high:.1%}) stopped"
            for name, one in record.policies.items()
        }
        return {"judged on": f"{record.judged_on} runs", **stops}
    info = getattr(record, "info", {})
    facts = {k: v for k, v in info.items() if isinstance(v, int | float | str | dict) and k != "signals"}
    facts |= _signals(info)
    if "ladder" in facts:
        facts["ladder"] = describe_ladder(info["ladder"])
    if "reach" in facts:
        facts["reach"] = {name: round(own["nearest"], 3) for name, own in info["reach"].items()}
    return facts


def _signals(info: Mapping[str, Any]) -> dict[str, Any]:
    """What observations and actions are called, in their order, and how many steps there are per second."""
    rate = (info.get("signals") or {}).get("rate")
    return {**labels_in(info), **({} if rate is None else {"rate": rate})}


def _few(keys: Sequence[str]) -> str:
    """How many different keys there are, and the first ones."""
    different = list(dict.fromkeys(keys))
    more = ", ..." if len(different) > MOST_KEYS else ""
    return f"{len(different)} different: {', '.join(different[:MOST_KEYS])}{more}"


def _text(value: Any) -> str:
    """A number as it is, names one after the other, numbers by channel with their names."""
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


def _size(size: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size = size / 1000  # type: ignore[assignment]
    return f"{size:.3g} GB"
