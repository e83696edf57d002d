"""Keys that measurements are given are in no file that they write, and in nothing that they say."""

import pytest

from tests.bench.odd_server import KEY, odd_server
from tests.cli.conftest import Run


def test_no_command_writes_a_key(
    run: Run, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("reports")
    few = ["--concurrency", "1", "--field", f"token={KEY}"]
    http = [*few, "--requests", "1", "--processes", "1"]
    suite = ["--rounds", "1", "--lengths", "short", "--out", str(folder / "suite")]
    commands = {
        "serve": [*http, "--json", str(folder / "serve"), "--plot", str(folder / "plot")],
        "suite": [*http, *suite],
        "chat": [*few, "--model", "x", "--turns", "1", "--json", str(folder / "chat")],
        "quality": ["--metrics", "defects", "--field", f"token={KEY}"],
    }
    with odd_server() as server:
        for name, more in commands.items():
            url = f"{server.base_url}/json_error?code={KEY}"
            arguments = ["bench", name, "--url", url, *more]
            monkeypatch.setattr("sys.argv", ["antiphon", *arguments])
            monkeypatch.setenv("ANTIPHON_API_KEY", KEY)
            result = run(*arguments[1:])
            assert KEY not in result.output, name
            assert f"Authorization: Bearer {KEY}" in server.requests[-1], name
            assert f"code={KEY}" in server.requests[-1], name
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert len(files) == 6
    for file in files:
        assert KEY not in file.read_text(encoding="utf-8"), file
