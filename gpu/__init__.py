"""The CUDA finder: kernels compiled at run time, stream contexts, pinned staging, captured graphs.

CuPy is imported when a device is opened, and not before: everything else works without it, on the thin interface of
`gpu.device`, so that the tests can run the same kernels on an emulated device.
"""
