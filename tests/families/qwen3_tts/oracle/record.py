"""Records what the official package makes of every case, greedily and in float32.

Runs inside the oracle's environment: ``python record.py CHECKPOINTS OUTPUT.npz``, where the folder
CHECKPOINTS holds one directory for each key of `cases.CHECKPOINTS`. Every case is computed in
float64 too, and only kept if it gives the same codes: then rounding decided nothing.

    cases                       JSON: the requests
    codes/CASE                  int16 [frames, 16]
    hidden/CASE                 float32 [frames, talker's width]: normed states that made group 0
    audio/CASE                  float32 [samples], of some
    reference/NAME/codes        int16 [frames, 16]
    reference/NAME/speaker      float32 [talker's width]
    reference/NAME/checksum     CRC-32 of the float32 samples
    reference/short/mel         float32, the first 16 frames of the mel spectrogram [16, 128]
    decoder/head, decoder/tail  float32, first and last 3 frames of `cases.decoder_codes` decoded
"""

import dataclasses
import json
import os
import sys
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
os.environ["HF_HUB_OFFLINE"] = "1"

cases: Any = import_module("cases")
torch: Any = import_module("torch")
modeling: Any = import_module("qwen_tts.core.models.modeling_qwen3_tts")
Qwen3TTSModel: Any = import_module("qwen_tts").Qwen3TTSModel

Arrays = dict[str, np.ndarray]
EDGE_SAMPLES = 3 * 1920
SAMPLE_RATE_HZ = 24_000


class Recorder:
    def __init__(self, directory: Path, dtype: Any) -> None:
        self.official = Qwen3TTSModel.from_pretrained(directory, device_map="cpu", dtype=dtype)
        self._talker: Any = None
        generate = self.official.model.generate

        def remember(*args: Any, **kwargs: Any) -> Any:
            self._talker = generate(*args, **kwargs)
            return self._talker

        self.official.model.generate = remember

    def run(self, case: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return codes, hidden states and the waveform."""
        common = {
            "text": case.text,
            "language": case.language,
            "non_streaming_mode": case.non_streaming,
            "max_new_tokens": case.max_new_tokens,
            "do_sample": False,
            "subtalker_dosample": False,
        }
        if case.reference is not None:
            audio, _ = self.official.generate_voice_clone(
                **common,
                ref_audio=(cases.reference_audio(case.reference), SAMPLE_RATE_HZ),
                ref_text=case.reference_text,
                x_vector_only_mode=case.reference_text is None,
            )
        elif case.speaker is not None:
            audio, _ = self.official.generate_custom_voice(
                **common, speaker=case.speaker, instruct=case.instructions
            )
        else:
            audio, _ = self.official.generate_voice_design(**common, instruct=case.instructions)
        codes, hidden = self._talker
        return codes[0].numpy().astype(np.int16), hidden[0].float().numpy(), audio[0]

    def reference(self, name: str) -> Arrays:
        """Return what the official package hears in a reference."""
        samples = cases.reference_audio(name)
        items = self.official.create_voice_clone_prompt((samples, SAMPLE_RATE_HZ), "text")
        return {
            "codes": items[0].ref_code.numpy().astype(np.int16),
            "speaker": items[0].ref_spk_embedding.float().numpy(),
            "checksum": np.array(zlib.crc32(samples.tobytes()), np.uint32),
        }


def record(checkpoints: Path) -> Arrays:
    arrays: Arrays = {}
    for name in cases.CHECKPOINTS:
        single = Recorder(checkpoints / name, torch.float32)
        double = Recorder(checkpoints / name, torch.float64)
        for case in cases.CASES:
            if case.checkpoint == name:
                arrays |= _record_case(case, single, double)
        if name == cases.REFERENCE_CHECKPOINT:
            arrays |= _record_codec(single, double)
    listed = json.dumps([dataclasses.asdict(case) for case in cases.CASES])
    return {"cases": np.frombuffer(listed.encode(), np.uint8)} | arrays


def _record_case(case: Any, single: Recorder, double: Recorder) -> Arrays:
    codes, hidden, audio = single.run(case)
    exact, _, _ = double.run(case)
    sys.stdout.write(f"{case.id}: {len(codes)} of {case.max_new_tokens - 1} frames\n")
    if not np.array_equal(codes, exact):
        sys.exit(f"{case.id}: rounding decides; change its text")
    arrays = {f"codes/{case.id}": codes, f"hidden/{case.id}": hidden}
    return arrays | ({f"audio/{case.id}": audio} if case.has_audio else {})


def _record_codec(single: Recorder, double: Recorder) -> Arrays:
    arrays: Arrays = {}
    for name in cases.REFERENCES:
        heard = single.reference(name)
        if not np.array_equal(heard["codes"], double.reference(name)["codes"]):
            sys.exit(f"reference {name}: rounding decides; change it")
        arrays |= {f"reference/{name}/{part}": array for part, array in heard.items()}
    arrays["reference/short/mel"] = _mel(cases.reference_audio("short"))[:16]
    codes = torch.from_numpy(cases.decoder_codes()).T[None]
    with torch.inference_mode():
        audio = single.official.model.speech_tokenizer.model.decoder(codes)[0, 0].numpy()
    return arrays | {"decoder/head": audio[:EDGE_SAMPLES], "decoder/tail": audio[-EDGE_SAMPLES:]}


def _mel(samples: np.ndarray) -> np.ndarray:
    mel = modeling.mel_spectrogram(
        torch.from_numpy(samples)[None],
        n_fft=1024,
        num_mels=128,
        sampling_rate=SAMPLE_RATE_HZ,
        hop_size=256,
        win_size=1024,
        fmin=0,
        fmax=12000,
    )
    frames: np.ndarray = mel[0].T.numpy()
    return frames


if __name__ == "__main__":
    torch.set_num_threads(1)
    recorded: dict[str, Any] = dict(record(Path(sys.argv[1])))
    np.savez_compressed(sys.argv[2], **recorded)
