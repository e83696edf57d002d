"""What a family declares for measurements of its speed, as data."""

from dataclasses import dataclass

from antiphon.models.spec import Ref


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product that a frame needs: ``num_positions`` of each stream times a matrix.

    Attributes:
        weight: names the matrix; products of the same name read the same one.
        num_outputs: its rows.
        num_inputs: its columns.
        num_positions: vectors of each stream.
    """

    weight: str
    num_outputs: int
    num_inputs: int
    num_positions: int = 1


@dataclass(frozen=True, slots=True)
class Measuring:
    """What measurements of speed need of a family.

    Attributes:
        task: that is measured.
        make_endless: takes the directory of a checkpoint of random weights, and changes it so that
            speech ends by its limit of frames only; ``None``: requests can ask for that.
        frame_products: takes a checkpoint's directory, returns one frame's `Product` list in order;
            ``None``: what bounds it is not measured.
        frames_per_token: that a prompter allows for a token of text at least.
        dtype: of the weights of a full-size checkpoint of random weights.
        is_usual: whether this family is measured where none is named; of one family of a task.
    """

    task: str = "speech"
    make_endless: Ref | None = None
    frame_products: Ref | None = None
    frames_per_token: int = 10
    dtype: str = "bfloat16"
    is_usual: bool = False
