# priority
curl http://localhost:8080/v1/chat/completions \
  -H "Content-Type: application/json" \
  -H "X-Priority: high" \
  -d '{"model": "...", "messages": [...]}'

# greedy
curl http://localhost:8080/v1/chat/completions \
  -H 'Content-Type: application/json' \
  -d '{"model":"m","messages":[{"role":"user","content":"Hi"}],"temperature":0,"cache_prompt":false}'

# schema
curl http://localhost:8080/v1/chat/completions \
  -H "Content-Type: application/json" \
  -d '{
    "model": "qwen3-8b",
    "messages": [{"role": "user", "content": "동물 한 종류와 서식지를 알려주세요."}],
    "response_format": {
      "type": "json_schema",
      "json_schema": {
        "name": "result",
        "schema": {
          "type": "object",
          "properties": {
            "animal": {"type": "string"},
            "habitat": {"type": "string", "enum": ["forest", "desert", "ocean"]}
          },
          "required": ["animal", "habitat"],
          "additionalProperties": false
        }
      }
    }
  }'

# answer
curl http://localhost:8080/v1/chat/completions \
  -H "Content-Type: application/json" \
  -d '{
    "model": "qwen3-8b",
    "messages": [
      {"role": "system", "content": "You are a helpful assistant."},
      {"role": "user", "content": "What is 2 + 2?"}
    ],
    "max_tokens": 100,
    "temperature": 0.7
  }'

# stream
curl http://localhost:8080/v1/chat/completions \
  -H "Content-Type: application/json" \
  --no-buffer \
  -d '{
    "model": "qwen3-8b",
    "messages": [{"role": "user", "content": "Count to 5."}],
    "stream": true
  }'

# image
curl http://localhost:8080/v1/chat/completions \
  -H "Content-Type: application/json" \
  -d '{
    "model": "qwen2.5-vl-7b",
    "messages": [
      {
        "role": "user",
        "content": [
          {"type": "text", "text": "Describe this image."},
          {"type": "image_url", "image_url": {"url": "file:///tmp/photo.jpg"}}
        ]
      }
    ]
  }'

# completions
curl http://localhost:8080/v1/completions \
  -H "Content-Type: application/json" \
  -d '{
    "model": "qwen3-8b",
    "prompt": "The capital of France is",
    "max_tokens": 20,
    "temperature": 0
  }'

# responses
curl http://127.0.0.1:8080/v1/responses \
  -H 'Content-Type: application/json' \
  -d '{
    "model": "qwen3-0.6b-4bit",
    "input": "Reply with: hello",
    "max_output_tokens": 64,
    "thinking_budget_tokens": 0
  }'

# messages
curl http://127.0.0.1:8080/v1/messages \
  -H 'Content-Type: application/json' \
  -H 'anthropic-version: 2023-06-01' \
  -d '{
    "model": "qwen3-0.6b-4bit",
    "max_tokens": 64,
    "system": "Be terse.",
    "messages": [{"role": "user", "content": "Reply with: hello"}]
  }'

# completion
curl http://localhost:8080/completion \
  -H 'Content-Type: application/json' \
  -d '{"prompt":"The capital of France is","n_predict":32,"temperature":0,"stream":false}'

# tokenize
curl http://localhost:8080/tokenize \
  -H "Content-Type: application/json" \
  -d '{"content": "Hello, world!", "add_special": false}'

# detokenize
curl http://localhost:8080/detokenize \
  -H "Content-Type: application/json" \
  -d '{"tokens": [9906, 11, 1917, 0]}'

# models
curl http://localhost:8080/v1/models

# health
curl -i http://localhost:8080/health

# metrics
curl http://localhost:8080/metrics

# slots
curl http://localhost:8080/slots

# props
curl http://localhost:8080/props
