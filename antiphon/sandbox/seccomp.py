"""Takes all system calls from a process but those that computing needs: Linux on x86-64 and arm64.

A filter in the kernel's own language (classic BPF) is asked before each call and can only be made
stricter afterwards; see seccomp(2). What is not allowed fails with EPERM.
"""

import ctypes
import errno
import platform
import struct
import sys
from typing import NamedTuple

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _JUMP_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # in struct seccomp_data
_PROT_EXEC, _CLONE_THREAD = 4, 0x10000


class _Machine(NamedTuple):
    """Numbers of system calls differ by processor; these are of <asm/unistd.h>."""

    audit_architecture: int
    clone: int
    clone3: int
    mmap: int
    mprotect: int
    allowed: tuple[int, ...]


# read, write, readv, writev, pread64, close, fstat, lseek, fcntl, ppoll (and poll); brk, munmap,
# mremap, madvise; rt_sigaction, rt_sigprocmask, rt_sigreturn, sigaltstack, restart_syscall; futex,
# set_robust_list, set_tid_address, rseq, membarrier, sched_yield, sched_getaffinity; gettid,
# getpid, getrusage, sysinfo, getrandom; gettimeofday, clock_gettime, clock_nanosleep, nanosleep;
# exit, exit_group.
_MACHINES = {
    "x86_64": _Machine(
        *(0xC000003E, 56, 435, 9, 10),
        allowed=(
            *(0, 1, 19, 20, 17, 3, 5, 8, 72, 271, 7, 12, 11, 25, 28, 13, 14, 15, 131, 219, 202),
            *(273, 218, 334, 324, 24, 204, 186, 39, 98, 99, 318, 96, 228, 230, 35, 60, 231),
        ),
    ),
    "aarch64": _Machine(
        *(0xC00000B7, 220, 435, 222, 226),
        allowed=(
            *(63, 64, 65, 66, 67, 57, 80, 62, 25, 73, 214, 215, 216, 233, 134, 135, 139, 132, 128),
            *(98, 99, 96, 293, 283, 124, 123, 178, 172, 165, 179, 278, 169, 113, 115, 101, 93, 94),
        ),
    ),
}


def restrict_to_computing() -> bool:
    """Let this process compute, use what it has open and start threads, and nothing else.

    Memory cannot be made executable, no file or socket be opened, no process be started or
    signalled. There is no way back.

    Returns:
        Whether that is so; ``False`` where there is no such filter: another system or processor, or
        a kernel without it.
    """
    machine = _MACHINES.get(platform.machine())
    if sys.platform != "linux" or machine is None:
        return False
    code = _program(machine)
    buffer = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: a count, padding to the width of a pointer, and the pointer.
    program = struct.pack("@HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    zero = ctypes.c_ulong(0)
    if prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero) != 0:
        return False
    mode = ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    return bool(prctl(_PR_SET_SECCOMP, mode, ctypes.c_char_p(program), zero, zero) == 0)


def _program(machine: _Machine) -> bytes:
    refused = _ERRNO | errno.EPERM
    lines = [
        _line(_LOAD, _ARCHITECTURE_AT),
        _line(_JUMP_EQUAL, machine.audit_architecture, skip=1),
        _line(_RETURN, _KILL_PROCESS),
        _line(_LOAD, _NUMBER_AT),
    ]
    for number in machine.allowed:
        lines += [_line(_JUMP_EQUAL, number, otherwise=1), _line(_RETURN, _ALLOW)]
    # With ENOSYS, the C library starts threads by clone instead, whose flags can be looked at.
    lines += [
        _line(_JUMP_EQUAL, machine.clone3, otherwise=1),
        _line(_RETURN, _ERRNO | errno.ENOSYS),
    ]
    lines += _if_bit(machine.clone, 0, _CLONE_THREAD, then=_ALLOW, otherwise=refused)
    for number in (machine.mmap, machine.mprotect):
        lines += _if_bit(number, 2, _PROT_EXEC, then=refused, otherwise=_ALLOW)
    return b"".join([*lines, _line(_RETURN, refused)])


def _if_bit(number: int, argument: int, bit: int, *, then: int, otherwise: int) -> list[bytes]:
    """Judge a call by a bit of an argument's lower half; both machines are little-endian."""
    return [
        _line(_JUMP_EQUAL, number, otherwise=4),
        _line(_LOAD, _ARGUMENTS_AT + 8 * argument),
        _line(_JUMP_ANY_BIT, bit, otherwise=1),
        _line(_RETURN, then),
        _line(_RETURN, otherwise),
    ]


def _line(code: int, value: int, *, skip: int = 0, otherwise: int = 0) -> bytes:
    """Return a struct sock_filter: what to do, and how many lines to skip if true, if not."""
    return struct.pack("=HBBI", code, skip, otherwise, value)
