"""Requests that no library sends: refused loudly, and nothing of them reaches an engine or becomes a second request."""

import aiohttp
import pytest

from tests.gateway.fake_engine import fake_engine
from tests.gateway.fake_worker import fake_worker
from tests.gateway.raw_client import Heard, ask, chunked, connection, listen, one_answer, request
from tests.gateway.running import gateway
from tests.gateway.services import KEY, endpoint, message

BODY = b'{"model": "ai/tiny"}'
REFUSED = {
    "whitespace before a colon": request(more=b"transfer-encoding : chunked\r\n"),
    "a folded line": request(more=b"x-a: b\r\n transfer-encoding: chunked\r\n"),
    "a bare line feed in a value": request(more=b"x-a: b\ntransfer-encoding: chunked\r\n"),
    "a bare line feed in a request id": request(more=b"x-request-id: abc\n\r\n"),
    "a bare carriage return": request(more=b"x-a: b\rc\r\n"),
    "a NUL": request(more=b"x-a: b\x00c\r\n"),
    "length and chunks": request(more=b"transfer-encoding: chunked\r\n"),
    "two lengths": request(more=b"content-length: 20\r\n"),
    "a length in other digits": request(length="２０".encode()),  # noqa: RUF001
    "a signed length": request(length=b"+20"),
    "an encoding that is not chunked": request(length=b"", more=b"transfer-encoding: gzip, chunked\r\n"),
    "chunks in HTTP/1.0": chunked(BODY, version=b"1.0"),
    "two hosts": request(more=b"host: y\r\n"),
    "no host": request(host=b""),
    "a method that is no token": request(method=b"P\xffST"),
    "a tab in the path": request(path=b"/v1/\tx"),
    "a host that is none": request(path=b"http://[bad/v1/chat/completions"),
    "CONNECT": request(method=b"CONNECT", path=b"host:80"),
    "HTTP/2.0": request(version=b"2.0"),
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40) + b"\r\n\r\n",
    "a chunk size with 0x": chunked(end=b"0x14\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "a chunk that is longer than its size": chunked(end=b"14\r\n" + BODY + b"XX0\r\n\r\n"),
    "a trailer": chunked(BODY, end=b"0\r\nx-a: b\r\n\r\n"),
}


async def test_what_two_readers_could_read_differently_is_400_and_the_connection_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running:
            told: dict[str, tuple[int, str, str]] = {}
            for name, data in REFUSED.items():
                async with connection(running.port) as (reader, writer):
                    writer.write(data + request(path=b"/smuggled"))
                    heard = await listen(reader, 8.0)
                answers = heard.data.count(b"HTTP/1.1 ")
                told[name] = (heard.status, heard.code if heard.status else "", f"{answers} {heard.end}")
            assert told == dict.fromkeys(REFUSED, (400, "bad_request", "1 closed"))
            assert engine.requests == []
            _, metrics = await running.admin("/metrics")
            assert 'code="400",namespace="_other"' in metrics
    assert "smuggled" not in caplog.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_path_that_climbs_out_of_the_api_is_404_and_reaches_no_engine() -> None:
    paths = (
        b"/v1/../reset",
        b"/v1/%2e%2e/reset",
        b"/ai/tiny/v1/..%2f..%2freset",
        b"/v1/..\\reset",
        b"/ai/tiny/v1/chat/%252e%252e/x",
        b"//ai/tiny/v1/chat/completions",
        b"/ai/../ai/tiny/v1/chat/completions",
    )
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running:
            assert [(await ask(running.port, request(path=path))).status for path in paths] == [404] * len(
                paths
            )
            assert engine.requests == []


async def test_an_absolute_target_is_read_as_its_path() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running:
            heard = await ask(running.port, request(path=b"http://elsewhere/v1/chat/completions?a=b#c"))
            assert heard.status == 200
            assert engine.paths == ["/v1/chat/completions?a=b"]


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running, connection(running.port) as (reader, writer):
            ids = [b"one", b"two", b"three"]
            writer.write(
                b"".join(b"\r\n" + request(more=b"x-request-id: " + name + b"\r\n") for name in ids)
                + request(b'{"model": "ai/nobody"}')
            )
            answers = [await one_answer(reader) for _ in range(4)]
            assert [answer.status for answer in answers] == [200, 200, 200, 404]
            assert all(
                b"x-request-id: " + name in answer.head for name, answer in zip(ids, answers, strict=False)
            )


async def test_a_chunked_body_is_forwarded_with_its_length() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running:
            heard = await ask(running.port, chunked(BODY[:3], BODY[3:]))
            assert heard.status == 200
            assert engine.headers[0]["content-length"] == str(len(BODY))
            assert "transfer-encoding" not in engine.headers[0]


async def test_head_has_the_headers_of_get_and_no_body(caplog: pytest.LogCaptureFixture) -> None:
    async with fake_worker() as worker:
        worker.serve(message())
        async with gateway(worker.address) as running, connection(running.port) as (reader, writer):
            for path, status in (
                (b"/v1/models", b"200"),
                (b"/healthz", b"200"),
                (b"/v1/completions", b"405"),
            ):
                writer.write(b"HEAD " + path + b" HTTP/1.1\r\nhost: x\r\n\r\n")
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 " + status)
            writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert (await listen(reader, 5)).status == 200
    assert caplog.records == [] or all(record.name.startswith("noctaya") for record in caplog.records)


async def test_an_http_1_0_client_gets_a_stream_without_chunks_that_ends_with_the_connection() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running:
            ask_stream = request(
                b'{"model": "ai/tiny", "stream": true}', version=b"1.0", more=b"connection: keep-alive\r\n"
            )
            heard = await _whole(running.port, ask_stream)
            assert heard.end == "closed"
            assert b"transfer-encoding" not in heard.head
            assert b"connection: close" in heard.head
            assert heard.body.startswith(b"data: ")
            assert heard.body.endswith(b"data: [DONE]\n\n")
            engine.dies_after = 2
            assert (await _whole(running.port, ask_stream)).end == "reset", (
                "only a reset says that it is not whole"
            )


async def test_100_continue_is_said_when_the_body_is_wanted_and_not_before_a_refusal() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running:
            for data in (
                request(more=b"expect: 100-continue\r\n"),
                chunked(BODY, host=b"host: x\r\nexpect: 100-continue\r\n"),
            ):
                head, _, body = data.partition(b"\r\n\r\n")
                async with connection(running.port) as (reader, writer):
                    writer.write(head + b"\r\n\r\n")
                    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
                    writer.write(body)
                    assert (await one_answer(reader)).status == 200
            refused = request(path=b"/nowhere", more=b"expect: 100-continue\r\n").removesuffix(BODY)
            heard = await _whole(running.port, refused)
            assert (heard.status, heard.end) == (404, "closed")
            assert "expect" not in engine.headers[0]


async def test_bodies_that_no_parser_should_choke_on_are_400() -> None:
    bodies = (
        b'{"model": "ai/tiny", "deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"[" * 300_000,
        b'{"model": "\xff"}',
        b'{"model": "\\ud800 lonely"}',
        b'{"model": 5}',
        b'{"model": ["ai/tiny"]}',
        b'{"model": "ai/tiny", "stream": "true"}',
        b'{"model": "ai/tiny", "stream": 1}',
        b'\xef\xbb\xbf{"model": "ai/tiny"}',
        '{"model": "ai/tiny"}'.encode("utf-16"),
        b'{"model": "ai/tiny"} {}',
    )
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running:
            for path in (b"/v1/chat/completions", b"/ai/tiny/v1/chat/completions"):
                heard = [(await ask(running.port, request(body, path=path))).status for body in bodies]
                assert heard == [400] * len(bodies)
            assert engine.requests == []


async def test_names_are_compared_as_unicode_and_never_repeated_at_length() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)], aliases=["模型-é"]))
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            for name in ('"模型-é"', '"\\u6a21\\u578b-\\u00e9"'):
                assert (await ask(running.port, request(f'{{"model": {name}}}'.encode()))).status == 200
            async with running.post(session, body={"model": "模" * 100_000}) as response:
                assert response.status == 404
                assert len(await response.read()) < 10_000


async def test_of_a_field_that_is_given_twice_the_last_one_counts_for_all() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)], served_model_name="org/tiny"))
        async with gateway(worker.address) as running:
            twice = b'{"model": "ai/nobody", "model": "%b"}' % KEY.encode()
            assert (await ask(running.port, request(twice))).status == 200
            assert engine.requests == [{"model": "org/tiny"}]


async def _whole(port: int, data: bytes) -> Heard:
    async with connection(port) as (reader, writer):
        writer.write(data)
        return await listen(reader, 5)
