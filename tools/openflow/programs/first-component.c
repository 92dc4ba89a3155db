/*
 * Compares the first component of an Interest's name with the parameter, as programs for older switches of this kind do: the parameter is the
 * component's text, without type and length, and no more than its octets are compared. Interests come bare, in UDP over IPv4 without options.
 *
 * It is here to show that such files run; ndn-prefix.c is the better program.
 */
#include "context.h"

#define MOST 32

u64 match(const struct context *c)
{
	const u8 *b = c->packet;
	u64 length = c->param_length_short;

	/* Ethernet, IPv4 and UDP, then Interest, Name and component: type and length of one octet each. */
	if (c->packet_length < 42 + 6 || length == 0 || length > MOST)
		return NO_MATCH;
	if (b[12] != 0x08 || b[13] != 0x00 || b[14] != 0x45 || b[23] != 17)
		return NO_MATCH;
	if ((b[36] << 8 | b[37]) != 6363)
		return NO_MATCH;
	if (b[42] != 5 || b[44] != 7 || b[46] != 8 || b[47] != length || c->packet_length < 48 + length)
		return NO_MATCH;
#pragma clang loop unroll(full)
	for (u64 i = 0; i < MOST; i++) {
		if (i < length && b[48 + i] != c->param[i])
			return NO_MATCH;
	}
	return ~0ULL;
}
