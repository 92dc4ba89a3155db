#!/usr/bin/env python3
"""Writes modern_flow.jsonl: parameters, tokens, connection ids and packets full of frames of DTP's `modern` suite, from SPEC.md alone."""

import json
import pathlib
import random

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from modern import mac, octets, packet


def v(number):
    """A variable-length integer (RFC 9000, 16)."""
    for prefix, length in enumerate((1, 2, 4, 8)):
        if number < 1 << (8 * length - 2):
            return (number | prefix << (8 * length - 2)).to_bytes(length, "big")
    raise ValueError(number)


def any_number(rng, bits=62):
    return rng.getrandbits(rng.randrange(1, bits + 1))


def parameters(fields, least):
    """Section 2: `id 1 | length 1 | value`, in the order of the ids, then PADDING."""
    widths = {1: 16, 2: 4, 3: 4, 4: 2, 5: 1, 7: 1}
    out = b""
    for number in (1, 2, 3, 4, 5, 6, 7):
        if number == 6 and fields.get("6"):
            out += bytes([6, 0])
        elif number != 6 and str(number) in fields:
            value = fields[str(number)]
            value = bytes.fromhex(value) if number == 1 else value.to_bytes(widths[number], "big")
            out += bytes([number, len(value)]) + value
    while len(out) < least:
        count = min(255, least - len(out) - 2)
        # What is left over after this one must have room for a PADDING of its own.
        if least - len(out) - 2 - count == 1:
            count -= 1
        out += bytes([0, count]) + bytes(count)
    return out


def parameters_case(rng, seed):
    fields = {
        "1": octets(seed + "id", 16).hex(), "2": rng.getrandbits(32), "3": rng.getrandbits(32), "4": rng.randrange(1200, 65536),
        "5": rng.choice((1, 2)), "6": rng.random() < 0.5, "7": rng.randrange(5),
    }
    fields = {number: value for number, value in fields.items() if number == "6" or rng.random() < 0.7}
    return {"fields": fields, "octets": parameters(fields, 0).hex(), "padded": parameters(fields, 1100).hex()}


def token_case(rng, seed):
    key, address, destination = octets(seed + "key", 32), octets(seed + "address", 16), octets(seed + "destination", 16)
    seconds, port = any_number(rng, 40), rng.getrandbits(16)
    bound = b"retry" + seconds.to_bytes(8, "big") + address + port.to_bytes(2, "big") + destination
    token = seconds.to_bytes(8, "big") + mac(key, bound)[:16]
    return {"key": key.hex(), "seconds": seconds, "address": address.hex(), "port": port, "destination": destination.hex(), "token": token.hex()}


def id_case(rng, seed):
    key = octets(seed + "id key", 32)
    server, slot, generation, epoch, sequence = (rng.getrandbits(bits) for bits in (16, 32, 32, 16, 16))
    block = b"".join(number.to_bytes(width, "big") for number, width in ((server, 2), (0xD7B1, 2), (slot, 4), (generation, 4), (epoch, 2), (sequence, 2)))
    sealed = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)
    return {"key": key.hex(), "server": server, "slot": slot, "generation": generation, "sequence": epoch << 16 | sequence, "id": sealed.hex()}


def ranges_of(rng):
    """Runs of packet numbers, from the highest down, with at least one missing between two of them."""
    at, out = (1 << 40) + any_number(rng, 50), []
    for _ in range(rng.randrange(1, 30)):
        first = at - any_number(rng, 20)
        out.append([first, at])
        at = first - 2 - any_number(rng, 12)
    return out


def ack(ranges, delay, marks):
    (first, largest), rest = ranges[0], ranges[1:]
    out = v(largest) + v(delay) + v(len(rest)) + v(largest - first)
    for run_first, run_last in rest:
        out += v(first - run_last - 2) + v(run_last - run_first)
        first = run_first
    return b"\x02" + out + v(marks)


def frame(rng, seed):
    """A frame's fields by name, and its octets."""
    stream, offset, reason = rng.getrandbits(rng.choice((2, 32))), any_number(rng, 61), rng.getrandbits(32)
    eight, sixteen = octets(seed + "8", 8), octets(seed + "16", 16)
    data = octets(seed + "data", rng.randrange(1, 200))
    sequence = any_number(rng)
    before = rng.randrange(sequence + 1)
    ranges, delay, marks = ranges_of(rng), any_number(rng, 30), any_number(rng, 20)
    return rng.choice((
        ({"type": "padding", "octets": 1 + stream % 9}, bytes(1 + stream % 9)),
        ({"type": "ping"}, b"\x01"),
        ({"type": "ack", "ranges": ranges, "delay": delay, "marks": marks}, ack(ranges, delay, marks)),
        ({"type": "data", "stream": stream, "offset": offset, "octets": data.hex(), "last": False}, b"\x04" + v(stream) + v(offset) + v(len(data)) + data),
        ({"type": "data", "stream": stream, "offset": offset, "octets": data.hex(), "last": True}, b"\x05" + v(stream) + v(offset) + v(len(data)) + data),
        ({"type": "total_window", "octets": offset}, b"\x07" + v(offset)),
        ({"type": "window", "stream": stream, "offset": offset}, b"\x08" + v(stream) + v(offset)),
        ({"type": "path_challenge", "octets": eight.hex()}, b"\x09" + eight),
        ({"type": "path_response", "octets": eight.hex()}, b"\x0a" + eight),
        ({"type": "new_id", "sequence": sequence, "before": before, "id": sixteen.hex()}, b"\x0b" + v(sequence) + v(before) + sixteen),
        ({"type": "keep_alive", "seconds": offset}, b"\x0d" + v(offset)),
        ({"type": "close", "reason": reason}, b"\x0e" + v(reason)),
        ({"type": "reset", "stream": stream, "offset": offset, "reason": reason}, b"\x0f" + v(stream) + v(offset) + v(reason)),
    ))


def packet_case(rng, seed):
    secret, destination = octets(seed + "secret", 32), octets(seed + "destination", 16)
    suite, phase, number = rng.choice((1, 2)), rng.randrange(4), any_number(rng)
    frames, payload = [], b""
    for place in range(rng.randrange(1, 9)):
        fields, written = frame(rng, f"{seed}frame {place}")
        # Two runs of padding would be read as one.
        if fields["type"] == "padding" and frames and frames[-1]["type"] == "padding":
            continue
        if len(payload) + len(written) <= 1300:
            frames.append(fields)
            payload += written
    return {"secret": secret.hex(), "destination": destination.hex(), "suite": suite, "phase": phase, "number": number, "frames": frames,
            "packet": packet(suite, secret, phase, number, destination, payload).hex()}


def main():
    rng = random.Random(20)
    lines = []
    for case in range(40):
        seed = f"flow {case} "
        lines.append({
            "parameters": parameters_case(rng, seed), "token": token_case(rng, seed), "id": id_case(rng, seed),
            "packets": [packet_case(rng, f"{seed}{place} ") for place in range(5)],
        })
    path = pathlib.Path(__file__).resolve().parent / "modern_flow.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
