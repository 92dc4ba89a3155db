// Fetches a file in segments, with NDNts: CUBIC decides how many Interests are on their way.
//   fetch.mjs PREFIX
// Prints how much came, its SHA-256, how long it took and what the window was at most.
import { createHash } from "node:crypto";

import { TcpTransport } from "@ndn/node-transport";
import { digestSigning } from "@ndn/packet";
import { fetch, TcpCubic } from "@ndn/segmented-object";

const [prefix] = process.argv.slice(2);
await TcpTransport.createFace({}, "127.0.0.1", 6363);
const ca = new TcpCubic();
let window = 0;
ca.addEventListener("cwndupdate", () => { window = Math.max(window, ca.cwnd); });
const hash = createHash("sha256");
let octets = 0, segments = 0;
const start = performance.now();
const result = fetch(prefix, { ca, verifier: digestSigning, retxLimit: 20 });
for await (const data of result) {
  hash.update(data.content);
  octets += data.content.length;
  segments += 1;
}
const seconds = (performance.now() - start) / 1000;
console.log(JSON.stringify({ octets, segments, seconds, sha256: hash.digest("hex"), window }));
process.exit(0);
