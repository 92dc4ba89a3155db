/* What the headers offer only as macros. */
#include <rte_errno.h>

int dpdk_sys_errno(void);

int dpdk_sys_errno(void)
{
	return rte_errno;
}
