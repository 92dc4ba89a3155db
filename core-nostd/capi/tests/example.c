/* Sends a generation over a lossy link, through a relay that recodes, and decodes it. */
#include "heddle_coding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { K = 16, BLOCK = 1400, EXTRA = 4 };

#define REQUIRE(condition)                                                     \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #condition); \
            return 1;                                                          \
        }                                                                      \
    } while (0)

static uint8_t blocks[K][BLOCK], vectors[K + EXTRA][K], payloads[K + EXTRA][BLOCK];

int main(void)
{
    const int field = HEDDLE_FIELD_GF256;
    char kernel[32];
    REQUIRE(heddle_kernel_name(kernel, sizeof kernel) == strlen(kernel));
    REQUIRE(heddle_kernel_force("none such") == HEDDLE_ERROR_NO_SUCH_KERNEL);
    REQUIRE(heddle_vector_octets(field, K) == K);
    REQUIRE(heddle_vector_octets(HEDDLE_FIELD_GF2, K) == 2);

    for (int i = 0; i < K; i++)
        for (int j = 0; j < BLOCK; j++)
            blocks[i][j] = (uint8_t)(31 * i + 7 * j + i * j);
    for (int i = 0; i < K + EXTRA; i++) {
        const uint8_t seed[4] = {0, 0, 1, (uint8_t)i};
        REQUIRE(heddle_vector_from_seed(field, K, seed, 4, vectors[i]) == 0);
    }
    REQUIRE(heddle_encode(field, K, BLOCK, blocks[0], BLOCK, K + EXTRA, vectors[0], payloads[0]) == 0);

    HeddleDecoder *relay = heddle_decoder_new(field, K, BLOCK, 1);
    HeddleDecoder *receiver = heddle_decoder_new(field, K, BLOCK, 2);
    REQUIRE(relay && receiver);
    REQUIRE(heddle_decoder_new(field, 0, BLOCK, 1) == NULL);
    uint8_t vector[K], payload[BLOCK], decoded[32], all[32] = {0};
    REQUIRE(heddle_decoder_recode(relay, vector, payload) == HEDDLE_ERROR_NOTHING_HELD);

    for (int i = 0; i < K + EXTRA; i++) {
        if (i % 6 == 5)
            continue; /* lost */
        REQUIRE(heddle_decoder_insert(relay, vectors[i], payloads[i], NULL) >= 0);
        REQUIRE(heddle_decoder_recode(relay, vector, payload) == 0);
        REQUIRE(heddle_decoder_insert(receiver, vector, payload, decoded) >= 0);
        for (int j = 0; j < 32; j++)
            all[j] |= decoded[j];
    }
    while (heddle_decoder_rank(receiver) < K) {
        REQUIRE(heddle_decoder_recode(relay, vector, payload) == 0);
        REQUIRE(heddle_decoder_insert(receiver, vector, payload, decoded) >= 0);
        for (int j = 0; j < 32; j++)
            all[j] |= decoded[j];
    }
    REQUIRE(all[0] == 0xFF && all[1] == 0xFF && all[2] == 0);
    REQUIRE(heddle_decoder_insert(receiver, vector, payload, decoded) == 0);
    for (int i = 0; i < K; i++) {
        uint8_t block[BLOCK];
        REQUIRE(heddle_decoder_is_decodable(receiver, (uint8_t)i) == 1);
        REQUIRE(heddle_decoder_block(receiver, (uint8_t)i, block) == 0);
        REQUIRE(memcmp(block, blocks[i], BLOCK) == 0);
    }
    REQUIRE(heddle_decoder_block(receiver, K, payload) == HEDDLE_ERROR_NO_SUCH_BLOCK);
    REQUIRE(heddle_decoder_insert(receiver, NULL, payload, NULL) == HEDDLE_ERROR_NULL_POINTER);
    REQUIRE(heddle_cauchy_row(99, K, 0, vector) == HEDDLE_ERROR_NO_SUCH_FIELD);
    REQUIRE(heddle_cauchy_row(field, K, 0, vector) == 0);
    heddle_decoder_free(relay);
    heddle_decoder_free(receiver);
    heddle_decoder_free(NULL);
    printf("decoded %d blocks with kernel %s\n", K, kernel);
    return 0;
}
