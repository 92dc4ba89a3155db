/* What the headers offer only as macros. */
#include <rte_errno.h>
#include <stdint.h>
#include <string.h>

int dpdk_sys_errno(void);

int dpdk_sys_errno(void)
{
	return rte_errno;
}

uint64_t dpdk_sys_first_word(uint64_t address, uint64_t b, uint64_t c, uint64_t d, uint64_t e);

uint64_t dpdk_sys_first_word(uint64_t address, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	uint64_t word;

	(void)b, (void)c, (void)d, (void)e;
	memcpy(&word, (const void *)(uintptr_t)address, sizeof(word));
	return word;
}
