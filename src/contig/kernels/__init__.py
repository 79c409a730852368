"""Operations that are worth compiling, one function per module.

Each module holds the reference implementation in torch and picks a compiled one for the device of
its inputs: numba loops on a CPU (``cpu/``), Triton kernels on a GPU (``gpu/``). Callers need not
know which one runs; ``dispatch.disabled()`` selects the reference everywhere.
"""
