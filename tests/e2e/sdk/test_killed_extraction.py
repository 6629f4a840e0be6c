"""An extraction that is killed again and again ends with the file of an unbroken run (scripted engine)."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

JOB = """
import hashlib, json, os, sys
from offseek.sdk import Document, ExtractionOptions, Extractor, job, run_job
from offseek.sdk.scripted import ScriptedEngine

class Model:
    name = "bytes"
    sha256 = "0"
    def __init__(self):
        step_s = float(os.environ["STEP_S"])
        self.engine = ScriptedEngine(self.reply, context_length=10**6, tokens_per_step=8, step_s=step_s)
    def reply(self, request):
        text = bytes(request.prompt_token_ids).decode().rpartition("Document:\\n")[2].split("\\n")[0]
        if "bad" in text: return b"[]"
        return json.dumps({"sum": hashlib.sha256(text.encode()).hexdigest()}).encode()
    def encode_turns(self, turns): return list("\\n".join(t.text for t in turns).encode())
    def decode(self, ids): return bytes(ids).decode()
    def token_bytes(self, token_id): return bytes([token_id])
    def compile_schema(self, schema, **layout): return None

job.FLUSH_ROWS = 4
schema = {"type": "object", "properties": {"sum": {"type": "string"}}, "required": ["sum"]}
documents = (Document(f"d{i}", f"text {i}" + (" bad" if i % 50 == 7 else "")) for i in range(300))
run_job(Extractor(Model(), schema, options=ExtractionOptions(batch_size=8)), documents, sys.argv[1], resume=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_three_times_it_ends_with_the_unbroken_file(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    quick, slow = {**os.environ, "STEP_S": "0"}, {**os.environ, "STEP_S": "0.01"}
    subprocess.run([sys.executable, str(script), str(whole)], check=True, env=quick)
    kills = 0
    while kills < 3:
        size = out.stat().st_size if out.exists() else 0
        process = subprocess.Popen([sys.executable, str(script), str(out)], env=slow)
        while process.poll() is None and (not out.exists() or out.stat().st_size <= size):
            time.sleep(0.002)
        if process.poll() is not None:
            break
        time.sleep(0.002 * (kills % 5))
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
    subprocess.run([sys.executable, str(script), str(out)], check=True, env=quick)
    assert kills >= 2
    assert out.read_bytes() == whole.read_bytes()
    assert len(out.read_text().splitlines()) == 300
