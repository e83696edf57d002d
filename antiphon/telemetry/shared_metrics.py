"""Files in which the front ends of one server count, one for each kind of metric and front end."""

import os
from pathlib import Path

from prometheus_client import values
from prometheus_client.multiprocess import mark_process_dead

from antiphon.errors import SettingsError

FILE_BYTES = 1 << 20
"""Size of a file; histograms of 100 routes take 0.3 MiB."""
_KINDS = ("counter", "gauge_livesum", "histogram")


def open_shared_metrics(folder: Path, name: str) -> None:
    """Count in the files of the front end ``name`` from now on, those of its predecessor included.

    Files get all of their blocks here. prometheus_client maps sparse ones, in which the first write
    to a page ends the process by SIGBUS when the disk is full.

    Raises:
        SettingsError: the disk has no room.
    """
    for path in (folder / f"{kind}_{name}.db" for kind in _KINDS):
        new = path.with_suffix(".new")  # a scrape of another front end reads no half-written file
        try:
            if not path.exists():
                new.write_bytes(bytes(FILE_BYTES))
                new.rename(path)
        except OSError as error:
            new.unlink(missing_ok=True)
            size = f"{len(_KINDS) * FILE_BYTES >> 20} MiB"
            raise SettingsError(
                f"The folder for temporary files has no room for the metrics of {name} ({size}):"
                f" {os.strerror(error.errno or 0)}. Free space on its disk, or set TMPDIR."
            ) from error
    values.ValueClass = values.MultiProcessValue(lambda: name)  # type: ignore[no-untyped-call]


def close_shared_metrics(folder: Path, name: str) -> None:
    """Forget the gauges of a front end that has ended; its counts stay in the sums."""
    mark_process_dead(name, str(folder))  # type: ignore[no-untyped-call]
