/*
 * Matches NDN packets by name prefix.
 *
 * The parameter is the TLV-VALUE of a Name. It matches the packets whose Name begins with it component by component: /a is a prefix of /a and of
 * /a/b, not of /ab. The result is all ones for an Interest, all ones but for the lowest bit for a Data packet, and 0 for all else; so a rule that
 * wants Interests asks for all ones, and one that wants both leaves the lowest bit out of its mask. The packet may be bare or whole inside an NDNLPv2
 * LpPacket, in UDP over IPv4 with a port 6363, or right in Ethernet frames of type 0x8624.
 *
 * Name and parameter are compared eight octets at a time. Components say their own lengths, so where the octets are equal the parameter's
 * components are the Name's, and what is left to see is that the parameter ends where one of its components does.
 *
 * There is no loop. So LpPackets may have 5 fields before their fragment, parameters 8 * WORDS octets, and COMPONENTS components.
 */
#include "context.h"

#define WORDS 32
#define COMPONENTS 32

#define MATCH_INTEREST (~0ULL)
#define MATCH_DATA (~1ULL)

/* One field of an LpPacket. */
#define FIELD                                                                     \
	h = tlv(b, at, end);                                                      \
	if (h.start == 0 || h.type == 82 || h.type == 83 || h.type == 800)        \
		return NO_MATCH;                                                  \
	if (h.type == 80)                                                         \
		goto fragment;                                                    \
	at = h.end;

/* Eight octets of name and parameter. */
#define WORD                                                                      \
	if (left < 8)                                                             \
		goto rest;                                                        \
	if (*(const u64 *)b != *(const u64 *)p)                                   \
		return NO_MATCH;                                                  \
	b += 8, p += 8, left -= 8;
/* One component of the parameter. */
#define COMPONENT                                                                 \
	if (at >= left)                                                           \
		goto end;                                                         \
	at = skip(p, at, left);
#define COMPONENTS_4 COMPONENT COMPONENT COMPONENT COMPONENT
#define COMPONENTS_16 COMPONENTS_4 COMPONENTS_4 COMPONENTS_4 COMPONENTS_4
#define WORDS_4 WORD WORD WORD WORD
#define WORDS_16 WORDS_4 WORDS_4 WORDS_4 WORDS_4

/* A type and a length that begin at `at`, and end behind `end` or not. */
struct header {
	u64 type;
	u64 start; /* where the value begins; 0 if this is no TLV */
	u64 end;   /* where it ends */
};

INLINE u64 be16(const u8 *p)
{
	return __builtin_bswap16(*(const u16 *)p);
}

/* Type and length of one octet each, as nearly all are, or of three. */
INLINE struct header tlv(const u8 *b, u64 at, u64 limit)
{
	struct header h = { 0, 0, 0 };
	u64 length;

	if (at + 2 > limit)
		return h;
	h.type = b[at++];
	if (h.type >= 253) {
		if (h.type > 253 || at + 3 > limit)
			return h;
		h.type = be16(b + at);
		at += 2;
		if (h.type < 253)
			return h;
	}
	length = b[at++];
	if (length >= 253) {
		if (length > 253 || at + 2 > limit)
			return h;
		length = be16(b + at);
		at += 2;
		if (length < 253)
			return h;
	}
	if (length > limit - at)
		return h;
	h.start = at;
	h.end = at + length;
	return h;
}

/* Where the TLV at `at` ends; far behind `limit` if it is none. */
INLINE u64 skip(const u8 *p, u64 at, u64 limit)
{
	if (p[at] < 253 && at + 2 <= limit && p[at + 1] < 253)
		return at + 2 + p[at + 1];
	struct header h = tlv(p, at, limit);
	return h.start ? h.end : ~0ULL >> 1;
}

u64 match(const struct context *c)
{
	const u8 *b = c->packet;
	const u8 *p = c->param;
	u64 limit = c->packet_length, at, left, found;
	struct header h;

	if (limit < 16)
		return NO_MATCH;
	if (*(const u16 *)(b + 12) == __builtin_bswap16(0x8624)) {
		at = 14;
	} else {
		u64 size;

		if (*(const u16 *)(b + 12) != __builtin_bswap16(0x0800) || limit < 42)
			return NO_MATCH;
		/* IPv4, UDP, no fragment but a whole datagram. */
		size = b[14] - 0x40;
		if (size < 5 || size > 15 || b[23] != 17 || *(const u16 *)(b + 20) & __builtin_bswap16(0x3fff))
			return NO_MATCH;
		at = 14 + 4 * size;
		if (at + 8 > limit)
			return NO_MATCH;
		if (be16(b + at) != 6363 && be16(b + at + 2) != 6363)
			return NO_MATCH;
		size = be16(b + at + 4);
		if (size < 8 || size > limit - at)
			return NO_MATCH;
		limit = at + size;
		at += 8;
	}

	h = tlv(b, at, limit);
	if (h.type == 100) {
		/* Fields that come before the fragment; a piece of a packet or a Nack is none to match. */
		u64 end = h.end;

		at = h.start;
		FIELD FIELD FIELD FIELD FIELD FIELD
		return NO_MATCH;
fragment:
		h = tlv(b, h.start, h.end);
	}
	if (h.start == 0 || (h.type != 5 && h.type != 6))
		return NO_MATCH;
	found = h.type == 5 ? MATCH_INTEREST : MATCH_DATA;
	h = tlv(b, h.start, h.end);
	left = c->param_length;
	/* No packet has an empty name. */
	if (h.start == 0 || h.type != 7 || h.start == h.end || left > h.end - h.start || left > 8 * WORDS)
		return NO_MATCH;

	at = 0;
	COMPONENTS_16 COMPONENTS_16
end:
	if (at != left)
		return NO_MATCH;

	b += h.start;
	WORDS_16 WORDS_16
rest:
	if (left & 4) {
		if (*(const u32 *)b != *(const u32 *)p)
			return NO_MATCH;
		b += 4, p += 4;
	}
	if (left & 2) {
		if (*(const u16 *)b != *(const u16 *)p)
			return NO_MATCH;
		b += 2, p += 2;
	}
	if (left & 1 && *b != *p)
		return NO_MATCH;
	return found;
}
