"""Slow fits of the peers, kept in a file so that a table can be printed again without them.

They do not depend on us, but the clock does on the day: a kept fit did not take turns with ours.
"""

import json
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from _measure import Rung, versions

SLOW = 10.0  # seconds; faster fits are not kept


class KeptFits:
    """Fits of more than ``slow`` seconds by name; without a path, none.

    Those of another machine do not count.
    """

    def __init__(self, path: Path | None, slow: float = SLOW):
        self._path, self._slow = path, slow
        known = path is not None and path.is_file()
        self._fits: dict[str, dict[str, Any]] = json.loads(path.read_text()) if known else {}
        self._here = {
            "machine": versions()["machine"],
            "scikit-learn": metadata.version("scikit-learn"),
        }

    def find(self, name: str, setting: Any) -> Rung | None:
        fit = self._fits.get(name)
        if fit is None or any(fit[key] != value for key, value in self._here.items()):
            return None
        if fit["seconds"] > SLOW:  # faster ones are timed again
            print(f"  from {self._path}, measured {fit['date']}: {name}", flush=True)
        return Rung(setting, fit["objective"], fit["seconds"], seconds=fit["seconds"])

    def keep(self, name: str, rung: Rung) -> None:
        """Write down the median, or the first run where there was no other, of a slow fit."""
        if self._path is None or rung.first_seconds <= self._slow:
            return
        self._fits[name] = {
            "objective": rung.objective,
            "seconds": rung.seconds or rung.first_seconds,
            "date": datetime.now().astimezone().isoformat(timespec="minutes"),
            **self._here,
        }
        self._path.write_text(json.dumps(self._fits, indent=1))
