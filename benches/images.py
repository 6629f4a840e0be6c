"""Encoded image to the model's input: ours and the reference package, interleaved, on one core.

    python benches/images.py [--rounds N]

Prints the median, 95th percentile and the ratio of medians for a 4000 x 3000 JPEG and smaller images, after checking
that both outputs are the same bytes.
"""

from __future__ import annotations

import argparse
import io
import os
import platform
import statistics
import time
from collections.abc import Callable

import cv2
import deepseek_recipe
import numpy as np
from offseek.recipe import OpenCvImagePreprocessor, PreprocessOptions
from PIL import Image


def picture(width: int, height: int, format: str) -> bytes:
    """A photo-like image: smooth colours with noise, seeded."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (height // 50 + 2, width // 50 + 2, 3), dtype=np.uint8)
    smooth = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    noisy = np.clip(smooth.astype(np.int16) + rng.integers(-6, 7, smooth.shape), 0, 255).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(noisy).save(out, format)
    return out.getvalue()


def measure(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each call, the calls taking turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 2):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - started)
    return {name: samples[2:] for name, samples in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    cv2.setNumThreads(1)
    print(f"{platform.processor() or platform.machine()}, OpenCV {cv2.__version__}, one core, {rounds} rounds")
    ours, theirs = OpenCvImagePreprocessor(), deepseek_recipe.OpenCvImagePreprocessor()
    print(f"{'image':24}{'ours ms':>10}{'p95':>8}{'reference ms':>14}{'p95':>8}{'ratio':>8}  same bytes")
    for width, height, format in ((4000, 3000, "JPEG"), (1920, 1080, "PNG"), (640, 480, "JPEG"), (64, 64, "PNG")):
        data = picture(width, height, format)
        mine = PreprocessOptions("high", 8192, 512)
        other = deepseek_recipe.PreprocessOptions("high", 8192, 512)
        same = ours.preprocess(data, mine).data == theirs.preprocess(data, other).data
        times = measure(
            {"ours": lambda: ours.preprocess(data, mine), "reference": lambda: theirs.preprocess(data, other)},  # noqa: B023
            rounds,
        )
        median = {name: statistics.median(samples) * 1e3 for name, samples in times.items()}
        p95 = {name: sorted(samples)[int(len(samples) * 0.95)] * 1e3 for name, samples in times.items()}
        print(
            f"{f'{width}x{height} {format}':24}{median['ours']:10.2f}{p95['ours']:8.2f}{median['reference']:14.2f}"
            f"{p95['reference']:8.2f}{median['reference'] / median['ours']:8.2f}  {same}"
        )


if __name__ == "__main__":
    main()
