"""instructor: typed answers by calls, by schemas and by JSON objects."""

from __future__ import annotations

import os

import instructor
from openai import OpenAI
from pydantic import BaseModel

client = OpenAI(base_url=f"{os.environ['URL']}/v1", api_key=os.environ["KEY"])


class Verdict(BaseModel):
    wet: bool


for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA, instructor.Mode.JSON):
    verdict = instructor.from_openai(client, mode=mode).chat.completions.create(
        model="smol",
        messages=[{"role": "user", "content": 'Is rain wet? For example {"wet": true}.'}],
        response_model=Verdict,
        temperature=0,
        max_tokens=100,
        max_retries=3,
    )
    assert isinstance(verdict, Verdict)
