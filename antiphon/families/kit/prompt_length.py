"""Limit of prompt lengths, shared by all speech families."""

from antiphon.errors import InvalidRequestError


def check_prompt_length(num_positions: int, limit: int, param: str = "input") -> None:
    """Refuse a prompt that leaves no room for speech.

    Args:
        num_positions: positions of the prompt.
        limit: most positions of a prompt.
        param: request field that takes most of them.

    Raises:
        InvalidRequestError: the prompt is too long; the message names the field and the limit.
    """
    if num_positions > limit:
        raise InvalidRequestError(
            f"Invalid '{param}': with it the prompt takes {num_positions} positions; at most"
            f" {limit} are allowed.",
            param=param,
        )
