"""MLflow: an experiment called rci, in the folder mlruns unless MLFLOW_TRACKING_URI names another place."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rci.reporting.trackers.tracker import flat

EXPERIMENT = "rci"  # unless MLFLOW_EXPERIMENT_NAME says another
FORBIDDEN = re.compile(r"[^\w\-. :/]+")  # in names of MLflow
LONGEST = 6000  # characters of a parameter
AT_ONCE = 100  # parameters in one request


class MlflowTracker:
    """Metrics, parameters, pictures as MLflow's artefacts, and addresses of ours as tags."""

    def __init__(self, folder: Path) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # nothing is sent to anybody
        place = os.environ.get("MLFLOW_TRACKING_URI") or (Path.cwd() / "mlruns").as_uri()
        if place.startswith("file:") or "://" not in place:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 wants to be asked
        from mlflow import MlflowClient

        self.client = MlflowClient(place)
        self.run = ""

    def begin(self, name: str, config: Mapping[str, Any], group: str = "") -> None:
        """A run with these settings as parameters."""
        from mlflow.entities import Param

        called = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        experiment = self.client.get_experiment_by_name(called)
        number = self.client.create_experiment(called) if experiment is None else experiment.experiment_id
        tags = {"group": group} if group else {}
        self.run = self.client.create_run(number, tags=tags, run_name=name).info.run_id
        params = [Param(_named(key), str(value)[:LONGEST]) for key, value in flat(config)]
        for first in range(0, len(params), AT_ONCE):
            self.client.log_batch(self.run, params=params[first : first + AT_ONCE])

    def curves(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        """Metrics called name/number."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(_named(f"{name}/{key}"), float(value), now, step) for key, value in numbers.items()]
        self.client.log_batch(self.run, metrics=metrics)

    def figure(self, name: str, png: bytes) -> None:
        """A file below figures."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"{name}.png"
            file.write_bytes(png)
            self.client.log_artifact(self.run, str(file), "figures")

    def artefact(self, name: str, address: str, content: str) -> None:
        """A tag with the address and the hash."""
        self.client.set_tag(self.run, _named(f"artefact/{name}"), f"{address} {content}")

    def end(self, failed: bool = False) -> None:
        """The run has finished, or has failed."""
        self.client.set_terminated(self.run, "FAILED" if failed else "FINISHED")


def _named(name: str) -> str:
    return FORBIDDEN.sub("_", name)
