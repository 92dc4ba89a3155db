#!/usr/bin/env python3
"""Writes oaep.jsonl: RSA-OAEP (RFC 8017, 7.1; SHA-1, empty label) of flow secrets, from hashlib and pow alone.

`cryptography` makes the keys and decrypts every accepted case once more; the seeds of the recorded exchanges are found by decrypting them.
"""

import hashlib
import json
import pathlib
import secrets

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

HERE = pathlib.Path(__file__).resolve().parent
LABEL = hashlib.sha1(b"").digest()


def mgf1(seed, octets):
    blocks = (hashlib.sha1(seed + i.to_bytes(4, "big")).digest() for i in range(octets // 20 + 1))
    return b"".join(blocks)[:octets]


def xor(a, b):
    return bytes(x ^ y for x, y in zip(a, b, strict=True))


def encode(k, seed, message, label=LABEL, first=0, padding_octet=0, separator=1):
    zeros = bytes([padding_octet]) * (k - 42 - len(message))
    data = label + zeros + bytes([separator]) + message
    masked = xor(data, mgf1(seed, len(data)))
    return bytes([first]) + xor(seed, mgf1(masked, 20)) + masked


def numbers(bits):
    key = rsa.generate_private_key(65537, bits)
    private = key.private_numbers()
    return key, private.public_numbers.n, 65537, private.d


def main():
    lines = []
    for bits in (2048, 2056, 3072, 4096):
        key, n, e, d = numbers(bits)
        k = (bits + 7) // 8
        common = {"n": f"{n:0{2 * k}x}", "e": f"{e:x}".zfill(6), "d": f"{d:0{2 * k}x}"}

        def case(note, verdict, seed, secret, number):
            encrypted = number.to_bytes(k, "big").hex()
            lines.append(common | {"note": note, "verdict": verdict, "seed": seed.hex(), "secret": secret.hex(), "encrypted": encrypted})
            if verdict == "accept":
                oaep = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
                assert key.decrypt(bytes.fromhex(encrypted), oaep) == secret

        seed, secret = secrets.token_bytes(20), secrets.token_bytes(20)
        encrypt = lambda octets: pow(int.from_bytes(octets, "big"), e, n)
        case(f"{bits} bits", "accept", seed, secret, encrypt(encode(k, seed, secret)))
        if bits > 2056:
            continue
        case("all zeros", "accept", bytes(20), bytes(20), encrypt(encode(k, bytes(20), bytes(20))))
        case("another label", "drop", seed, secret, encrypt(encode(k, seed, secret, label=hashlib.sha1(b"x").digest())))
        case("padding not zero", "drop", seed, secret, encrypt(encode(k, seed, secret, padding_octet=2)))
        case("no separator", "drop", seed, secret, encrypt(encode(k, seed, secret, separator=0)))
        case("another separator", "drop", seed, secret, encrypt(encode(k, seed, secret, separator=3)))
        case("first octet 1", "drop", seed, secret, encrypt(encode(k, seed, secret, first=1)) if bits == 2056 else pow(int.from_bytes(b"\1" + encode(k, seed, secret)[1:], "big"), e, n))
        for octets in (0, 19, 21, 32):
            message = secrets.token_bytes(octets)
            case(f"a secret of {octets} octets", "drop", seed, message, encrypt(encode(k, seed, message)))
        case("the modulus itself", "drop", seed, secret, n)
        case("zero", "drop", seed, secret, 0)
        case("one", "drop", seed, secret, 1)
    for name in ("short-upload", "outage-new-address"):
        recorded = json.loads((HERE / f"{name}.json").read_text())
        key = {part: int(value, 16) for part, value in recorded["rsa_key"].items() if part != "bits"}
        encrypted = bytes.fromhex(recorded["syn_ack"]["ciphertext"])
        octets = pow(int.from_bytes(encrypted, "big"), key["d"], key["n"]).to_bytes(256, "big")
        seed = xor(octets[1:21], mgf1(octets[21:], 20))
        secret = bytes.fromhex(recorded["syn_ack"]["secret"])
        assert octets == encode(256, seed, secret)
        lines.append({"n": f"{key['n']:0512x}", "e": "03", "d": f"{key['d']:0512x}", "note": name, "verdict": "accept", "seed": seed.hex(), "secret": secret.hex(), "encrypted": encrypted.hex()})
    (HERE / "oaep.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


main()
