"""The C library's heaps, in a process that lives for long."""

import ctypes
import platform

M_ARENA_MAX = -8


def one_heap() -> None:
    """Let all threads share one heap, where the C library is glibc.

    It gives every thread a heap of its own otherwise, and memory freed by another thread stays with the heap it came
    from: under changing connections a server that leaks nothing grows all the same. Plans allocate too little for the
    lock to matter.
    """
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
