// What each client of Node.js must be answered.

const assert = require("node:assert");

// Three units a day.
exports.QUOTA = ["2", "3", "86400"];

// The replies to four checks of a fresh key, the last of which is denied.
exports.expect = (replies) => {
  assert.deepStrictEqual(replies[0], [0, 3, 2, -1, 28800]);
  const firsts = replies.map((reply) => reply.slice(0, 3));
  assert.deepStrictEqual(firsts, [[0, 3, 2], [0, 3, 1], [0, 3, 0], [1, 3, 0]]);
  const [retry, reset] = replies[3].slice(3);
  assert(28000 < retry && retry <= 28800 && 86000 < reset && reset <= 86400, `${replies[3]}`);
};
