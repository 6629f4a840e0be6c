"""Offline inference in torch: continuous batching, paged KV cache, structured-output sampler."""
