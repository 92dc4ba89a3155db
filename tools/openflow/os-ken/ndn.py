"""Names and packets of named data, as far as a controller looks at them."""

import struct
import urllib.parse

INTEREST, NAME, LP_PACKET, FRAGMENT = 5, 7, 100, 80
MAX_NAME_OCTETS = 2048
MAX_COMPONENTS = 64


class Malformed(ValueError):
    """Octets or text that are not what they should be."""


def number(octets: bytes, at: int) -> tuple[int, int]:
    """A TLV number in its shortest form, and where it ends."""
    try:
        first = octets[at]
        if first < 253:
            return first, at + 1
        form, least = {253: ("!H", 253), 254: ("!I", 1 << 16), 255: ("!Q", 1 << 32)}[first]
        (value,) = struct.unpack_from(form, octets, at + 1)
    except (IndexError, struct.error) as error:
        raise Malformed("a number is cut off") from error
    if value < least:
        raise Malformed("a number is longer than it need be")
    return value, at + 1 + struct.calcsize(form)


def element(octets: bytes, at: int) -> tuple[int, bytes, int]:
    """Type and value of an element, and where it ends."""
    kind, at = number(octets, at)
    length, at = number(octets, at)
    if length > len(octets) - at:
        raise Malformed("an element is cut off")
    return kind, octets[at : at + length], at + length


def components(name: bytes) -> list[int]:
    """Where each component of a name ends."""
    ends, at = [], 0
    while at < len(name):
        kind, value, at = element(name, at)
        if not 1 <= kind <= 0xFFFF or (kind in (1, 2) and len(value) != 32):
            raise Malformed("a component is of no type that there is")
        ends.append(at)
    return ends


def prefixes(name: bytes) -> list[bytes]:
    """The prefixes of a name by whole components, the longest first."""
    return [name[:end] for end in reversed(components(name))]


def _write_number(value: int) -> bytes:
    return bytes([value]) if value < 253 else b"\xfd" + struct.pack("!H", value)


def parse_uri(uri: str) -> bytes:
    """The TLV-VALUE of a name, from its NDN URI."""
    path = uri.removeprefix("ndn:")
    if not path.startswith("/") or path == "/":
        raise Malformed(f"{uri!r} is no name of at least one component")
    name = b""
    for text in path[1:].removesuffix("/").split("/"):
        kind, value = 8, text
        if "=" in text:
            prefix, _, value = text.partition("=")
            if not prefix.isascii() or not prefix.isdigit() or not 1 <= int(prefix) <= 0xFFFF:
                raise Malformed(f"{prefix!r} is no type of a component")
            kind = int(prefix)
        if not value.strip("."):
            if len(value) < 3:
                raise Malformed(f"{uri!r} has an empty component")
            value = value[3:]
        octets = urllib.parse.unquote_to_bytes(value)
        name += _write_number(kind) + _write_number(len(octets)) + octets
    if len(name) > MAX_NAME_OCTETS or len(components(name)) > MAX_COMPONENTS:
        raise Malformed("the name is too long")
    return name


def interest_name(packet: bytes) -> bytes | None:
    """The name of an Interest, bare or whole in a link packet; nothing for any other packet."""
    kind, value, _ = element(packet, 0)
    if kind == LP_PACKET:
        at = 0
        while True:
            if at >= len(value):
                return None
            kind, inner, at = element(value, at)
            if kind == FRAGMENT:
                kind, value, _ = element(inner, 0)
                break
    if kind != INTEREST:
        return None
    kind, name, _ = element(value, 0)
    if kind != NAME or not name:
        raise Malformed("an Interest begins with its name")
    components(name)
    return name


def datagram(frame: bytes) -> tuple[int, bytes] | None:
    """The destination port and the payload of a UDP datagram over IPv4; nothing for any other frame."""
    if len(frame) < 42 or frame[12:14] != b"\x08\x00" or frame[14] >> 4 != 4 or frame[23] != 17:
        return None
    udp = 14 + (frame[14] & 15) * 4
    if len(frame) < udp + 8:
        return None
    port, length = struct.unpack_from("!HH", frame, udp + 2)
    return port, frame[udp + 8 : udp + length]
