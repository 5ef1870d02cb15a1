// ioredis, with what it sends by default. Arguments: host, port.

const assert = require("node:assert");
const { Redis } = require("ioredis");
const { QUOTA, expect } = require("./expect.js");

const [host, port] = process.argv.slice(2);

async function main(name, options) {
  const client = new Redis({ host, port: Number(port), ...options });
  client.on("error", (error) => { throw error; });
  const args = (key) => ["CL.THROTTLE", `ioredis-${name}-${key}`, ...QUOTA];
  const replies = [];
  for (let count = 0; count < 4; count++) replies.push(await client.call(...args("single")));
  expect(replies);
  const several = async (batch, key) => {
    for (let count = 0; count < 4; count++) batch.call(...args(key));
    return (await batch.exec()).map(([error, reply]) => {
      assert.strictEqual(error, null);
      return reply;
    });
  };
  expect(await several(client.pipeline(), "plain"));
  expect(await several(client.multi(), "atomic"));
  if (!options.enableAutoPipelining) {
    // Sent one by one, queued by the server. With pipelines of its own, ioredis takes this `exec`
    // for that of such a pipeline, and sends nothing.
    await client.multi({ pipeline: false });
    for (let count = 0; count < 4; count++) {
      assert.strictEqual(await client.call(...args("queued")), "QUEUED");
    }
    expect((await client.exec()).map(([error, reply]) => reply));
  }
  await assert.rejects(client.call("CL.THROTTLE", "x"), /wrong number of arguments/);
  // As many at once as calls wait.
  expect(await Promise.all([1, 2, 3, 4].map(() => client.call(...args("at-once")))));
  assert.strictEqual(await client.quit(), "OK");
}

main("usual", {})
  .then(() => main("resp2", { protocol: 2 }))
  .then(() => main("auto", { enableAutoPipelining: true, db: 2, connectionName: "me" }))
  .then(() => console.log(`ioredis ${require("ioredis/package.json").version}`));
