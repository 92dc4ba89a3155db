// Round trips, with NDNts.
//   ping.mjs PREFIX COUNT
// Prints the round-trip times in milliseconds of those that came back.
import { consume } from "@ndn/endpoint";
import { TcpTransport } from "@ndn/node-transport";
import { Interest, Name } from "@ndn/packet";

const [prefix, count] = process.argv.slice(2);
await TcpTransport.createFace({}, "127.0.0.1", 6363);
const rtt_ms = [];
const first = Math.floor(Math.random() * 1e9);
for (let number = 0; number < Number(count); number++) {
  const interest = new Interest(new Name(prefix).append(`${first + number}`), Interest.MustBeFresh, Interest.Lifetime(4000));
  const start = performance.now();
  try {
    await consume(interest);
    rtt_ms.push(performance.now() - start);
  } catch {
    // It did not come back.
  }
}
console.log(JSON.stringify({ rtt_ms }));
process.exit(0);
