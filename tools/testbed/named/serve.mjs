// Publishes a file in segments, with NDNts.
//   serve.mjs PREFIX FILE SEGMENT_OCTETS
import { readFile } from "node:fs/promises";

import { enableNfdPrefixReg } from "@ndn/nfdmgmt";
import { TcpTransport } from "@ndn/node-transport";
import { digestSigning } from "@ndn/packet";
import { BufferChunkSource, serve } from "@ndn/segmented-object";

const [prefix, file, segment] = process.argv.slice(2);
const face = await TcpTransport.createFace({ addRoutes: [] }, "127.0.0.1", 6363);
enableNfdPrefixReg(face, { signer: digestSigning });
const content = new BufferChunkSource(await readFile(file), { chunkSize: Number(segment) });
serve(prefix, content, { signer: digestSigning, bufferBehind: Number.POSITIVE_INFINITY });
console.error("ready");
process.on("SIGTERM", () => process.exit(0));
