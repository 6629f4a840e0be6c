"""How fast does the engine generate, beside `transformers`, under constraints, and in deterministic mode?

    python benches/engine.py peers --device cpu --dtypes float32 int8 --threads 1
    python benches/engine.py constrained --device cpu --batch 32
    python benches/engine.py demo --dtypes int8 --threads 1 --requests 16
    python benches/engine.py deterministic --device cuda --batch 64 --model random:135m
    python benches/engine.py invariance --device cuda --model random:135m

peers:         64 requests, prompt lengths log-uniform in 32..1024, output lengths in 16..256, all of them generated in
               full, against `generate` left-padded at each of --hf-batches (requests sorted by length, its best case);
               useful tokens per second. Contenders take turns within a round.
constrained:   free rows against rows under a grammar of JSON that never ends by itself (interleaved runs), and an
               object of six fields with and without forced tokens, beside free rows of the same lengths.
demo:          the requests that the extraction demo makes, with and without forced tokens, and the same prompts free,
               generated to the lengths that the constrained ones had. Prompts are in the prefix cache.
deterministic: decode tokens/s of the batch-invariant mode against the default.
invariance:    the same requests alone, in batches of several sizes and orders, in chunks, from the prefix cache, and
               speculated: number of distinct outputs (must be 1) in deterministic mode, and in the default mode.

--model: the installed default model, a path, or `random:135m` / `random:1b` (random weights of that size; --tokenizer
gives its tokenizer.json). --clock cpu counts the processor time of this process instead of the time that passed: with
--threads 1 that is the same on a quiet core, and still means something on a shared one. Prints machine, versions,
medians with 5th and 95th percentile; --out adds them to a file.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from offseek.engine import EngineConfig, GenerationRequest, SamplingParams, load_engine

SIZES = {
    "135m": {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
             "num_key_value_heads": 3, "head_dim": 64},
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
           "num_key_value_heads": 8, "head_dim": 64},
}  # fmt: skip
#: A JSON array of one string that does not end before the token budget does.
ENDLESS = r'\["[^"\\\x00-\x1f]{3000,}"\]'
#: Six fields as the extraction demo has them, in its layout: ", " and ": " and nothing else between tokens.
FIELDS = (
    r'\{"package_name": "[^"\\\x00-\x1f]{1,40}", "version": "[0-9a-z.]{1,20}", '
    r'"license_family": "(MIT|BSD|Apache-2\.0|GPL|other)", "has_wheels": (true|false), '
    r'"num_dependencies": [1-9]?[0-9], "author": \{"name": "[^"\\\x00-\x1f]{1,40}"\}\}'
)


def model_folder(args: argparse.Namespace) -> Any:
    """What `load_engine` gets; random checkpoints are made in a temporary folder."""
    if not args.model.startswith("random:"):
        return args.model
    import transformers

    folder = pathlib.Path(tempfile.mkdtemp())
    tokenizer = pathlib.Path(args.tokenizer).read_text()
    (folder / "tokenizer.json").write_text(tokenizer)
    config = transformers.LlamaConfig(
        vocab_size=49152, max_position_embeddings=8192, tie_word_embeddings=True, rope_theta=100000.0,
        bos_token_id=1, eos_token_id=2, **SIZES[args.model.partition(":")[2]],
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


def workload(count: int, vocab: int, seed: int = 1) -> list[tuple[list[int], int]]:
    """(prompt ids, output length) of each request."""
    rng = random.Random(seed)
    log_uniform = lambda low, high: round(low * (high / low) ** rng.random())  # noqa: E731
    return [
        ([rng.randrange(1000, vocab) for _ in range(log_uniform(32, 1024))], log_uniform(16, 256)) for _ in range(count)
    ]


def sync(args: argparse.Namespace) -> None:
    if args.device.startswith("cuda"):
        torch.cuda.synchronize()


def run_ours(engine: Any, requests: list[tuple[list[int], int]], **sampling: Any) -> dict[str, list[int]]:
    grammar = sampling.pop("grammar", None)
    settings = {"temperature": 0.0, "ignore_eos": True} | sampling
    for index, (prompt, length) in enumerate(requests):
        engine.add_request(
            GenerationRequest(
                request_id=str(index), prompt_token_ids=prompt, grammar=grammar,
                sampling=SamplingParams(max_tokens=length, **settings),
            )
        )  # fmt: skip
    tokens: dict[str, list[int]] = {}
    while engine.has_work():
        for output in engine.step():
            if output.error is not None:
                raise output.error
            tokens.setdefault(output.request_id, []).extend(output.token_ids)
    return tokens


def load(args: argparse.Namespace, folder: Any, dtype: str, **settings: Any) -> Any:
    config = EngineConfig(
        **{"num_threads": args.threads, "max_num_sequences": args.batch, "prefix_cache": False} | settings
    )
    return load_engine(folder, device=args.device, dtype=dtype, config=config)  # type: ignore[arg-type]


def timed(args: argparse.Namespace, work: Callable[[], Any]) -> tuple[float, Any]:
    clock = time.process_time if args.clock == "cpu" else time.perf_counter
    sync(args)
    start = clock()
    result = work()
    sync(args)
    return clock() - start, result


def summary(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    pick = lambda q: ordered[min(len(ordered) - 1, int(q * len(ordered)))]  # noqa: E731
    return {"median": round(statistics.median(values), 2), "p5": round(pick(0.05), 2), "p95": round(pick(0.95), 2)}


def bench_peers(args: argparse.Namespace, folder: Any) -> dict[str, Any]:
    import transformers

    transformers.logging.set_verbosity_error()
    requests = workload(args.requests, 40000)
    useful = sum(length for _, length in requests)
    contenders: dict[str, Callable[[], Any]] = {}
    engines = {dtype: load(args, folder, dtype) for dtype in args.dtypes}
    for dtype, engine in engines.items():
        contenders[f"offseek {dtype}"] = lambda engine=engine: run_ours(engine, requests)
    hf_folder = args.hf_model or folder
    hf_dtype = torch.float32 if args.device == "cpu" else torch.bfloat16
    model = hf_model(engines[args.dtypes[0]], hf_folder, hf_dtype, args.device)
    ordered = sorted(requests, key=lambda r: len(r[0]) + r[1])

    def generate(batch_size: int) -> None:
        for at in range(0, len(ordered), batch_size):
            part = ordered[at : at + batch_size]
            width, new = max(len(p) for p, _ in part), max(length for _, length in part)
            ids = torch.tensor([[0] * (width - len(p)) + p for p, _ in part], device=args.device)
            mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p, _ in part], device=args.device)
            with torch.inference_mode():
                model.generate(
                    ids, attention_mask=mask, max_new_tokens=new, min_new_tokens=new, do_sample=False, pad_token_id=0
                )

    for batch_size in args.hf_batches:
        contenders[f"transformers batch {batch_size}"] = lambda size=batch_size: generate(size)
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for engine in engines.values():  # warm-up
        run_ours(engine, [(p[:64], 8) for p, _ in requests[:8]])
    for work in contenders.values() if args.device != "cpu" else ():
        work()
    for _ in range(args.rounds):
        for name, work in contenders.items():
            speeds[name].append(useful / timed(args, work)[0])
            print(f"  {name}: {speeds[name][-1]:.1f} tok/s", flush=True)
    result: dict[str, Any] = {name: summary(values) for name, values in speeds.items()}
    best = max(result[name]["median"] for name in result if name.startswith("transformers"))
    result["ratio to the best transformers batch"] = {
        dtype: round(result[f"offseek {dtype}"]["median"] / best, 2) for dtype in args.dtypes
    }
    return result


def hf_model(engine: Any, folder: Any, dtype: torch.dtype, device: str) -> Any:
    """The same weights in `transformers`: from the folder, or copied out of our engine when that read a GGUF."""
    import transformers

    if pathlib.Path(folder).is_dir():
        return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).eval()
    from offseek.engine import open_checkpoint

    checkpoint = open_checkpoint(folder)
    shape = checkpoint.config
    config = transformers.LlamaConfig(
        vocab_size=shape.vocab_size, hidden_size=shape.hidden_size, intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.num_layers, num_attention_heads=shape.num_heads, num_key_value_heads=shape.num_kv_heads,
        max_position_embeddings=shape.context_length, rms_norm_eps=shape.rms_norm_eps, tie_word_embeddings=True,
        rope_theta=1 / shape.rope_inv_freq[1] ** (shape.head_dim / 2), eos_token_id=2, bos_token_id=1,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    state = {
        k: checkpoint.tensors.get(k, tuple(v.shape)) for k, v in model.state_dict().items() if k != "lm_head.weight"
    }
    model.load_state_dict(state, strict=False)
    model.tie_weights()
    return model.to(device, dtype).eval()


def bench_constrained(args: argparse.Namespace, folder: Any) -> dict[str, Any]:
    from offseek.grammars import GrammarCompiler

    dtype = args.dtypes[0]
    engine = load(args, folder, dtype, forced_tokens=False)
    forced = load(args, folder, dtype)
    compiler = GrammarCompiler(engine.vocabulary)
    endless, demo = compiler.compile_regex(ENDLESS), compiler.compile_regex(FIELDS)
    rng = random.Random(2)
    requests = [([rng.randrange(1000, 40000) for _ in range(64)], args.tokens) for _ in range(args.batch)]
    contenders: dict[str, Callable[[], Any]] = {
        "free": lambda: run_ours(engine, requests),
        "constrained": lambda: run_ours(engine, requests, grammar=endless),
        "six fields, no forced tokens": lambda: run_ours(engine, requests, grammar=demo),
        "six fields, forced tokens": lambda: run_ours(forced, requests, grammar=demo),
    }
    lengths = [len(tokens) for _, tokens in sorted(run_ours(forced, requests, grammar=demo).items(), key=by_number)]
    same_length = [(prompt, count) for (prompt, _), count in zip(requests, lengths, strict=True)]
    contenders["free, lengths of the six fields"] = lambda: run_ours(engine, same_length)
    contenders = {name: work for name, work in contenders.items() if not args.only or name in args.only}
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for work in contenders.values():
        work()
    before = engine.stats.mask_fill_s, engine.stats.mask_wait_s
    for _ in range(args.rounds):
        for name, work in contenders.items():
            seconds, tokens = timed(args, work)
            speeds[name].append(sum(map(len, tokens.values())) / seconds)
    result: dict[str, Any] = {name: summary(values) for name, values in speeds.items()}
    pairs = zip(speeds["free"], speeds["constrained"], strict=True)
    result["cost of constraints, %"] = summary([100 * (1 - c / f) for f, c in pairs])
    if not args.only:
        pairs = zip(speeds["free, lengths of the six fields"], speeds["six fields, forced tokens"], strict=True)
        result["six fields with forced tokens, x free of the same lengths"] = summary([c / f for f, c in pairs])
    result["mask fill, wait (s)"] = [
        round(engine.stats.mask_fill_s - before[0], 3), round(engine.stats.mask_wait_s - before[1], 3)
    ]  # fmt: skip
    return result


def by_number(item: tuple[str, Any]) -> int:
    return int(item[0])


def bench_demo(args: argparse.Namespace, folder: Any) -> dict[str, Any]:
    from offseek.sdk.demo import PROMPT, PackageFacts
    from offseek.sdk.demo_documents import package_documents
    from offseek.sdk.extraction import ExtractionOptions, Extractor
    from offseek.sdk.job import run_job
    from offseek.sdk.model import ChatModel

    model = ChatModel.load("default")
    asked: list[GenerationRequest] = []
    add: Any = model.engine.add_request
    model.engine.add_request = lambda request: (asked.append(request), add(request))[1]  # type: ignore[method-assign]
    job = Extractor(
        model, PackageFacts, prompt=PROMPT, options=ExtractionOptions(max_tokens=160, batch_size=args.batch)
    )
    documents = [package.document for package in package_documents(args.requests)]
    with tempfile.TemporaryDirectory() as target:
        run_job(job, documents, pathlib.Path(target) / "rows.jsonl", overwrite=True)
    dtype = args.dtypes[0]
    engines = {flag: load(args, folder, dtype, forced_tokens=flag, prefix_cache=True) for flag in (False, True)}

    def run(engine: Any, lengths: list[int] | None = None) -> list[int]:
        """Replay the demo's requests; the number of tokens of each answer."""
        for index, request in enumerate(asked):
            sampling = dataclasses.replace(request.sampling, logprobs=None, seed=index)
            grammar = request.grammar
            if lengths is not None:
                grammar = None
                sampling = SamplingParams(max_tokens=lengths[index], temperature=sampling.temperature, ignore_eos=True)
            engine.add_request(dataclasses.replace(request, request_id=str(index), sampling=sampling, grammar=grammar))
        counts = [0] * len(asked)
        while engine.has_work():
            for output in engine.step():
                if output.error is not None:
                    raise output.error
                counts[int(output.request_id)] += len(output.token_ids)
        return counts

    lengths = run(engines[True])
    contenders: dict[str, Callable[[], list[int]]] = {
        "forced tokens": lambda: run(engines[True]), "one by one": lambda: run(engines[False]),
        "free, same lengths": lambda: run(engines[False], lengths),
    }  # fmt: skip
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for work in contenders.values():
        work()
    stats = engines[True].stats
    before = stats.num_generated_tokens, stats.num_forced_tokens
    for _ in range(args.rounds):
        for name, work in contenders.items():
            seconds, counts = timed(args, work)
            speeds[name].append(sum(counts) / seconds)
    result: dict[str, Any] = {name: summary(values) for name, values in speeds.items()}
    for name in ("forced tokens", "one by one"):
        pairs = zip(speeds["free, same lengths"], speeds[name], strict=True)
        result[f"{name}, x free"] = summary([c / f for f, c in pairs])
    made, forced = stats.num_generated_tokens - before[0], stats.num_forced_tokens - before[1]
    result["share of forced tokens, %"] = round(100 * forced / made, 1)
    return result


def bench_deterministic(args: argparse.Namespace, folder: Any) -> dict[str, Any]:
    dtype = args.dtypes[0]
    engines = {flag: load(args, folder, dtype, deterministic=flag) for flag in (False, True)}
    rng = random.Random(2)
    requests = [([rng.randrange(1000, 40000) for _ in range(32)], args.tokens) for _ in range(args.batch)]
    speeds: dict[bool, list[float]] = {False: [], True: []}
    for engine in engines.values():
        run_ours(engine, requests)
    for _ in range(args.rounds):
        for flag, engine in engines.items():
            speeds[flag].append(args.batch * args.tokens / timed(args, lambda e=engine: run_ours(e, requests))[0])
    result: dict[str, Any] = {("deterministic" if flag else "default"): summary(v) for flag, v in speeds.items()}
    pairs = zip(speeds[False], speeds[True], strict=True)
    result["default / deterministic"] = summary([a / b for a, b in pairs])
    return result


def bench_invariance(args: argparse.Namespace, folder: Any) -> dict[str, Any]:
    rng = random.Random(3)
    shared = [rng.randrange(1000, 40000) for _ in range(100)]
    requests = [(shared[: rng.randrange(100)] + [rng.randrange(1000, 40000) for _ in range(rng.randrange(1, 80))],
                 args.tokens) for _ in range(args.requests)]  # fmt: skip
    found: dict[str, Any] = {}
    for deterministic in (True, False):
        variants: dict[str, dict[str, Any]] = {
            "one at a time": {"max_num_sequences": 1}, "batch 7": {"max_num_sequences": 7}, "all": {},
            "chunks of 70": {"max_num_sequences": 48, "max_batch_tokens": 70},
            "prefix cache": {"prefix_cache": True}, "again from the cache": {"prefix_cache": True},
            "speculated": {"speculative_tokens": 4}, "few blocks": {"num_blocks": 60},
        }  # fmt: skip
        outputs: list[list[list[int]]] = []
        cached = None
        for name, settings in variants.items():
            if name != "again from the cache" or cached is None:
                cached = load(args, folder, args.dtypes[0], deterministic=deterministic, **settings)
            order = list(range(len(requests)))
            rng.shuffle(order)
            tokens = run_ours(cached, [requests[i] for i in order], temperature=0.7, seed=11)
            outputs.append([tokens[str(order.index(i))] for i in range(len(requests))])
        distinct = [len({tuple(o[i]) for o in outputs}) for i in range(len(requests))]
        found["deterministic" if deterministic else "default"] = {
            "requests": len(requests), "variants": len(variants), "most distinct outputs of a request": max(distinct),
            "requests with more than one": sum(d > 1 for d in distinct),
        }  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=["peers", "constrained", "demo", "deterministic", "invariance"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--hf-model", help="folder of the same weights for transformers")
    parser.add_argument("--tokenizer", help="tokenizer.json for random models")
    parser.add_argument("--dtypes", nargs="+", default=["auto"])
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hf-batches", nargs="+", type=int, default=[8, 16, 32])
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--only", nargs="+", help="constrained: these contenders only")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    folder = model_folder(args)
    if folder == "smollm2-135m-instruct":
        from offseek.engine.models import model_path

        folder = model_path()
    bench = {
        "peers": bench_peers, "constrained": bench_constrained, "demo": bench_demo,
        "deterministic": bench_deterministic, "invariance": bench_invariance,
    }[args.question]  # fmt: skip
    import transformers

    device = torch.cuda.get_device_name() if args.device.startswith("cuda") else platform.processor() or "cpu"
    report = {
        "date": time.strftime("%Y-%m-%d"), "device": device, "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__, "transformers": transformers.__version__, "model": args.model, "batch": args.batch,
        "tokens": args.tokens, "requests": args.requests, "rounds": args.rounds, "clock": args.clock,
        "dtypes": args.dtypes, "results": bench(args, folder),
    }  # fmt: skip
    print(json.dumps({args.question: report}, indent=1))
    if args.out:
        known = json.loads(args.out.read_text()) if args.out.exists() else {}
        args.out.write_text(json.dumps(known | {args.question: report}, indent=1) + "\n")


if __name__ == "__main__":
    main()
