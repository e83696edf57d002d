"""How long a prompt may be, the same refusal for every family that speaks."""

from antiphon.errors import InvalidRequestError


def check_prompt_length(num_positions: int, limit: int, param: str = "input") -> None:
    """Refuse a prompt that leaves no room to speak.

    Args:
        num_positions: of the prompt.
        limit: of them.
        param: of the request, that takes most of them.

    Raises:
        InvalidRequestError: naming the field and what is allowed.
    """
    if num_positions > limit:
        raise InvalidRequestError(
            f"Invalid '{param}': with it the prompt takes {num_positions} positions; at most"
            f" {limit} are allowed.",
            param=param,
        )
