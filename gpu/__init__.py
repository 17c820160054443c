"""The CUDA finder: kernels compiled at run time, stream contexts, pinned staging, captured graphs.

CuPy is imported when a device is opened, and not before: everything else works without it.
"""
