"""Files of metrics that front ends share."""

import asyncio
import errno
from pathlib import Path

import pytest
from prometheus_client import values

from antiphon.errors import SettingsError
from antiphon.telemetry.metrics import Metrics
from antiphon.telemetry.shared_metrics import FILE_BYTES, close_shared_metrics, open_shared_metrics

NAME = "front-end-0"


@pytest.fixture(autouse=True)
def mapped_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count in files for the time of a test."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    monkeypatch.setattr(values, "ValueClass", values.ValueClass)


def test_a_front_end_goes_on_in_the_files_of_its_predecessor(tmp_path: Path) -> None:
    for _ in range(3):
        open_shared_metrics(tmp_path, NAME)
        metrics = Metrics(tmp_path)
        metrics.http_requests.labels("GET", "/", "200").inc()
        metrics.http_open.inc()
        text = asyncio.run(metrics.exposition()).decode()
        assert "antiphon_http_requests_open 1.0" in text, "gauges of the dead are gone"
        close_shared_metrics(tmp_path, NAME)
    assert 'antiphon_http_requests_total{method="GET",route="/",status="200"} 3.0' in text
    assert len(list(tmp_path.iterdir())) == 2, "files do not pile up"


def test_no_page_of_a_file_waits_for_room_on_the_disk(tmp_path: Path) -> None:
    open_shared_metrics(tmp_path, NAME)
    Metrics(tmp_path).http_requests.labels("GET", "/", "200").inc()
    for path in tmp_path.iterdir():
        assert path.stat().st_blocks * 512 >= path.stat().st_size == FILE_BYTES


def test_a_full_disk_is_an_error_that_names_the_folder_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, content: bytes) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(Path, "write_bytes", write)
    with pytest.raises(SettingsError, match=r"temporary files.*TMPDIR"):
        open_shared_metrics(tmp_path, NAME)
    assert not list(tmp_path.iterdir())
