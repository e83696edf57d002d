"""`antiphon models fit` tells what a card holds of a checkpoint, without its weights."""

import json
from pathlib import Path

import pytest

from antiphon.placement.cards import card_of
from antiphon.placement.host_cpu import HostCpu
from tests.cli.conftest import Run
from tests.families.qwen3_tts.random_checkpoint import write_all_but_weights


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    write_all_but_weights(tmp_path, size="1.7b", task="custom_voice", dtype="bfloat16")
    return tmp_path


def test_people_and_programs_are_told_the_same(run: Run, checkpoint: Path) -> None:
    done = run("models", "fit", str(checkpoint), "--card", "rtx 4090")
    assert done.exit_code == 0, done.output
    told = json.loads(run("models", "fit", str(checkpoint), "--card", "rtx 4090", "--json").stdout)
    assert told["card"]["name"] == "RTX 4090"
    assert f"{told['num_streams']:,}" in done.stdout
    assert f"{told['weight_gib']:.1f} GiB" in done.stdout
    for speed in told["speeds"]:
        assert f"{speed['frame_ms']:.2f}" in done.stdout
    assert "estimate" in done.stdout
    assert "estimate" in told["note"]
    assert told["recommended"] == f"antiphon serve {checkpoint}"
    assert told["recommended"] in done.stdout


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("4090", "RTX 4090"),
        ("nvidia geforce rtx-5090", "RTX 5090"),
        ("l4", "L4"),
        ("a6000", "RTX A6000"),
    ],
)
def test_a_part_of_a_name_is_enough(given: str, name: str) -> None:
    assert card_of(given).name == name


def test_another_card_is_told_by_its_figures(run: Run, checkpoint: Path) -> None:
    flags = ("--device-memory-gib", "16", "--bandwidth-gbs", "500", "--seconds", "60", "--json")
    told = json.loads(run("models", "fit", str(checkpoint), *flags).stdout)
    assert (told["card"]["memory_gib"], told["card"]["bandwidth_gbs"]) == (16, 500)
    assert told["seconds"] == 60
    assert told["num_streams"] > 0


def test_a_card_that_holds_nothing_is_told_by_the_status(run: Run, checkpoint: Path) -> None:
    flags = ("--device-memory-gib", "3", "--bandwidth-gbs", "500")
    done = run("models", "fit", str(checkpoint), *flags)
    assert done.exit_code == 1
    assert "Streams that fit" in done.stdout
    assert "Use a smaller checkpoint, another card, or main memory" in done.stdout


def test_int8_weights_are_recommended_where_others_do_not_fit(run: Run, checkpoint: Path) -> None:
    done = run("models", "fit", str(checkpoint), "--card", "RTX 3050 Laptop", "--json")
    told = json.loads(done.stdout)
    assert told["weights"] == "int8 and bfloat16"
    assert told["num_streams"] > 0
    assert told["recommended"] == f"antiphon serve {checkpoint} --quantize int8"


def test_a_share_of_the_memory_is_part_of_the_recommended_command(
    run: Run, checkpoint: Path
) -> None:
    flags = ("--card", "4090", "--gpu-memory-utilization", "0.5", "--json")
    told = json.loads(run("models", "fit", str(checkpoint), *flags).stdout)
    command = f"ANTIPHON_MODEL_GPU_MEMORY_UTILIZATION=0.5 antiphon serve {checkpoint}"
    assert told["recommended"] == command


def test_a_card_without_bfloat16_holds_float32(run: Run, checkpoint: Path) -> None:
    t4, a2 = (
        json.loads(run("models", "fit", str(checkpoint), "--card", card, "--json").stdout)
        for card in ("T4", "A2")
    )
    assert t4["weight_gib"] == pytest.approx(2 * a2["weight_gib"])
    assert t4["num_streams"] < a2["num_streams"]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ((), "--device-memory-gib and --bandwidth-gbs"),
        (("--device-memory-gib", "24"), "--bandwidth-gbs"),
        (("--card", "L4", "--tflops", "100"), "alone"),
        (("--card", "cpu", "--bandwidth-gbs", "50"), "alone"),
        (("--card", "cpu", "--gpu-memory-utilization", "0.5"), "alone"),
        (("--card", "Voodoo 2"), "RTX 4090"),
        (("--card", "a100"), "A100 80GB, A100 40GB"),
        (("--card", ""), "is not known"),
    ],
)
def test_a_card_must_be_told(flags: tuple[str, ...], told: str, run: Run, checkpoint: Path) -> None:
    done = run("models", "fit", str(checkpoint), *flags)
    assert done.exit_code == 1
    assert told in done.stderr


def test_what_cannot_be_estimated_is_refused(run: Run, tmp_path: Path) -> None:
    done = run("models", "fit", str(tmp_path / "nowhere"), "--card", "L4")
    assert done.exit_code == 1
    assert "There is no directory" in done.stderr


@pytest.mark.parametrize(("memory_gib", "advice"), [(64, "--quantize int8"), (2, "None fits")])
def test_weights_are_recommended_for_a_cpu(
    memory_gib: float,
    advice: str,
    run: Run,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engines = {"fp16": "fbgemm", "int8": "fbgemm"}
    cpu = HostCpu("A CPU", 8, 7, "AVX2", engines, memory_gib, 50.0, 50.0)
    monkeypatch.setattr(HostCpu, "of_host", classmethod(lambda _: cpu))
    done = run("models", "fit", str(checkpoint), "--card", "CPU")
    found = json.loads(run("models", "fit", str(checkpoint), "--card", "cpu", "--json").stdout)
    assert done.exit_code == (found["recommended"] is None)
    assert advice in (found["recommended"] or done.stdout)
    assert "A CPU: 8 cores, AVX2" in done.stdout
    assert found["cpu"]["bandwidth_gbs"] == 50
    assert [each["weights"] for each in found["weights"]] == ["float32", "fp16", "int8"]
    for each in found["weights"]:
        assert f"{each['memory_gib']:.1f} GiB" in done.stdout
        assert f"{each['load']:.0%}" in done.stdout
