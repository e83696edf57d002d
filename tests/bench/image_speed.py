"""Images of a server with a placement: ``python -m tests.bench.image_speed``.

Images are asked for one after the other, and then all at once; weights are random.
"""

import asyncio
import time
from typing import Any

import httpx

from antiphon.cli.own_server import own_server
from tests.bench.peer import peer_flags, report
from tests.families.whole_checkpoints import maker_of

_TIMEOUT_S = 600.0


async def drawn(url: str, number: int, fields: dict[str, Any]) -> list[dict[str, Any]]:
    """Return how long images take, alone and together, in seconds.

    Raises:
        HTTPStatusError: an image was not drawn.
    """
    async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S) as client:

        async def one(seed: int) -> float:
            began_s = time.monotonic()
            body = {"prompt": "A red cat on a wall.", "seed": seed, **fields}
            answer = await client.post("/v1/images/generations", json=body)
            answer.raise_for_status()
            return time.monotonic() - began_s

        await one(0)
        alone = [await one(seed) for seed in range(1, 1 + number)]
        began_s = time.monotonic()
        together = await asyncio.gather(*map(one, range(1, 1 + number)))
        wall_s = time.monotonic() - began_s
    return [
        {"images": number, "at_once": 1, "seconds": alone, "images_per_s": number / sum(alone)},
        {"images": number, "at_once": number, "seconds": together, "images_per_s": number / wall_s},
    ]


def main() -> None:
    parser = peer_flags(__doc__.split("\n")[0], "16b")
    parser.add_argument("--family", default="glm_image", help="whose random weights")
    parser.add_argument("--placement", required=True, help="of the server")
    parser.add_argument("--images", type=int, default=4, help="in a row, and then at once")
    parser.add_argument("--pixels", type=int, default=1024, help="of each side")
    parser.add_argument("--steps", type=int, default=20, help="of denoising")
    given = parser.parse_args()
    model = given.random_dir / f"{given.family}-{given.size}"
    if not (model / "model_index.json").exists():
        dtype = "float32" if given.size == "tiny" else "bfloat16"
        maker_of(given.family)(model, size=given.size, dtype=dtype)
    fields = {
        "size": f"{given.pixels}x{given.pixels}",
        "num_inference_steps": given.steps,
        "response_format": "b64_json",
    }
    arguments = [str(model), "--device", given.device, "--placement", given.placement]
    with own_server(arguments) as url:
        rows = asyncio.run(drawn(url, given.images, fields))
    report(given, "antiphon", [{"placement": given.placement, **row} for row in rows])


if __name__ == "__main__":
    main()
