#!/usr/bin/env python3
"""Writes modern_clear.jsonl: packets with nothing encrypted (Answer, Retry, Versions), right and wrong, and payloads whose frames are wrong, from SPEC.md alone."""

import json
import pathlib
import random

from modern import octets
from modern_flow import frame, v


def packets(rng, seed):
    destination, source = octets(seed + "destination", 16), octets(seed + "source", 16)
    token = octets(seed + "token", 24)
    message = octets(seed + "message", rng.randrange(48, 400))
    versions = octets(seed + "versions", rng.randrange(1, 256))
    answer = b"\x82" + destination + message
    retry = b"\x83" + destination + source + bytes([len(token)]) + token
    listing = b"\x84" + destination + bytes([len(versions)]) + versions
    return [
        {"kind": "answer", "destination": destination.hex(), "rest": message.hex(), "octets": answer.hex()},
        {"kind": "retry", "destination": destination.hex(), "source": source.hex(), "rest": token.hex(), "octets": retry.hex()},
        {"kind": "versions", "destination": destination.hex(), "rest": versions.hex(), "octets": listing.hex()},
        {"kind": "answer", "wrong": "cut in its id", "octets": answer[:rng.randrange(1, 17)].hex()},
        {"kind": "retry", "wrong": "cut", "octets": retry[:rng.randrange(1, len(retry))].hex()},
        {"kind": "retry", "wrong": "octets after the token", "octets": (retry + b"\0").hex()},
        {"kind": "versions", "wrong": "cut", "octets": listing[:rng.randrange(1, len(listing))].hex()},
        {"kind": "versions", "wrong": "octets after the versions", "octets": (listing + b"\x01").hex()},
    ]


def cut(rng, seed):
    """The beginning of a frame, after another that is right."""
    while True:
        fields, written = frame(rng, seed)
        if fields["type"] not in ("padding", "ping"):
            return b"\x01" + written[:rng.randrange(1, len(written))], "cut: " + fields["type"]
        seed += "again "


def wrong_frames(rng, seed):
    largest = rng.randrange(1 << 20)
    number = rng.choice((3, 6, 12, rng.randrange(16, 1 << 14)))
    many = b"".join(v(0) + v(0) for _ in range(65))
    sequence = rng.randrange(1 << 30)
    end = (1 << 62) - 1
    data = octets(seed + "data", 9)
    return [
        (v(number) + data, "an unknown type"),
        (b"\x02" + v(largest) + v(0) + v(0) + v(largest + 1) + v(0), "a run below 0"),
        (b"\x02" + v(largest) + v(0) + v(1) + v(largest) + v(0) + v(0) + v(0), "a gap below 0"),
        (b"\x02" + v(1 << 30) + v(0) + v(65) + v(0) + many + v(0), "more ranges than there may be"),
        (b"\x04" + v(0) + v(end - 4) + v(9) + data, "octets beyond the end of all streams"),
        (b"\x04" + v(1 << 32) + v(0) + v(9) + data, "a stream of more than 32 bits"),
        (b"\x08" + v(1 << 32) + v(0), "a window of a stream of more than 32 bits"),
        (b"\x0f" + v(1 << 32) + v(0) + v(0), "the reset of a stream of more than 32 bits"),
        (b"\x0b" + v(sequence) + v(sequence + 1) + octets(seed, 16), "an id that retires itself"),
        (b"", "no frame"),
        *(cut(rng, f"{seed}{turn} ") for turn in range(12)),
    ]


def main():
    rng = random.Random(11)
    lines = []
    for case in range(12):
        seed = f"clear {case} "
        lines += packets(rng, seed)
        lines += [{"kind": "frames", "wrong": why, "octets": payload.hex()} for payload, why in wrong_frames(rng, seed)]
    path = pathlib.Path(__file__).resolve().parent / "modern_clear.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
