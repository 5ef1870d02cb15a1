// node-redis, with what it sends by default. Arguments: host, port.

const assert = require("node:assert");
const { createClient } = require("redis");
const { QUOTA, expect } = require("./expect.js");

const [host, port] = process.argv.slice(2);

async function main(name, options) {
  const client = createClient({ url: `redis://${host}:${port}`, ...options });
  client.on("error", (error) => { throw error; });
  await client.connect();
  const args = (key) => ["CL.THROTTLE", `node-redis-${name}-${key}`, ...QUOTA];
  const replies = [];
  for (let count = 0; count < 4; count++) replies.push(await client.sendCommand(args("single")));
  expect(replies);
  const several = (key) => {
    const batch = client.multi();
    for (let count = 0; count < 4; count++) batch.addCommand(args(key));
    return batch;
  };
  expect(await several("atomic").exec());
  expect(await several("plain").execAsPipeline());
  await assert.rejects(client.sendCommand(["CL.THROTTLE", "x"]), /wrong number of arguments/);
  // Sent at once, as they wait for no reply.
  expect(await Promise.all([1, 2, 3, 4].map(() => client.sendCommand(args("at-once")))));
  assert.strictEqual(await client.ping(), "PONG");
  await client.close();
}

main("usual", {})
  .then(() => main("resp2", { RESP: 2 }))
  .then(() => main("resp3", { RESP: 3, database: 2, name: "me" }))
  .then(() => console.log(`node-redis ${require("redis/package.json").version}`));
