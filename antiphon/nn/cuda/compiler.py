"""In-process compilation of CUDA C++ without a toolkit, and launches on PyTorch's stream."""

import ctypes
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from antiphon.nn.cuda.binary_cache import cached
from antiphon.nn.cuda.resident_limits import CAPABILITY

logger = logging.getLogger(__name__)
_FOLDER = Path(__file__).parent


class CompilationError(Exception):
    """A program could not be compiled or loaded; the message is the compiler's or the driver's."""


@cache
def runs_on(device: torch.device, num_blocks: int) -> bool:
    """Return whether a program can be compiled, and all its blocks fit on the device at once."""
    if device.type != "cuda" or torch.version.cuda is None:
        return False
    properties = torch.cuda.get_device_properties(device)
    if (properties.major, properties.minor) != CAPABILITY:
        return False
    return properties.multi_processor_count >= num_blocks and has_compiler()


@cache
def has_compiler() -> bool:
    """Return whether the compiler package and its library are installed."""
    try:
        checked(import_module("cuda.bindings.nvrtc").nvrtcVersion())
    except (ImportError, RuntimeError):  # package or library not found
        return False
    return True


@dataclass(frozen=True, slots=True)
class Program:
    """Kernel whose blocks are all resident at once.

    Attributes:
        num_blocks: most blocks of a launch.
    """

    function: Any
    num_blocks: int
    num_threads: int
    shared_bytes: int
    device: torch.device

    def launch_early(
        self, num_tiles: int, *structures: ctypes.Structure, row_tiles: int = 1
    ) -> None:
        """Launch a kernel that waits for the previous one itself (programmatic dependent launch).

        It has a block per tile, at most ``num_blocks``, for each of ``row_tiles``.
        """
        driver = import_module("cuda.bindings.driver")
        config, early = driver.CUlaunchConfig(), driver.CUlaunchAttribute()
        early.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        early.value.programmaticStreamSerializationAllowed = 1
        config.attrs, config.numAttrs = [early], 1
        config.gridDimX, config.gridDimY = min(num_tiles, self.num_blocks), row_tiles
        config.gridDimZ = 1
        config.blockDimX, config.blockDimY, config.blockDimZ = self.num_threads, 1, 1
        config.sharedMemBytes = self.shared_bytes
        addresses = (ctypes.c_void_p * len(structures))(*map(ctypes.addressof, structures))
        with torch.cuda.device(self.device):
            config.hStream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
            checked(driver.cuLaunchKernelEx(config, self.function, ctypes.addressof(addresses), 0))

    def launch(self, *structures: ctypes.Structure) -> None:
        """Launch on the device's current stream, with structures as the kernel's arguments."""
        driver = import_module("cuda.bindings.driver")
        addresses = (ctypes.c_void_p * len(structures))(*map(ctypes.addressof, structures))
        with torch.cuda.device(self.device):
            checked(
                driver.cuLaunchCooperativeKernel(
                    self.function,
                    *(self.num_blocks, 1, 1),
                    *(self.num_threads, 1, 1),
                    self.shared_bytes,
                    torch.cuda.current_stream().cuda_stream,
                    ctypes.addressof(addresses),
                )
            )


def load_program(
    source: str,
    name: str,
    definitions: Mapping[str, int],
    num_threads: int,
    device: torch.device,
) -> Program:
    """Compile a kernel and load it on a device; raises CompilationError.

    Args:
        source: text from `source_of`.
        name: name of the kernel; the source defines ``name_shared_bytes`` as a constant.
        definitions: macros; ``BLOCKS`` is the number of blocks.
        device: device with an initialised PyTorch context.
    """
    binary = compiled(source, definitions)
    try:
        function, shared_bytes = _loaded(binary, name, num_threads, device)
    except (ImportError, RuntimeError) as error:
        raise CompilationError(f"the program was not loaded: {error}") from error
    return Program(function, definitions["BLOCKS"], num_threads, shared_bytes, device)


def load_product(
    source: str,
    name: str,
    definitions: Mapping[str, int],
    num_threads: int,
    device: torch.device,
) -> Program | None:
    """Compile and load a program that a kernel can stand for; ``None``: the kernel must run."""
    try:
        return load_program(source, name, definitions, num_threads, device)
    except CompilationError as error:  # an older compiler or driver
        logger.warning("a Triton kernel runs instead of %s, which failed: %s", name, error)
        return None


def _loaded(binary: bytes, name: str, num_threads: int, device: torch.device) -> tuple[Any, int]:
    """Return a kernel on a device, and the shared memory of one of its blocks.

    Raises:
        ImportError: the driver package is not installed.
        RuntimeError: the driver rejects it, or a block needs too much memory.
    """
    driver = import_module("cuda.bindings.driver")
    constant = ctypes.c_int()
    with torch.cuda.device(device):
        torch.cuda.current_stream().synchronize()  # makes the context current
        (module,) = checked(driver.cuModuleLoadData(binary))
        (function,) = checked(driver.cuModuleGetFunction(module, name.encode()))
        shared = f"{name}_shared_bytes".encode()
        address, num_bytes = checked(driver.cuModuleGetGlobal(module, shared))
        checked(driver.cuMemcpyDtoH(ctypes.addressof(constant), address, num_bytes))
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        checked(driver.cuFuncSetAttribute(function, attribute, constant.value))
        (num_resident,) = checked(
            driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                function, num_threads, constant.value
            )
        )
    if num_resident < 1:
        raise RuntimeError("a block has no room on a multiprocessor")
    return function, constant.value


def source_of(files: Sequence[str]) -> str:
    """Return the concatenated text of files of this folder."""
    return "\n".join((_FOLDER / file).read_text(encoding="utf-8") for file in files)


def compiled(source: str, definitions: Mapping[str, int]) -> bytes:
    """Compile for the programs' GPU generation, or read the result of earlier; needs no GPU.

    Raises:
        CompilationError: the source is not accepted.
    """
    nvrtc = import_module("cuda.bindings.nvrtc")
    options = ["--gpu-architecture=sm_90a", "--std=c++17"]
    options += [f"-D{name}={value}" for name, value in definitions.items()]
    version = checked(nvrtc.nvrtcVersion())
    return cached((source, options, version), partial(_compile, source, options))


def _compile(source: str, options: Sequence[str]) -> bytes:
    nvrtc = import_module("cuda.bindings.nvrtc")
    (program,) = checked(nvrtc.nvrtcCreateProgram(source.encode(), b"program.cu", 0, [], []))
    encoded = [option.encode() for option in options]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
    if int(status):
        (size,) = checked(nvrtc.nvrtcGetProgramLogSize(program))
        log = b" " * size
        checked(nvrtc.nvrtcGetProgramLog(program, log))
        raise CompilationError(log.decode(errors="replace").strip("\0 ") or repr(status))
    (size,) = checked(nvrtc.nvrtcGetCUBINSize(program))
    binary: bytes = b" " * size
    checked(nvrtc.nvrtcGetCUBIN(program, binary))
    return binary


def checked(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the results of a driver call without its status; raises RuntimeError."""
    status, *values = answer
    if int(status):
        raise RuntimeError(f"CUDA answers {status!r}")
    return tuple(values)
