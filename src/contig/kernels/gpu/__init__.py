"""Triton kernels, one module per operation.

They are registered as torch operators, so that compiled steps and CUDA graphs can contain them.
"""
