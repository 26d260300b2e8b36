"""GET /metrics: names, rules of counting, and counters that do not decrease."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.app import make_metrics_app
from gateway.server import listen
from tests.contract.harness import CHAT, Harness, body
from tests.wait import until

# Name, type and help of every family of the reference, in order.
REFERENCE = """\
mlxcel_requests_total counter Total number of completed generation requests; chat completion \
streams cancelled by the client are excluded
mlxcel_prompt_tokens_total counter Total prompt tokens processed
mlxcel_completion_tokens_total counter Total completion tokens of the requests counted in \
mlxcel_requests_total
mlxcel_generation_time_seconds_total counter Total generation time in seconds
mlxcel_slots_total gauge Total number of parallel slots
mlxcel_slots_available gauge Available parallel slots
mlxcel_queue_depth gauge Current prefill queue depth
mlxcel_batch_sequences_started counter Total sequences that entered prefill
mlxcel_batch_sequences_completed counter Total sequences that completed generation
mlxcel_batch_prefill_tokens_total counter Cumulative prefill tokens processed
mlxcel_batch_decode_tokens_total counter Cumulative decode tokens generated
mlxcel_batch_current_size gauge Current active batch size
mlxcel_cache_pool_active gauge Active cache entries
"""
LLAMA = """\
prompt_tokens_total prompt_tokens_cached_total prompt_seconds_total tokens_predicted_total
tokens_predicted_seconds_total n_decode_total n_tokens_max prompt_tokens_seconds
predicted_tokens_seconds requests_processing requests_deferred n_busy_slots_per_decode
"""


async def read_page(harness: Harness) -> str:
    async with harness.session.get("/metrics") as reply:
        assert reply.status == 200
        assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert int(reply.headers["Process-Start-Time-Unix"]) > 1_700_000_000
        return await reply.text()


async def read(harness: Harness) -> dict[str, float]:
    """Return the value of each series by name and labels."""
    lines = (await read_page(harness)).splitlines()
    pairs = (line.rpartition(" ") for line in lines if line and line[0] != "#")
    return {name: float(value) for name, _, value in pairs}


async def beat(harness: Harness) -> None:
    """Send a heartbeat of every worker to the gateway."""
    for worker in harness.workers:
        worker.send_heartbeats()
    replicas = [r for w in harness.context.registry.workers for r in w.replicas]

    def arrived() -> bool:
        wanted = [worker.counters for worker in harness.workers]
        return [replica.beat and replica.beat.counters for replica in replicas] == wanted

    await until(arrived)


async def test_every_family_of_the_reference_has_its_help_text(harness: Harness):
    await harness.start(metrics=True)
    page = await read_page(harness)
    offsets = []
    for line in REFERENCE.splitlines():
        name, kind, text = line.split(" ", 2)
        head = f"# HELP {name} {text}\n# TYPE {name} {kind}\n{name} "
        assert head in page
        offsets.append(page.index(head))
    assert offsets == sorted(offsets)
    for name in LLAMA.split():
        assert f"\nllamacpp:{name} " in page
    assert "\nmlxcel_slots_total 4\n" in page
    assert "\nmlxcel_requests_total 0\n" in page


async def test_prometheus_parses_the_page_without_created_series(harness: Harness):
    await harness.start(metrics=True)
    await harness.answer("x")
    page = await read_page(harness)
    assert "_created" not in page
    families = {family.name for family in text_string_to_metric_families(page)}
    assert {"mlxcel_requests", "mlxcel_slots_total", "mlxcel_http_requests"} <= families
    names = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("stream", [True, False])
async def test_a_chat_completion_counts_once_with_its_tokens(harness: Harness, stream):
    await harness.start(metrics=True)
    if stream:
        await harness.text("one two three [tokens=5]")
    else:
        await harness.answer("one two three [tokens=5]")
    await beat(harness)
    values = await read(harness)
    assert values["mlxcel_requests_total"] == 1
    assert values["mlxcel_prompt_tokens_total"] == 4
    assert values["mlxcel_completion_tokens_total"] == 5
    assert values["mlxcel_generation_time_seconds_total"] == 0.001
    assert values["mlxcel_batch_sequences_started"] == 1
    assert values["mlxcel_batch_sequences_completed"] == 1
    assert values["mlxcel_batch_decode_tokens_total"] == 5
    assert values["llamacpp:tokens_predicted_total"] == 5
    assert values["llamacpp:n_tokens_max"] == 9


@pytest.mark.parametrize(("stream", "requests"), [(False, 1), (True, 0)])
async def test_streams_of_text_completions_do_not_count(harness: Harness, stream, requests):
    await harness.start(metrics=True)
    asked = {"prompt": "x [tokens=5]", "stream": stream}
    async with harness.session.post("/v1/completions", json=asked) as reply:
        assert reply.status == 200
        await reply.read()
    values = await read(harness)
    assert values["mlxcel_requests_total"] == requests
    assert values["mlxcel_completion_tokens_total"] == 5 * requests
    assert values["llamacpp:tokens_predicted_total"] == 5


async def test_cancelled_refused_and_failed_requests_do_not_count(harness: Harness):
    await harness.start(metrics=True)
    async with harness.session.post(CHAT, data=body("x [tokens=4000]", stream=True)) as reply:
        await reply.content.readany()
    await harness.post("[refuse=invalid_request]")
    await harness.post("x", temperature=-1)
    await harness.idle()
    await until(lambda: bool(harness.worker.cancelled))
    await beat(harness)
    values = await read(harness)
    assert values["mlxcel_requests_total"] == 0
    assert values["mlxcel_completion_tokens_total"] == 0
    assert values["mlxcel_batch_sequences_started"] == 1
    assert values["mlxcel_batch_sequences_completed"] == 0
    of_chat = f'route="{CHAT}"'
    assert values[f'mlxcel_http_requests_total{{code="cancelled",{of_chat}}}'] == 1
    assert values[f'mlxcel_http_requests_total{{code="invalid_request",{of_chat}}}'] == 2
    assert values[f"mlxcel_http_request_duration_seconds_count{{{of_chat}}}"] == 3


async def test_a_failed_stream_counts_under_its_error_code(harness: Harness):
    await harness.start(metrics=True, start_timeout_s=0.05)
    [chunk async for chunk in harness.stream("[accept=0.2] [refuse=server_busy]")]
    values = await read(harness)
    assert values[f'mlxcel_http_requests_total{{code="server_busy",route="{CHAT}"}}'] == 1


async def test_unknown_paths_share_one_series(harness: Harness):
    await harness.start(metrics=True)
    for number in range(3):
        await harness.get(f"/nowhere/{number}")
    values = await read(harness)
    assert values['mlxcel_http_requests_total{code="not_found",route="unknown"}'] == 3


async def test_numbers_are_summed_over_text_workers(harness: Harness):
    harness.add_worker("one", name="one", slots=4)
    harness.add_worker("two", name="two", slots=2, replicas=2)
    await harness.start(metrics=True)
    for model in ("one", "two", "two"):
        await harness.answer("x [tokens=3]", model=model)
    tasks = [asyncio.create_task(harness.text("x [tokens=4000]", model="two")) for _ in range(3)]
    replicas = harness.context.registry.workers[1].replicas
    await until(lambda: sum(replica.active for replica in replicas) == 3)
    values = await read(harness)
    assert values["mlxcel_slots_total"] == 8
    assert values["mlxcel_slots_available"] == 5
    assert values["mlxcel_batch_current_size"] == 3
    assert values["mlxcel_cache_pool_active"] == 3
    for task in tasks:
        task.cancel()
    await harness.idle()
    await beat(harness)
    values = await read(harness)
    assert values["mlxcel_requests_total"] == 3
    assert values["mlxcel_batch_sequences_started"] == 6
    assert values["mlxcel_batch_sequences_completed"] == 3


async def test_counters_do_not_decrease_when_a_worker_restarts(harness: Harness):
    await harness.start(metrics=True)
    await harness.answer("x [tokens=5]")
    await beat(harness)
    before = await read(harness)
    await harness.worker.stop()
    await until(lambda: harness.context.registry.default().state == "down")
    away = await read(harness)
    assert away["mlxcel_slots_total"] == 0
    await harness.worker.start()
    await until(lambda: harness.context.registry.default().state == "ready")
    back = await read(harness)
    assert back["mlxcel_slots_total"] == 4
    gauges = {line.split()[0] for line in REFERENCE.splitlines() if line.split()[1] == "gauge"}
    for name, value in before.items():
        if name.startswith("mlxcel_") and name not in gauges and "http" not in name:
            assert value <= away[name] <= back[name], name
    await harness.answer("x [tokens=7]")
    await beat(harness)
    values = await read(harness)
    assert values["mlxcel_batch_sequences_completed"] == 2
    assert values["mlxcel_batch_decode_tokens_total"] == 12


async def test_without_the_flag_there_are_no_metrics(harness: Harness):
    await harness.start()
    assert (await harness.get("/metrics"))[0] == 404


async def test_metrics_need_the_key(harness: Harness):
    await harness.start(metrics=True, api_key=("sesame",))
    assert (await harness.get("/metrics"))[0] == 401


async def test_the_metrics_port_serves_only_metrics(harness: Harness):
    await harness.start(metrics_port=1)
    runner = await listen(make_metrics_app(harness.context), "127.0.0.1", 0)
    host, port = runner.addresses[0][:2]
    for path, status in (("/metrics", 200), ("/v1/models", 404), ("/health", 404)):
        async with harness.session.get(f"http://{host}:{port}{path}") as reply:
            assert reply.status == status
    async with harness.session.get("/metrics") as reply:
        assert reply.status == 200
    await runner.cleanup()
