"""redis-py, with what it sends by default. Arguments: host, port."""

import asyncio
import os
import sys

import redis
import redis.asyncio

ADDRESS = {"host": sys.argv[1], "port": int(sys.argv[2])}
# Three units a day.
QUOTA = (2, 3, 86400)
EXPECTED = [[0, 3, 2], [0, 3, 1], [0, 3, 0], [1, 3, 0]]


def expect(replies):
    assert replies[0] == [0, 3, 2, -1, 28800], replies
    assert [reply[:3] for reply in replies] == EXPECTED, replies
    assert 28000 < replies[3][3] <= 28800 and 86000 < replies[3][4] <= 86400, replies


def pipeline_of(client, key, transaction=True, last=QUOTA):
    pipeline = client.pipeline(transaction=transaction)
    for quota in [QUOTA] * 3 + [last]:
        pipeline.execute_command("CL.THROTTLE", key, *quota)
    return pipeline


def blocking(name, **options):
    client = redis.Redis(**ADDRESS, db=3, **options)
    expect([client.execute_command("CL.THROTTLE", f"{name}-single", *QUOTA) for _ in range(4)])
    # A pipeline is a transaction by default: both answer the same.
    expect(pipeline_of(client, f"{name}-atomic").execute())
    expect(pipeline_of(client, f"{name}-plain", transaction=False).execute())
    # A command with an error aborts the transaction before anything is charged.
    try:
        pipeline_of(client, f"{name}-aborted", last=()).execute()
    except redis.ResponseError as error:
        assert "wrong number of arguments" in str(error), error
    else:
        raise SystemExit("an aborted pipeline was answered")
    assert client.execute_command("CL.THROTTLE", f"{name}-aborted", *QUOTA, 0)[2] == 3
    assert [entry["db"] for entry in client.client_list()] == ["3"]
    assert client.info()["db0"]["keys"] >= 0 and client.config_get("save") == {"save": ""}
    client.connection_pool.disconnect()


async def tasks(name, **options):
    client = redis.asyncio.Redis(**ADDRESS, **options)
    command = ("CL.THROTTLE", f"{name}-task", *QUOTA)
    expect([await client.execute_command(*command) for _ in range(4)])
    expect(await pipeline_of(client, f"{name}-task-atomic").execute())
    await client.connection_pool.disconnect()


# Before its version 5 it knows one version of the protocol.
for version in [None, 2, 3] if int(redis.__version__.split(".")[0]) >= 5 else [None]:
    options = {"protocol": version} if version else {}
    blocking(f"redis-py-{os.getpid()}-{version}", **options)
    asyncio.run(tasks(f"redis-py-{os.getpid()}-{version}", **options))
try:
    redis.Redis(**ADDRESS, password="x").ping()
except redis.RedisError as error:
    assert "without any password configured" in str(error), error
else:
    raise SystemExit("a password was accepted")
print(f"redis-py {redis.__version__}")
