#!/usr/bin/env python3
"""Writes modern.jsonl: handshakes, key schedules and packets of DTP's `modern` suite, from SPEC.md alone.

`cryptography` gives X25519, the AEADs and the block functions; Noise and the key schedule are written out here.
"""

import hashlib
import hmac
import json
import pathlib

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

PATTERNS = {
    "NK": (1, "Noise_NK_25519_ChaChaPoly_SHA256", ("e es", "e ee")),
    "IK": (2, "Noise_IK_25519_ChaChaPoly_SHA256", ("e es s ss", "e ee se")),
    "NX": (3, "Noise_NX_25519_ChaChaPoly_SHA256", ("e", "e ee s es")),
    "NNpsk0": (4, "Noise_NNpsk0_25519_ChaChaPoly_SHA256", ("psk e", "e ee")),
}


def octets(name, count):
    """Octets that look random and are the same each time."""
    return hashlib.shake_128(name.encode()).digest(count)


def sha256(data):
    return hashlib.sha256(data).digest()


def mac(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def noise_hkdf(chaining_key, data, count):
    secret, out = mac(chaining_key, data), [b""]
    for i in range(1, count + 1):
        out.append(mac(secret, out[-1] + bytes([i])))
    return out[1:]


def expand(secret, info, count):
    out, block, i = b"", b"", 0
    while len(out) < count:
        i += 1
        block = mac(secret, block + info + bytes([i]))
        out += block
    return out[:count]


def label(secret, name, count):
    return expand(secret, count.to_bytes(2, "big") + b"heddle dtp " + name, count)


def public(private):
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def dh(private, peer):
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(peer))


class Noise:
    def __init__(self, name, prologue, pre_message):
        name = name.encode()
        self.h = name.ljust(32, b"\0") if len(name) <= 32 else sha256(name)
        self.ck, self.k, self.n = self.h, None, 0
        self.mix_hash(prologue)
        for key in pre_message:
            self.mix_hash(key)

    def mix_hash(self, data):
        self.h = sha256(self.h + data)

    def mix_key(self, data):
        self.ck, self.k = noise_hkdf(self.ck, data, 2)
        self.n = 0

    def mix_key_and_hash(self, data):
        self.ck, h, self.k = noise_hkdf(self.ck, data, 3)
        self.mix_hash(h)
        self.n = 0

    def seal(self, text):
        if self.k is not None:
            nonce = bytes(4) + self.n.to_bytes(8, "little")
            text = ChaCha20Poly1305(self.k).encrypt(nonce, text, self.h)
            self.n += 1
        self.mix_hash(text)
        return text


def handshake(pattern, keys, psk, prologue, payloads):
    """Both messages, as the writer of each makes them; `keys` holds private ones: ("client" or "server", "e" or "s")."""
    _, name, messages = PATTERNS[pattern]
    pre = [public(keys["server", "s"])] if pattern in ("NK", "IK") else []
    noise, out = Noise(name, prologue, pre), []
    for writer, tokens, payload in zip(("client", "server"), messages, payloads, strict=True):
        message = b""
        for token in tokens.split():
            if token == "e":
                key = public(keys[writer, "e"])
                message += key
                noise.mix_hash(key)
                if "psk" in pattern:
                    noise.mix_key(key)
            elif token == "s":
                message += noise.seal(public(keys[writer, "s"]))
            elif token == "psk":
                noise.mix_key_and_hash(psk)
            else:
                noise.mix_key(dh(keys["client", token[0]], public(keys["server", token[1]])))
        out.append(message + noise.seal(payload))
    c, s = noise_hkdf(noise.ck, b"", 2)
    return out, c, s, noise.h


def packet(suite, direction, phase, number, destination, payload):
    traffic = label(direction, b"traffic", 32)
    header_key = label(traffic, b"header", 32)
    for _ in range(phase):
        traffic = label(traffic, b"next", 32)
    key, iv = label(traffic, b"key", 32), label(traffic, b"iv", 12)
    nonce = bytes(a ^ b for a, b in zip(iv, bytes(4) + number.to_bytes(8, "big"), strict=True))
    first = 0x40 | phase & 1
    header = bytes([first]) + destination + number.to_bytes(8, "big")
    sealed = (ChaCha20Poly1305 if suite == 1 else AESGCM)(key).encrypt(nonce, payload, header)
    tag = sealed[-16:]
    if suite == 1:
        mask = Cipher(algorithms.ChaCha20(header_key, tag), None).encryptor().update(bytes(9))
    else:
        mask = Cipher(algorithms.AES(header_key), modes.ECB()).encryptor().update(tag)[:9]
    number = bytes(a ^ b for a, b in zip(number.to_bytes(8, "big"), mask[1:], strict=True))
    return bytes([first ^ mask[0] & 0x3F]) + destination + number + sealed


def main():
    lines = []
    for pattern, (pattern_number, _, _) in PATTERNS.items():
        for variant in range(3):
            seed = f"{pattern} {variant} "
            keys = {(end, kind): octets(seed + end + kind, 32) for end in ("client", "server") for kind in "es"}
            psk = octets(seed + "psk", 32)
            token = octets(seed + "token", 24 if variant == 1 else 0)
            destination, source = octets(seed + "destination", 16), octets(seed + "source", 16)
            clear = bytes([0x81, 1, pattern_number, 3]) + destination + source + bytes([len(token)]) + token
            payloads = [octets(seed + "payload 1", (1150, 1200, 1300)[variant]), octets(seed + "payload 2", (0, 40, 300)[variant])]
            messages, c, s, h = handshake(pattern, keys, psk, b"heddle dtp 1" + clear, payloads)
            resume = label(mac(h, c + s), b"resume", 32)
            packets = []
            for suite in (1, 2):
                for direction, half in (("client", c), ("server", s)):
                    for phase, number, length in ((0, 0, 0), (0, 1, 1), (0, 1 << 40, 1400), (1, (1 << 40) + 1, 33), (2, (1 << 62) - 1, 64)):
                        payload = octets(f"{seed}{suite}{direction}{number}", length)
                        packets.append({"suite": suite, "from": direction, "phase": phase, "number": number, "payload": payload.hex(),
                                        "packet": packet(suite, half, phase, number, destination, payload).hex()})
            # A restart of the server: it writes message 1, so it stands for the client here, to the client's id.
            restart_keys = {(end, "e"): octets(seed + end + "restart", 32) for end in ("client", "server")}
            restart_psk = label(resume, b"restart", 32)
            restart_clear = bytes([0x81, 1, 5, 3]) + source + octets(seed + "new source", 16) + b"\0"
            restart_payloads = [octets(seed + "report 1", 1103), octets(seed + "report 2", 100)]
            restart_messages, first, second, _ = handshake("NNpsk0", restart_keys, restart_psk, b"heddle dtp 1" + restart_clear, restart_payloads)
            restart = {
                "pattern": 4, "clear": restart_clear.hex(), "pre_shared": restart_psk.hex(),
                "client_ephemeral": restart_keys["client", "e"].hex(), "server_ephemeral": restart_keys["server", "e"].hex(),
                "payloads": [payload.hex() for payload in restart_payloads], "messages": [message.hex() for message in restart_messages],
                "packets": [{"from": end, "number": 3 << 40, "payload": b"again".hex(), "packet": packet(1, half, 0, 3 << 40, destination, b"again").hex()}
                            for end, half in (("client", first), ("server", second))],
            }
            lines.append({
                "pattern": pattern_number, "clear": clear.hex(), "destination": destination.hex(), "source": source.hex(), "token": token.hex(),
                "client_ephemeral": keys["client", "e"].hex(), "client_static": keys["client", "s"].hex(),
                "server_ephemeral": keys["server", "e"].hex(), "server_static": keys["server", "s"].hex(), "pre_shared": psk.hex(),
                "payloads": [payload.hex() for payload in payloads], "messages": [message.hex() for message in messages],
                "resume": resume.hex(), "packets": packets, "restart": restart,
            })
    path = pathlib.Path(__file__).resolve().parent / "modern.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
