"""Comparison of a family with codes and samples that the official code made."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.types import Sampling
from antiphon.errors import SettingsError
from antiphon.family_check.subject import Found, Subject

_REQUIRED = ("text", "seed")
_OUTPUTS = ("codes", "samples")
_OPTIONAL = ("voice", "language", "temperature", "max_frames")
_MAX_DIFFERENCE = 1e-3
"""Of samples, -60 dB of full scale: another order of the same sums makes less."""


@dataclass(frozen=True, slots=True)
class ExpectedOutput:
    """Expected output of one request.

    Attributes:
        fields: text, seed and optional fields of the request.
        codes: frames, ``[num_frames, frame_size]``; ``None``: not compared.
        samples: audio, ``[num_samples]`` or ``[num_samples, channels]``; ``None``: not compared.
    """

    fields: dict[str, Any]
    codes: NDArray[Any] | None
    samples: NDArray[Any] | None


def read_reference(path: Path) -> ExpectedOutput:
    """Read an ``.npz`` file; raises SettingsError."""
    try:
        # A file that NumPy opens itself stays open if the archive is damaged.
        with path.open("rb") as stream:
            file = np.load(stream, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array")
            arrays = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise SettingsError(f"Invalid '--reference': {path}. There is no such file.") from None
    except (OSError, EOFError, ValueError, BadZipFile) as error:
        raise SettingsError(
            f"Invalid '--reference': {path}. Must be an .npz file of plain arrays ({error})."
        ) from None
    allowed = (*_REQUIRED, *_OUTPUTS, *_OPTIONAL)
    wrong = [f"unknown array '{name}'" for name in arrays if name not in allowed]
    wrong += [f"no array '{name}'" for name in _REQUIRED if name not in arrays]
    if not any(name in arrays for name in _OUTPUTS):
        wrong.append("neither 'codes' nor 'samples'")
    wrong += [
        f"'{name}' has the shape {array.shape}"
        for name, array in arrays.items()
        if (array.ndim not in (1, 2) if name in _OUTPUTS else array.size != 1)
    ]
    if wrong:
        raise SettingsError(
            f"Invalid '--reference': {path} ({'; '.join(wrong)}). Must hold 'text', 'seed', and"
            f" 'codes' or 'samples'; may hold {', '.join(map(repr, _OPTIONAL))}."
        )
    fields = {name: arrays[name].item() for name in arrays if name not in _OUTPUTS}
    codes = arrays.get("codes")
    if codes is not None and codes.ndim == 1:
        codes = codes[:, None]
    return ExpectedOutput(fields, codes, arrays.get("samples"))


async def equals_reference(subject: Subject, reference: ExpectedOutput) -> Found:
    """Run the reference's request and compare."""
    fields = reference.fields
    sample = subject.model.capabilities.sample_request
    request = replace(
        sample,
        input=str(fields["text"]),
        sampling=Sampling(
            temperature=fields.get("temperature"), max_frames=fields.get("max_frames")
        ),
        voice=fields.get("voice", sample.voice),
        language=fields.get("language", sample.language),
    )
    output = await subject.run(await subject.prompt(request, int(fields["seed"])))
    found = []
    if reference.codes is not None:
        found.append(_same_codes(output.frames, reference.codes))
    if reference.samples is not None:
        found.append(_same_samples(output.samples, reference.samples))
    failed = [detail for is_met, detail in found if not is_met]
    return not failed, "; ".join(failed or [detail for _, detail in found])


def _same_codes(frames: tuple[Any, ...], expected: NDArray[Any]) -> Found:
    if not frames:
        return False, "the family makes no frames: only 'samples' can be compared"
    made = np.stack(frames).reshape(len(frames), -1)
    if made.shape[1] != expected.shape[1]:
        return False, f"{made.shape[1]} codes a frame, the reference has {expected.shape[1]}"
    num_compared = min(len(made), len(expected))
    differ = ~np.isclose(made[:num_compared], expected[:num_compared], rtol=1e-5, atol=1e-6)
    rows = np.flatnonzero(differ.any(1))
    if len(rows):
        return False, f"{len(rows)} of {num_compared} frames differ, first frame {rows[0]}"
    if len(made) != len(expected):
        return False, f"{len(made)} frames, the reference has {len(expected)}"
    return True, f"{len(made)} frames are equal"


def _same_samples(made: NDArray[Any], expected: NDArray[Any]) -> Found:
    num_compared = min(len(made), len(expected))
    if made.shape[1:] != expected.shape[1:]:
        return False, f"samples {made.shape}, the reference has {expected.shape}"
    differences = np.abs(made[:num_compared] - expected[:num_compared])
    worst = float(differences.max()) if differences.size else 0.0
    if not worst <= _MAX_DIFFERENCE:
        first = int(np.argmax((differences > _MAX_DIFFERENCE).reshape(num_compared, -1).any(1)))
        return False, f"samples differ by up to {worst:.1e}, from sample {first} on"
    if len(made) != len(expected):
        return False, f"{len(made)} samples, the reference has {len(expected)}"
    return True, f"{len(made)} samples differ by at most {worst:.1e}"
