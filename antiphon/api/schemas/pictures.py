"""Common fields of requests for images and for videos; null means the default.

Parameters of denoising stand beside the prompt, as vLLM-Omni has them, or in ``nvext``, as NVIDIA
Dynamo has them; both mean the same.
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from antiphon.api.schemas.nullable import NULLS_MEAN_DEFAULTS
from antiphon.contracts.family import Task
from antiphon.contracts.picture_types import DiffusionParameters
from antiphon.contracts.well_formed import StrictModel
from antiphon.errors import InvalidRequestError, invalid, shortened

MAX_INT64 = 2**63 - 1
_MAX_SIDE = 65_536
_SIZE = re.compile(r"(\d{1,5})[xX*](\d{1,5})", re.ASCII)
_PACKED = ("nvext", "extra_params", "extra_body")
"""Objects whose members mean what they would mean beside them."""


def checked_size(text: str) -> str:
    """Return a size as ``WxH`` or ``auto``; raises InvalidRequestError."""
    if text == "auto":
        return text
    found = _SIZE.fullmatch(text.strip())
    if found is None or not all(0 < int(side) <= _MAX_SIDE for side in found.groups()):
        raise invalid(
            "size", f"'{shortened(text)}'. It must be 'auto' or WIDTHxHEIGHT, such as '1024x1024'"
        )
    return f"{int(found[1])}x{int(found[2])}"


Size = Annotated[str, AfterValidator(checked_size)]


class PictureBody(StrictModel):
    """A prompt and how to draw it.

    Further members are kept: options of the model's family, and unknown ones, which a response
    header lists.
    """

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra=NULLS_MEAN_DEFAULTS,
    )

    prompt: str = Field(description="What it shows.", examples=["A cat on a windowsill"])
    model: str | None = Field(None, description="A served model or an alias of one.")
    size: Size | None = Field(
        None, description="'1024x1024', or 'auto', the model's own.", examples=["1024x1024"]
    )
    negative_prompt: str | None = Field(None, description="What it shall not show.")
    num_inference_steps: int | None = Field(None, description="Of denoising.")
    guidance_scale: float | None = Field(None, description="How closely to follow the prompt.")
    true_cfg_scale: float | None = Field(
        None, description="Of classifier-free guidance, where guidance_scale is something else."
    )
    flow_shift: float | None = Field(None, description="Of the flow-matching schedule.")
    seed: int | None = Field(
        None, ge=-MAX_INT64 - 1, le=MAX_INT64, description="The same seed draws the same."
    )
    user: str | None = Field(None, description="Accepted; it means nothing here.")
    nvext: dict[str, Any] | None = Field(
        None, description="NVIDIA Dynamo's extensions: the same parameters as beside it."
    )
    extra_params: dict[str, Any] | None = Field(
        None, description="Parameters and options of the model, as if they stood beside."
    )

    @model_validator(mode="before")
    @classmethod
    def _nulls_mean_defaults(cls, body: Any) -> Any:
        if not isinstance(body, Mapping):
            return body
        return unpacked({name: value for name, value in body.items() if value is not None})

    @property
    def width_and_height(self) -> tuple[int | None, int | None]:
        """In pixels; ``None``: the model's own."""
        if self.size is None or self.size == "auto":
            return None, None
        width, _, height = self.size.partition("x")
        return int(width), int(height)

    @property
    def domain_seed(self) -> int | None:
        """The seed as models take it, which is not negative."""
        return None if self.seed is None else self.seed & MAX_INT64

    def family_options(
        self, task: Task, read: Collection[str] = ()
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the options that the family knows, and the names of unknown members.

        Args:
            read: names of further members that have been read already.
        """
        known = task.options.model_fields
        members = self.model_extra or {}
        options = {name: value for name, value in members.items() if name in known}
        unknown = [name for name in members if name not in known and name not in read]
        return options, tuple(unknown)

    def parameters(self) -> DiffusionParameters:
        """Return the parameters that are given."""
        return DiffusionParameters(
            num_inference_steps=self.num_inference_steps,
            guidance_scale=self.guidance_scale,
            true_cfg_scale=self.true_cfg_scale,
            flow_shift=self.flow_shift,
        )


def unpacked(members: Mapping[str, Any]) -> dict[str, Any]:
    """Put what stands in packed objects beside them, where all the rest looks for it.

    Raises:
        InvalidRequestError: one is no object, or a member is in two places with two values.
    """
    found = dict(members)
    for packed in _PACKED:
        if packed not in members:
            continue
        del found[packed]
        for name, value in _object(packed, members[packed]).items():
            if value is None:
                continue
            param = f"{packed}.{shortened(name)}"
            if found.setdefault(name, value) != value:
                raise InvalidRequestError(
                    f"'{shortened(name)}' and '{param}' differ: leave one of the two out.",
                    param=param,
                )
    return found


def _object(name: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):  # of a form, whose fields are all strings
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, Mapping):
        raise InvalidRequestError(f"Invalid '{name}'. It must be an object.", param=name)
    return value
