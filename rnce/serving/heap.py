"""The C library's heaps, in a process that lives for long."""

import ctypes
import platform

M_ARENA_MAX = -8
HEAPS = 8  # more than there are threads that plan: with one heap, its lock costs a quarter of the throughput


def limit_heaps() -> None:
    """Let threads share a few heaps, where the C library is glibc.

    It gives up to eight heaps to every core otherwise, and memory freed by another thread stays with the heap it came
    from: on a large machine a server that leaks nothing grows all the same.
    """
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, HEAPS)
