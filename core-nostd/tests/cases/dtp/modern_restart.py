#!/usr/bin/env python3
"""Writes modern_restart.jsonl: what ends tell each other in a restart's handshake (parameters 8 to 11), right and wrong, from SPEC.md alone."""

import json
import pathlib
import random

from modern import octets
from modern_flow import any_number, parameters

END = 1 << 62


def parameter(number, *parts):
    value = b"".join(parts)
    return bytes([number, len(value)]) + value


def word(number, width=4):
    return number.to_bytes(width, "big")


def stream(fields):
    return parameter(10, word(fields["id"]), word(fields["complete"], 1), word(fields["delivered"], 8), word(fields["limit"], 8))


def report(fields):
    """Section 7: 8, 9, then 10 for each open stream; or 11 and nothing else."""
    if fields["refused"]:
        return parameter(11)
    opened = parameter(9, word(fields["opened"]), word(fields["peer_opened"]), word(fields["opened_ahead"]))
    return parameter(8, word(fields["restarts"])) + opened + b"".join(map(stream, fields["streams"]))


def fields_of(rng):
    if rng.random() < 0.1:
        return {"refused": True, "restarts": 0, "opened": 0, "peer_opened": 0, "opened_ahead": 0, "streams": []}
    numbers = rng.sample(range(1 << rng.choice((3, 32))), rng.randrange(5))
    streams = [{"id": number, "complete": rng.randrange(2), "delivered": any_number(rng), "limit": any_number(rng)} for number in numbers]
    return {"refused": False, "restarts": any_number(rng, 22), "opened": any_number(rng, 31), "peer_opened": any_number(rng, 31),
            "opened_ahead": any_number(rng, 32), "streams": streams}


def right(rng, seed):
    fields = fields_of(rng)
    rest = {"1": octets(seed + "id", 16).hex(), "2": rng.getrandbits(32), "3": rng.getrandbits(32), "4": rng.randrange(1200, 65536)}
    beside = parameters(rest, rng.choice((0, 900)))
    # Unknown ids are stepped over, wherever they are.
    unknown = parameter(rng.randrange(12, 256), octets(seed + "unknown", rng.randrange(256)))
    pieces = [report(fields), beside, unknown]
    rng.shuffle(pieces)
    return {"fields": fields, "octets": report(fields).hex(), "payload": b"".join(pieces).hex()}


def wrong():
    restarts, opened = parameter(8, word(3)), parameter(9, word(1), word(2), word(0))
    good = restarts + opened
    one = {"id": 4, "complete": 0, "delivered": 7, "limit": 900}
    five = b"".join(stream({**one, "id": number}) for number in range(5))
    return {
        "nothing": b"", "no count of restarts": opened, "no streams opened": restarts,
        "restarts twice": good + restarts, "opened twice": good + opened,
        "restarts of 3 octets": parameter(8, bytes(3)) + opened, "restarts of 5": parameter(8, bytes(5)) + opened,
        "opened of 11 octets": restarts + parameter(9, bytes(11)), "opened of 13": restarts + parameter(9, bytes(13)), "opened of 8": restarts + parameter(9, bytes(8)),
        "opened of 16": restarts + parameter(9, bytes(16)),
        "a stream of 20 octets": good + parameter(10, bytes(20)), "a stream of 22": good + parameter(10, bytes(22)), "an empty stream": good + parameter(10),
        "a stream twice": good + stream(one) + stream({**one, "delivered": 8}), "five streams": good + five,
        "delivered beyond the end of all streams": good + stream({**one, "delivered": END}),
        "a limit beyond the end of all streams": good + stream({**one, "limit": END}),
        "neither complete nor not": good + stream({**one, "complete": 2}), "more than complete": good + stream({**one, "complete": 255}),
        "a refusal with a value": parameter(11, b"\0"), "a refusal twice": parameter(11) + parameter(11),
        "a length without its value": good + bytes([10, 21]) + bytes(20), "an id without a length": good + bytes([10]),
        "an id without a length after a refusal": parameter(11) + bytes([8]),
    }


def main():
    rng = random.Random(7)
    lines = [right(rng, f"report {case} ") for case in range(60)]
    lines += [{"wrong": why, "payload": payload.hex()} for why, payload in wrong().items()]
    path = pathlib.Path(__file__).resolve().parent / "modern_restart.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
