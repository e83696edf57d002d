"""Programs are compiled once for their source, macros and compiler, and stored undamaged."""

from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.nn.cuda import compiler
from antiphon.nn.cuda.binary_cache import cached
from tests.nn.cuda.test_packing import needs_compiler

SOURCE = 'extern "C" __global__ void nothing(int* x) { *x = NUMBER; }'


class Compiler:
    def __init__(self) -> None:
        self.num_calls = 0

    def __call__(self) -> bytes:
        self.num_calls += 1
        return b"program"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_a_program_is_compiled_once_for_its_inputs(folder: Path) -> None:
    made = Compiler()
    assert [cached(("a", 13, 0), made) for _ in range(3)] == [b"program"] * 3
    assert made.num_calls == 1
    cached(("a", 13, 1), made)
    cached(("b", 13, 0), made)
    assert made.num_calls == 3
    assert len([each for each in folder.rglob("*") if each.is_file()]) == 3, "no half of a file"


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 39])
def test_a_damaged_file_is_compiled_again(folder: Path, damage: bytes) -> None:
    made = Compiler()
    cached(("a",), made)
    (file,) = folder.rglob("*.cubin")
    file.write_bytes(damage)
    assert [cached(("a",), made) for _ in range(2)] == [b"program"] * 2
    assert made.num_calls == 2


def test_without_a_folder_each_start_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file"))
    made = Compiler()
    assert [cached(("a",), made) for _ in range(2)] == [b"program"] * 2
    assert made.num_calls == 2
    assert "was not stored" in caplog.text


def test_what_does_not_compile_is_not_stored(folder: Path) -> None:
    def fails() -> bytes:
        raise compiler.CompilationError("line 1")

    with pytest.raises(compiler.CompilationError):
        cached(("a",), fails)
    assert cached(("a",), Compiler()) == b"program"


@needs_compiler
def test_macros_and_the_compilers_version_are_inputs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (compiler.compiled(SOURCE, {"NUMBER": number}) for number in (1, 2))
    assert one != two
    with monkeypatch.context() as patched:
        patched.setattr(compiler, "_compile", lambda *_: b"compiled again")
        assert compiler.compiled(SOURCE, {"NUMBER": 1}) == one
        patched.setattr("cuda.bindings.nvrtc.nvrtcVersion", lambda: (0, 99, 0))
        assert compiler.compiled(SOURCE, {"NUMBER": 1}) == b"compiled again"
