"""``antiphon placement``: what it prints, and what its exit status says."""

import json
from pathlib import Path

from tests.cli.conftest import Run


def test_check_says_what_would_run_where(run: Run) -> None:
    entry = "stage.talker.replicas=3"
    told = run("placement", "check", "cpu", "--set", entry, "--set", "fabric=process", "toy")
    assert "talker+codec" in told.stdout
    assert "Nothing speaks against it" in told.stdout
    as_json = run("placement", "check", "cpu", "toy", "--json").stdout
    engine, *others = json.loads(as_json)["engines"]
    stages = {each["stages"][0] for each in others}
    assert stages == {"text_encoder", "denoiser", "vae", "chatter"}
    assert engine["stages"] == ["talker", "codec"]
    assert engine["devices"] == ["cpu"]


def test_check_fails_where_it_cannot_run(run: Run) -> None:
    text = "{fabric: process, defaults: {devices: cuda:77}}"
    told = run("placement", "check", text, "toy")
    assert told.exit_code == 1
    assert "there is no device cuda:77" in told.stdout


def test_a_wrong_file_is_one_line_with_its_place(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("stages:\n  taker: {max_batch: 2}\n", encoding="utf-8")
    told = run("placement", "check", str(path), "toy")
    assert told.exit_code == 1
    assert told.stderr.startswith("antiphon: placement: stages: there is no stage 'taker'")
    path.write_text("stages:\n  talker: {max_batch: none}\n", encoding="utf-8")
    told = run("placement", "check", str(path), "toy")
    assert told.exit_code == 1
    assert told.stderr.startswith(f"antiphon: {path}:2: stages.talker.max_batch: ")


def test_show_prints_what_is_in_force(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("front_ends: 9\n", encoding="utf-8")
    values = json.loads(run("placement", "show", "one-gpu", str(path), "--json").stdout)
    assert values["front_ends"] == 9
    assert values["defaults"] == {"devices": ["cuda:0"]}
    assert "front_ends: 9" in run("placement", "show", "one-gpu", str(path)).stdout


def test_list_names_every_profile(run: Run) -> None:
    from antiphon.placement.documents import profiles

    table = run("placement", "list").stdout
    assert all(name in table for name in profiles())


def test_translate_prints_a_placement_that_can_be_read_again(run: Run, tmp_path: Path) -> None:
    configs = tmp_path / "stages.yaml"
    configs.write_text("stages: [{stage_id: 0, devices: '1', enforce_eager: true}]")
    told = run("placement", "translate", str(configs), "toy")
    assert "stage 0: devices: 1 -> devices: cuda:1" in told.stderr
    assert "stage 0: enforce_eager: True no meaning here: " in told.stderr
    path = tmp_path / "placement.yaml"
    path.write_text(told.stdout, encoding="utf-8")
    values = json.loads(run("placement", "show", str(path), "--json").stdout)
    assert values["stages"]["talker"] == {"devices": ["cuda:1"]}
