"""lm-eval, as local-completions: generation. Tasks of choices need `echo`, which is not served."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

TASK = """\
task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: {kind}
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
metric_list:
  - metric: {metric}
generation_kwargs:
  max_gen_toks: 8
  until: ["."]
"""
ROWS = [
    {"question": "The capital of France is", "answer": " Paris"},
    {"question": "The capital of England is", "answer": " London"},
]

with tempfile.TemporaryDirectory() as folder:
    os.environ["HF_HOME"] = folder
    data = Path(folder) / "data.jsonl"
    data.write_text("\n".join(map(json.dumps, ROWS)))
    kinds = {"generate_until": "exact_match"}
    for kind, metric in kinds.items():
        text = TASK.format(name=f"own_{kind}", data=data, kind=kind, metric=metric)
        (Path(folder) / f"{kind}.yaml").write_text(text)
    os.environ["OPENAI_API_KEY"] = os.environ["KEY"]
    found = simple_evaluate(
        model="local-completions",
        model_args={
            "base_url": f"{os.environ['URL']}/v1/completions",
            "model": "smol",
            "tokenizer": os.environ["MODEL_FOLDER"],
            "num_concurrent": 2,
        },
        tasks=[f"own_{kind}" for kind in kinds],
        task_manager=TaskManager(include_path=folder),
        bootstrap_iters=0,
    )
assert "own_generate_until" in found["results"]
