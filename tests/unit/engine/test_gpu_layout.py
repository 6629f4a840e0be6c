"""The Triton path of the model, run on CPU through Triton's interpreter: layout of tasks, padding, attention tiles."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

SCRIPT = """
import sys, torch
from offseek.engine.models.operations import CudaOperations, CpuOperations
from offseek.engine.loading import open_checkpoint
from offseek.engine.models.transformer import Transformer, KVCache, Batch
from offseek.engine.model_runner import ModelRunner, HostBatch
import numpy as np
checkpoint = open_checkpoint(sys.argv[1])
config, out = checkpoint.config, {}
lengths, counts = [40, 7, 20], [40, 1, 5]
rng = np.random.default_rng(0)
tables = np.array([[3, 1, 5], [0, 0, 0], [4, 2, 0]], np.int32)
for deterministic in (False, True):
    for kind in ("cpu", "triton"):
        ops = CpuOperations(dtype="float32")
        if kind == "triton":
            ops = CudaOperations(device=torch.device("cpu"), dtype="float32", deterministic=deterministic)
        model = Transformer.load(config, checkpoint.tensors, ops)
        cache = KVCache.allocate(config, num_blocks=6, block_size=16, dtype=torch.float32, device=torch.device("cpu"))
        runner = ModelRunner(model, cache, block_size=16)
        logits = []
        # fill the caches, then a mixed pass of a whole prompt, one decode token and a short chunk
        for counts_now, ends in (([0, 6, 15], [0, 6, 15]), (counts, lengths)):
            starts = np.concatenate([[0], np.cumsum(counts_now)]).astype(np.int32)
            owner = np.repeat(np.arange(3), counts_now)
            pos = np.concatenate([np.arange(e - c, e) for c, e in zip(counts_now, ends)])
            ids = (pos * 7 + owner * 13) % 256
            slots = tables[owner, pos // 16].astype(np.int64) * 16 + pos % 16
            flat, last = np.stack([ids, pos, slots]).astype(np.int64), starts[1:].astype(np.int64) - 1
            host = HostBatch(flat, tables, starts, np.array(ends, np.int32), last)
            batch = runner._place_batch(host)
            if kind == "triton":
                tile = runner._small_tile() if deterministic else 64
                batch = Batch(batch.token_ids, batch.positions, batch.slots, batch.block_tables, batch.query_starts,
                              batch.context_lens, batch.logit_rows, torch.from_numpy(runner._tasks(host, tile)), tile)
            if min(counts_now) > 0:
                logits.append(model.forward(batch, cache))
            else:
                model.forward(batch, cache)
        out[kind] = torch.cat(logits)
    torch.testing.assert_close(out["triton"], out["cpu"], atol=1e-4, rtol=1e-4)
print("same")
"""


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_triton_model_matches_the_native_one(checkpoint: Callable[..., pathlib.Path], family: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(checkpoint(family))],
        env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "same\n", done.stderr
