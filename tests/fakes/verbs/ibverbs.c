/* A libibverbs for tests: ibv_modify_qp in two versions and ibv_query_gid, which record what they are passed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct seen { uint32_t qp_num, label, mask; void *attr; int version; } last_modify;
uint8_t own_gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};

static int modify(void *qp, void *attr, int mask, int version)
{
    uint32_t *words = attr;
    last_modify = (struct seen){((uint32_t *)qp)[13], words[18], (uint32_t)mask, attr, version};
    return 0;
}

int modify_1_0(void *qp, void *attr, int mask) { return modify(qp, attr, mask, 10); }
int modify_1_1(void *qp, void *attr, int mask) { return modify(qp, attr, mask, 11); }
__asm__(".symver modify_1_0, ibv_modify_qp@IBVERBS_1.0");
__asm__(".symver modify_1_1, ibv_modify_qp@@IBVERBS_1.1");

int gid_1_1(void *context, uint8_t port, int index, void *gid)
{
    (void)context, (void)port, (void)index;
    const char *host = getenv("VERBS_HOST"); /* the last byte of the own address; without it 1 */
    memcpy(gid, own_gid, 16);
    if (host) ((uint8_t *)gid)[15] = (uint8_t)atoi(host);
    return 0;
}
__asm__(".symver gid_1_1, ibv_query_gid@@IBVERBS_1.1");
