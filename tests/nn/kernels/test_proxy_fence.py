"""Matrix products wait for what asynchronous copies have put into shared memory."""

import re

import pytest

pytest.importorskip("triton", reason="Triton is not installed")

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from antiphon.nn.kernels import proxy_fence
from antiphon.nn.kernels.wide_product import wide_product

_FENCE, _PRODUCT = "fence.proxy.async.shared::cta;", "wgmma.fence.sync.aligned;"


@pytest.fixture(scope="module")
def ptx() -> str:
    """Return a product as it runs on a Hopper GPU."""
    proxy_fence.ensure_fences()
    types = {
        **dict.fromkeys(("inputs", "weight", "states", "next_norm", "result", "scaled"), "*bf16"),
        **dict.fromkeys(("squares", "parts"), "*fp32"),
        "epsilon": "fp32",
        "num_rows": "i32",
    }
    constants = {
        **dict.fromkeys(("bias", "sums", "arrivals")),
        **{"NUM_OUTPUTS": 1024, "NUM_INPUTS": 1024, "INPUT_STRIDE": 1024, "NUM_PARTS": 32},
        **{"PARTS": 32, "PART_STRIDE": 32, "IS_NORMED": True, "IS_GATED": False},
        **{"IS_ADDED": False, "PDL": True, "BLOCK_ROWS": 64, "BLOCK_OUTPUTS": 32},
        **{"BLOCK_INPUTS": 128, "SPLITS": 1},
    }
    names = wide_product.arg_names
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, name in enumerate(names)
        if types.get(name, "").startswith("*")
    }
    source = ASTSource(
        wide_product,
        {name: types.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs=aligned,
    )
    options = {"num_warps": 4, "num_stages": 4, "launch_pdl": True}
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    return str(compiled.asm["ptx"])


def test_each_product_of_copied_tiles_has_a_fence_before_it(ptx: str) -> None:
    assert "cp.async.cg" in ptx
    products = [match.start() for match in re.finditer(re.escape(_PRODUCT), ptx)]
    assert products
    for start in products:
        assert _FENCE in ptx[ptx.rindex("bar.sync", 0, start) : start]


def test_a_kernel_lets_its_successor_begin_only_after_it_has_waited(ptx: str) -> None:
    wait, launch = (ptx.index(f"griddepcontrol.{part}") for part in ("wait", "launch_dependents"))
    assert wait < launch


def test_fences_are_put_where_they_are_missing() -> None:
    old = f"\tcp.async.wait_group 4;\n\tbar.sync 0;\n\t{_PRODUCT}\n\twgmma.mma_async;\n"
    fenced = proxy_fence.with_fences(old)
    assert fenced == old.replace(f"\t{_PRODUCT}", f"\t{_FENCE}\n\t{_PRODUCT}")
    assert proxy_fence.with_fences("\tmma.sync;\n") == "\tmma.sync;\n"


def test_an_older_compiler_is_given_the_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    class Backend:
        def make_ptx(self, source: str, metadata: dict[str, str]) -> str:
            return f"{source}\t{_PRODUCT}\n"

        def hash(self) -> str:
            return "ptxas-90"

    monkeypatch.setattr(proxy_fence, "_triton_version", lambda: (3, 6))
    monkeypatch.setattr("triton.backends.nvidia.compiler.CUDABackend", Backend)
    proxy_fence.ensure_fences.__wrapped__()
    assert _FENCE in Backend().make_ptx("", {})
    assert Backend().hash() != "ptxas-90", "kernels without a fence stay in the cache"
