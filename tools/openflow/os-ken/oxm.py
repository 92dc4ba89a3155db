"""What os-ken has to learn to speak to a switch that knows names: match fields and messages of two experimenters.

The layouts are those of the Rust crate beside this directory (`src/ours.rs`, `src/experiment.rs`).
"""

import struct

from os_ken.ofproto import ofproto_v1_3, ofproto_v1_3_parser, oxm_fields

PROGRAMS = 0x66666666
"""Programs: PUT, DEL, GET, PUT_PART, PARAM_SET, ACK; and the match field that is a program's result."""

NAMES = 0x48444C45
"""Match fields of named-data packets."""

PUT, DEL, GET, PUT_PART, PARAM_SET, ACK = range(6)
LIST = 0
"""The multipart request for programs."""

PART_OCTETS = 32_768
"""Octets of a program that one message carries."""

ALL_ONES = (1 << 64) - 1

KIND_INTEREST = 1

_PIECE_OCTETS = 251
_FIRST_NAME_FIELD = 16
_NAME_FIELDS = 36


class _Octets:
    """A value of any length, which needs no conversion."""

    @staticmethod
    def from_user(value: bytes) -> bytes:
        return value

    @staticmethod
    def to_user(value: bytes) -> bytes:
        return bytes(value)


class _Programs(oxm_fields._Experimenter):
    experimenter_id = PROGRAMS


class _Names(oxm_fields._Experimenter):
    experimenter_id = NAMES


def teach() -> None:
    """Adds the fields to os-ken's."""
    fields = [_Programs("program", 1, _Octets), _Names("ndn_kind", 1, _Octets)]
    fields += [
        _Names(f"ndn_name_{piece}", _FIRST_NAME_FIELD + piece, _Octets)
        for piece in range(_NAME_FIELDS)
    ]
    ofproto_v1_3.oxm_types += fields
    oxm_fields.generate(ofproto_v1_3.__name__)


def name_match(name: bytes) -> dict[str, bytes]:
    """Interests whose name begins with the components of this TLV-VALUE, as the switch finds them."""
    pieces = range(0, max(len(name), 1), _PIECE_OCTETS)
    match = {
        f"ndn_name_{number}": name[at : at + _PIECE_OCTETS] for number, at in enumerate(pieces)
    }
    return {"ndn_kind": bytes([KIND_INTEREST])} | match


def program_match(program: int, parameter: bytes) -> dict[str, bytes]:
    """Packets of which a program with this parameter says yes."""
    return {"program": struct.pack("!IQ", program, ALL_ONES) + parameter}


def put_program(datapath, program: int, elf: bytes) -> list:
    """The messages that send a program; the last one's acknowledgement is that of the whole."""

    def message(exp_type: int, data: bytes):
        return ofproto_v1_3_parser.OFPExperimenter(datapath, PROGRAMS, exp_type, data)

    if len(elf) <= PART_OCTETS:
        return [message(PUT, struct.pack("!II", program, len(elf)) + elf)]
    return [
        message(
            PUT_PART,
            struct.pack("!III", program, len(elf), at) + elf[at : at + PART_OCTETS],
        )
        for at in range(0, len(elf), PART_OCTETS)
    ]


def ask_for_programs(datapath):
    """A question that a switch answers, or refuses when it does not know our experimenter."""
    return ofproto_v1_3_parser.OFPExperimenterStatsRequest(datapath, 0, PROGRAMS, LIST, b"")
