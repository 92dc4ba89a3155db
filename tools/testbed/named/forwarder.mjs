// A site's forwarder, made of NDNts: local applications over TCP, everything else over UDP by way of the gateway.
//   forwarder.mjs ADDRESS GATEWAY
// Interests that no local application serves go to GATEWAY, port 6363, and nobody here knows where that takes them. Whoever sends
// to ADDRESS, port 6363, gets a face of its own, so that answers go back to it.
import dgram from "node:dgram";
import net from "node:net";

import { produce } from "@ndn/endpoint";
import { Forwarder } from "@ndn/fw";
import { L3Face, StreamTransport, Transport } from "@ndn/l3face";
import { Data, Interest, Name } from "@ndn/packet";
import { Decoder, Encoder } from "@ndn/tlv";

const PORT = 6363;
// Not every application takes packets that carry nothing as a sign of life.
const LINK = { keepAlive: false };
const REGISTER = new Name("/localhost/nfd/rib/register");
const [address, gateway] = process.argv.slice(2);

// All UDP faces share one socket.
class Peer extends Transport {
  constructor(socket, host, port) {
    super({ describe: `udp ${host}:${port}`, local: false });
    this.socket = socket;
    this.host = host;
    this.port = port;
    this.waiting = [];
    this.wake = undefined;
    this.rx = this.receive();
  }

  get mtu() {
    return 8800;
  }

  push(datagram) {
    this.waiting.push(datagram);
    this.wake?.();
  }

  async *receive() {
    for (;;) {
      while (this.waiting.length > 0) {
        const datagram = this.waiting.shift();
        try {
          yield new Decoder(datagram).read();
        } catch {
          // What is no packet is dropped.
        }
      }
      await new Promise((resolve) => { this.wake = resolve; });
    }
  }

  async tx(packets) {
    for await (const packet of packets) {
      this.socket.send(packet, this.port, this.host);
    }
  }
}

const forwarder = Forwarder.getDefault();
const socket = dgram.createSocket({ type: "udp4", recvBufferSize: 4 << 20, sendBufferSize: 4 << 20 });
const peers = new Map();

function peer(host, port) {
  const key = `${host}:${port}`;
  let found = peers.get(key);
  if (!found) {
    found = new Peer(socket, host, port);
    found.face = forwarder.addFace(new L3Face(found, {}, LINK));
    peers.set(key, found);
  }
  return found;
}

socket.on("message", (datagram, from) => peer(from.address, from.port).push(datagram));
await new Promise((resolve) => { socket.bind(PORT, address, resolve); });
peer(gateway, PORT).face.addRoute("/", false);

// Applications register prefixes as they would with any forwarder: the face that the command came from gets the route.
forwarder.addEventListener("pktrx", ({ face, packet: { l3 } }) => {
  if (l3 instanceof Interest && REGISTER.isPrefixOf(l3.name) && l3.name.length > REGISTER.length) {
    // ControlParameters, which begin with the Name.
    const prefix = new Decoder(l3.name.get(REGISTER.length).value).read().vd.decode(Name);
    if (!face.hasRoute(prefix)) {
      face.addRoute(prefix, false);
    }
  }
});
produce(REGISTER, async (interest) => {
  // ControlResponse: StatusCode 200, StatusText, and the ControlParameters again.
  const parameters = interest.name.get(REGISTER.length).value;
  const response = Encoder.encode([0x65, [0x66, Uint8Array.of(200)], [0x67, new TextEncoder().encode("OK")], parameters]);
  return new Data(interest.name, response, Data.FreshnessPeriod(1));
});
net.createServer((connection) => {
  connection.on("error", () => connection.destroy());
  connection.setNoDelay(true);
  forwarder.addFace(new L3Face(new StreamTransport(connection), {}, LINK));
}).listen(PORT, "127.0.0.1", () => console.error("ready"));

process.on("SIGTERM", () => process.exit(0));
