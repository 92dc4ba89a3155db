/* Network coding of Heddle. Made by cbindgen from core-nostd/capi/src/lib.rs. */

#ifndef HEDDLE_CODING_H
#define HEDDLE_CODING_H

#include <stddef.h>
#include <stdint.h>

// The field of the coefficients.
typedef enum {
  // GF(2).
  HEDDLE_FIELD_GF2 = 1,
  // GF(2^4) with the polynomial 0x13.
  HEDDLE_FIELD_GF16 = 4,
  // GF(2^8) with the polynomial 0x11B.
  HEDDLE_FIELD_GF256 = 8,
  // GF(2^16) with the polynomial 0x1100B.
  HEDDLE_FIELD_GF65536 = 16,
  // GF(2^8) with the polynomial 0x11D.
  HEDDLE_FIELD_GF256_WITH11D = 285,
} HeddleField;

// Why a function did nothing.
typedef enum {
  // A generation of no blocks.
  HEDDLE_ERROR_K_ZERO = -1,
  // Blocks of no octets.
  HEDDLE_ERROR_BLOCK_LEN_ZERO = -2,
  // A block length that the field or the implementation cannot do.
  HEDDLE_ERROR_BLOCK_LEN = -3,
  // A coding vector of the wrong length.
  HEDDLE_ERROR_VECTOR_LENGTH = -4,
  // A coding vector with bits after its last symbol.
  HEDDLE_ERROR_VECTOR_PADDING = -5,
  // A payload of the wrong length.
  HEDDLE_ERROR_PAYLOAD_LENGTH = -6,
  // Too little memory.
  HEDDLE_ERROR_MEMORY_TOO_SMALL = -7,
  // An output buffer of the wrong length.
  HEDDLE_ERROR_OUTPUT_LENGTH = -8,
  // The wrong number of coefficients.
  HEDDLE_ERROR_COEFFICIENT_COUNT = -9,
  // Coefficients that give a zero vector.
  HEDDLE_ERROR_ZERO_VECTOR = -10,
  // A block number past the end.
  HEDDLE_ERROR_NO_SUCH_BLOCK = -11,
  // A block that is not decodable yet.
  HEDDLE_ERROR_NOT_DECODABLE = -12,
  // No packet held.
  HEDDLE_ERROR_NOTHING_HELD = -13,
  // A matrix that the field is too small for.
  HEDDLE_ERROR_FIELD_TOO_SMALL = -14,
  // Blocks that are not all within one window.
  HEDDLE_ERROR_OUTSIDE_WINDOW = -15,
  // A null pointer where something must be read or written.
  HEDDLE_ERROR_NULL_POINTER = -100,
  // No field of that number.
  HEDDLE_ERROR_NO_SUCH_FIELD = -101,
  // A seed that has neither 4 nor 8 octets.
  HEDDLE_ERROR_SEED_LENGTH = -102,
  // No kernel of that name on this CPU.
  HEDDLE_ERROR_NO_SUCH_KERNEL = -103,
} HeddleError;

// A decoder of one generation.
typedef struct HeddleDecoder HeddleDecoder;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Octets of a coding vector of `k` elements of the field; 0 for an unknown field.
size_t heddle_vector_octets(int field, uint8_t k);

// Writes the name of the kernel in use, with a zero octet at its end, into `name` of `octets` octets, as much as fits. Gives the length of the name.
//
// # Safety
// `name` is null or good for `octets` octets.
size_t heddle_kernel_name(char *name,
                          size_t octets);

// Makes all functions of this process use the kernel called `name`, or the fastest one again for "auto".
//
// # Safety
// `name` is null or a string that ends with a zero octet.
int heddle_kernel_force(const char *name);

// Writes the coding vector that the seed of 4 or 8 octets stands for.
//
// # Safety
// `seed` is good for `seed_octets`, `vector` for the octets of a vector.
int heddle_vector_from_seed(int field,
                            uint8_t k,
                            const uint8_t *seed,
                            size_t seed_octets,
                            uint8_t *vector);

// Writes row `index` of a Cauchy matrix: any `k` such rows are independent, and none has a zero.
//
// # Safety
// `vector` is good for the octets of a vector.
int heddle_cauchy_row(int field, uint8_t k, size_t index, uint8_t *vector);

// Makes the payloads of `packets` coded packets of `k` blocks of `block_octets`, which lie `stride` apart. `vectors` has one coding vector
// for each packet, one after the other; the payloads are written one after the other.
//
// # Safety
// `blocks` is good for `(k - 1) * stride + block_octets` octets, `vectors` for `packets` vectors and `payloads` for `packets * block_octets` octets, and
// `payloads` overlaps neither.
int heddle_encode(int field,
                  uint8_t k,
                  size_t block_octets,
                  const uint8_t *blocks,
                  size_t stride,
                  size_t packets,
                  const uint8_t *vectors,
                  uint8_t *payloads);

// A decoder of a generation of `k` blocks of `block_octets`, to be given back to `heddle_decoder_free`. Null when these sizes or the field are refused.
// `seed` determines the packets that `heddle_decoder_recode` makes.
HeddleDecoder *heddle_decoder_new(int field,
                                  uint8_t k,
                                  size_t block_octets,
                                  uint64_t seed);

// Frees a decoder. Null is no harm.
//
// # Safety
// `decoder` is null or came from `heddle_decoder_new` and was not freed.
void heddle_decoder_free(HeddleDecoder *decoder);

// Takes a packet in: 1 when it was innovative, 0 when not. When `decoded` is not null, bit b of octet a of its 32 octets says whether this packet
// made block 8 a + b decodable.
//
// # Safety
// `decoder` is alive; `vector` and `payload` are good for their octets, `decoded` is null or good for 32.
int heddle_decoder_insert(HeddleDecoder *decoder,
                          const uint8_t *vector,
                          const uint8_t *payload,
                          uint8_t *decoded);

// The number of innovative packets so far.
//
// # Safety
// `decoder` is null or alive.
int heddle_decoder_rank(const HeddleDecoder *decoder);

// Whether block `block` is decodable: 1 or 0.
//
// # Safety
// `decoder` is null or alive.
int heddle_decoder_is_decodable(const HeddleDecoder *decoder, uint8_t block);

// Computes block `block` into `output`.
//
// # Safety
// `decoder` is null or alive; `output` is good for the octets of a block.
int heddle_decoder_block(const HeddleDecoder *decoder, uint8_t block, uint8_t *output);

// Makes a new packet of those that have arrived: never a zero vector, and no packet twice.
//
// # Safety
// `decoder` is null or alive; `vector` and `payload` are good for their octets.
int heddle_decoder_recode(HeddleDecoder *decoder, uint8_t *vector, uint8_t *payload);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HEDDLE_CODING_H */
