"""Reads the request fields that only one family knows."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from antiphon.contracts.well_formed import StrictModel
from antiphon.errors import InvalidRequestError

Options = TypeVar("Options", bound=BaseModel)


class NoOptions(StrictModel):
    """The options of a task that has none."""

    model_config = ConfigDict(extra="forbid")


def read_options(model: type[Options], values: Mapping[str, Any]) -> Options:
    """Validate a request's options.

    Args:
        model: a family's options; it forbids what it does not know.
        values: Options by name.

    Raises:
        InvalidRequestError: one is unknown or wrong; ``param`` is its name.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        param = str(first["loc"][0]) if first["loc"] else "options"
        if first["type"] == "extra_forbidden":
            known = ", ".join(model.model_fields) or "none"
            message = f"Unknown parameter: '{param}'. This model knows: {known}."
        else:
            message = f"Invalid '{param}': {first['msg']}."
        raise InvalidRequestError(message, param=param) from error
