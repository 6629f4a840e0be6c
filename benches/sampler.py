"""How long does picking one token per row take, as a multiple of reading the logits once?

    python benches/sampler.py --device cuda --out benches/results/sampler-h200.json
    python benches/sampler.py --device cpu --batch 32 --vocab 49152
    python benches/sampler.py --capture out/logits.pt                       captures real logits, then:
    python benches/sampler.py --logits out/logits.pt --out benches/results/sampler-h200-real.json

Workload: [batch, vocab] logits N(0, 3^2), or captured ones; half of the rows free, a quarter
constrained with about 97% of the ids allowed (inside a JSON string), a quarter with under 2,000 (structure).
Every case runs once per round in a shuffled order (interleaved); on CUDA the L2 cache is flushed before each run
and times come from events. Prints median, p95 and the ratio to reading the logits once, taken as half the time
of a device copy of them (a copy moves each byte twice). Draws are checked against the torch twin in the same run.

Captured logits are the embedded default model's next-token logits after pieces of the installed packages' METADATA
files, 49,152 columns. They are widened to --vocab columns by shuffled copies of themselves lowered by 3 to 6, since a
larger vocabulary is mostly more rare tokens.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from offseek.kernels import RowSettings, sample


def workload(batch: int, vocab: int, device: str, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """(bitmask int32 [batch, words], bitmask_rows int32 [batch]): half free, a quarter wide, a quarter narrow."""
    generator = torch.Generator().manual_seed(seed)
    words = (vocab + 31) // 32
    rows = torch.full((batch,), -1, dtype=torch.int32)
    masks = torch.zeros(batch, words, dtype=torch.int32)
    for row in range(batch):
        if row % 4 == 1:
            allowed = torch.rand(words * 32, generator=generator) < 0.967
        elif row % 4 == 3:
            allowed = torch.zeros(words * 32, dtype=torch.bool)
            allowed[torch.randint(0, vocab, (1900,), generator=generator)] = True
        else:
            continue
        rows[row] = row
        packed = (allowed.view(words, 32).to(torch.int64) << torch.arange(32)).sum(1)
        masks[row] = torch.where(packed >= 2**31, packed - 2**32, packed).to(torch.int32)
    return masks.to(device), rows.to(device)


def capture(path: Path, rows: int) -> None:
    """Save float16 [rows, model vocab]: the default model's logits after real text."""
    from importlib import metadata

    from offseek.engine import EngineConfig, GenerationRequest, SamplingParams, load_engine

    engine = load_engine(config=EngineConfig(max_num_sequences=1))
    texts = [d.read_text("METADATA") or "" for d in metadata.distributions()]
    taken: list[torch.Tensor] = []
    forward = engine._runner.forward

    def keep(batch: Any) -> torch.Tensor:
        logits = forward(batch)
        taken.extend(row.to(torch.float16).clone() for row in logits[:, : engine.vocab_size])
        return logits

    engine._runner.forward = keep  # type: ignore[method-assign]
    for number, text in enumerate(sorted(t for t in texts if len(t) > 2000)[: (rows + 15) // 16]):
        prompt = engine.tokenizer.encode(text[:1200])
        params = SamplingParams(max_tokens=16, seed=number, ignore_eos=True)
        engine.add_request(GenerationRequest(request_id=str(number), prompt_token_ids=prompt, sampling=params))
        while engine.has_work():
            engine.step()
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(torch.stack(taken[:rows]), path)
    print(f"{path}: {len(taken[:rows])} rows of {engine.vocab_size} logits")


def widen(captured: torch.Tensor, batch: int, vocab: int) -> torch.Tensor:
    """float32 [batch, vocab] from captured rows, see the head of the file."""
    generator = torch.Generator().manual_seed(0)
    rows = captured[torch.arange(batch) % len(captured)].float()
    parts = [rows]
    while sum(p.shape[1] for p in parts) < vocab:
        shuffled = rows[:, torch.randperm(rows.shape[1], generator=generator)]
        parts.append(shuffled - 3 - 3 * torch.rand(shuffled.shape, generator=generator))
    return torch.cat(parts, dim=1)[:, :vocab]


def timer(device: str) -> Callable[[Callable[[], object]], float]:
    """A function that runs its argument once, cold, and returns microseconds."""
    if device == "cpu":

        def on_cpu(fn: Callable[[], object]) -> float:
            start = time.perf_counter_ns()
            fn()
            return (time.perf_counter_ns() - start) / 1e3

        return on_cpu
    flush = torch.empty(256 * 2**20, dtype=torch.int8, device=device)

    def on_gpu(fn: Callable[[], object]) -> float:
        flush.zero_()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(400_000)  # holds the stream until everything is queued: launches are not what is timed
        start.record()
        fn()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3

    return on_gpu


def cases(x: torch.Tensor, masks: torch.Tensor, rows: torch.Tensor, vocab: int) -> dict[str, Callable[[], object]]:
    """Named zero-argument calls over one logits tensor."""
    batch, device = x.shape[0], x.device

    def ours(free: bool = False, **kw: float) -> Callable[[], object]:
        settings = RowSettings.uniform(batch, seed=1, device=device, **kw)  # type: ignore[arg-type]
        if free:
            return lambda: sample(x, settings, vocab_size=vocab)
        return lambda: sample(x, settings, bitmask=masks, bitmask_rows=rows, vocab_size=vocab)

    target = torch.empty_like(x)
    return {
        "copy": lambda: target.copy_(x),
        "temperature, mixed rows": ours(),
        "temperature, all free": ours(free=True),
        "greedy, mixed rows": ours(temperature=0.0),
        "top-p 0.95, mixed rows": ours(top_p=0.95),
        "top-p 0.95, all free": ours(free=True, top_p=0.95),
        "top-k 50, mixed rows": ours(top_k=50),
        "top-k 50 + top-p 0.95, mixed rows": ours(top_k=50, top_p=0.95),
        "top-k 50 + top-p 0.95, all free": ours(free=True, top_k=50, top_p=0.95),
        "torch softmax + multinomial, no mask": lambda: torch.multinomial(torch.softmax(x.float(), dim=-1), 1),
    }


def agreement(x: torch.Tensor, masks: torch.Tensor, rows: torch.Tensor, vocab: int) -> float:
    """Share of rows whose draw equals the torch twin's, over several settings."""
    same = total = 0
    for kw in ({}, {"top_p": 0.95}, {"top_k": 50}, {"top_k": 50, "top_p": 0.95}, {"temperature": 0.0}, {"min_p": 0.05}):
        settings = RowSettings.uniform(x.shape[0], seed=3, device=x.device, **kw)  # type: ignore[arg-type]
        a = sample(x, settings, bitmask=masks, bitmask_rows=rows, vocab_size=vocab)
        b = sample(x, settings, bitmask=masks, bitmask_rows=rows, vocab_size=vocab, backend="torch")
        same += int((a.token_ids == b.token_ids).sum())
        total += x.shape[0]
    return same / total


def measure(
    todo: dict[str, Callable[[], object]], run: Callable[[Callable[[], object]], float], rounds: int
) -> dict[str, list[float]]:
    """Sorted times of each case, interleaved."""
    times: dict[str, list[float]] = {k: [] for k in todo}
    for _ in range(3):
        for fn in todo.values():
            fn()
    order = list(todo)
    for _ in range(rounds):
        random.shuffle(order)
        for key in order:
            times[key].append(run(todo[key]))
    return {k: sorted(v) for k, v in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--vocab", type=int, default=129_280)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--logits", help="file that --capture wrote")
    parser.add_argument("--capture", type=Path, help="write captured logits to this file and stop")
    parser.add_argument("--out")
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.capture:
        capture(args.capture, 64)
        return
    if args.logits:
        base = widen(torch.load(args.logits), args.batch, args.vocab).to(args.device)
    else:
        base = torch.randn(args.batch, args.vocab, device=args.device) * 3
    vocab = base.shape[1]
    masks, rows = workload(args.batch, vocab, args.device)
    name = torch.cuda.get_device_name() if args.device != "cpu" else platform.machine()
    result: dict[str, object] = {
        "date": time.strftime("%Y-%m-%d"), "device": name, "torch": torch.__version__, "batch": args.batch,
        "vocab": vocab, "logits": "captured, widened" if args.logits else "N(0, 9)",
    }  # fmt: skip
    print(f"{name}, torch {torch.__version__}, [{args.batch}, {vocab}], {args.rounds} rounds")
    for dtype_name in args.dtypes.split(","):
        x = base.to(getattr(torch, dtype_name))
        agree = agreement(x, masks, rows, vocab)
        times = measure(cases(x, masks, rows, vocab), timer(args.device), args.rounds)
        read = statistics.median(times["copy"]) / 2
        print(f"\n{dtype_name}: read once = {read:.1f} us; draws equal to the torch twin: {agree:.2%}")
        table = {}
        for key, t in times.items():
            median, p95 = statistics.median(t), t[int(len(t) * 0.95)]
            print(f"  {key:40s} {median:9.1f} us  p95 {p95:9.1f}  {median / read:6.2f}x")
            table[key] = {"median_us": round(median, 1), "p95_us": round(p95, 1), "x_read": round(median / read, 2)}
        result[dtype_name] = {"read_us": round(read, 1), "agreement_with_twin": agree, "cases": table}
    if args.out:
        Path(args.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
