"""Triton kernels, each with a plain torch twin: masking, deterministic sampling, batch-invariant ops."""
