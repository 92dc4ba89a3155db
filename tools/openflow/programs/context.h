/* What a match program is given. The first five fields are those of older switches; `param_length` lies where they have padding. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct context {
	u8 table;
	u32 in_port;
	u8 param_length_short; /* octets of the parameter, 255 if it has more */
	u32 param_length;
	u64 packet_length;
	const u8 *param;
	const u8 *packet; /* from its Ethernet header on */
};

#define INLINE static inline __attribute__((always_inline))
#define NO_MATCH 0
