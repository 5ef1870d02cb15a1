"""httpx, blocking and not. Argument: the node's URL."""

import asyncio
import sys

import httpx

URL = sys.argv[1]


def check(key, **fields):
    return {"json": {"key": key, "rate": "3/d", **fields}}


def expect(replies):
    assert [reply.status_code for reply in replies] == [200, 200, 200, 429], replies
    first = {
        "allowed": True,
        "limit": 3,
        "remaining": 2,
        "retry_after_ms": 0,
        "reset_after_ms": 28800000,
    }
    assert replies[0].json() == first, replies[0].text
    assert replies[0].headers["ratelimit-policy"] == '"inline";q=3;w=86400'
    denied = replies[3].json()
    assert not denied["allowed"] and denied["remaining"] == 0, denied
    assert 28000 < int(replies[3].headers["retry-after"]) <= 28800, replies[3].headers


async def tasks():
    async with httpx.AsyncClient(base_url=URL) as client:
        expect([await client.post("/v1/check", **check("httpx-task")) for _ in range(4)])
        asked = [client.post("/v1/check", **check("httpx-tasks")) for _ in range(20)]
        statuses = sorted(reply.status_code for reply in await asyncio.gather(*asked))
        assert statuses == [200] * 3 + [429] * 17, statuses


with httpx.Client(base_url=URL) as client:
    expect([client.post("/v1/check", **check("httpx")) for _ in range(4)])
    mistake = client.post("/v1/check", **check("httpx", cost=-1))
    assert (mistake.status_code, mistake.json()["code"]) == (400, "invalid_request"), mistake.text
    assert client.get("/readyz").json() == {"status": "ready"}
asyncio.run(tasks())
print(f"httpx {httpx.__version__}")
