/* Opens queue pairs as NCCL does: dlopen of libibverbs, dlvsym with IBVERBS_1.1; with -DBY_DLSYM by dlsym, as NVSHMEM
 * does; with -DLINKED as a linked program does.
 *
 * Arguments: version of the symbol, how many queue pairs, label of the program, last byte of the peer's address.
 * Prints a line per queue pair: number, label that the provider got, 1 if the caller's attributes are unchanged; then the
 * nanoseconds of all calls.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct seen { uint32_t qp_num, label, mask; void *attr; int version; };
typedef int modify_qp(void *, void *, int);
#ifdef LINKED
modify_qp ibv_modify_qp;
extern struct seen last_modify;
#endif

int main(int argc, char **argv)
{
    int count = atoi(argv[2]);
#ifdef LINKED
    modify_qp *modify = ibv_modify_qp;
    struct seen *seen = &last_modify;
#else
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
#ifdef BY_DLSYM
    modify_qp *modify = library ? (modify_qp *)dlsym(library, "ibv_modify_qp") : 0;
#else
    modify_qp *modify = library ? (modify_qp *)dlvsym(library, "ibv_modify_qp", argv[1]) : 0;
#endif
    struct seen *seen = library ? dlsym(library, "last_modify") : 0;
    if (!modify) return fprintf(stderr, "%s\n", dlerror()), 3;
#endif
    (void)argc;
    uint32_t qp[14] = {0}, attr[48] = {0}, given[48];
    int64_t spent = 0;
    for (int i = 0; i < count; i++) {
        qp[13] = 1000 + (uint32_t)i;
        attr[0] = 2;                          /* RTR */
        attr[7] = 5000 + (uint32_t)i;         /* the peer's queue pair */
        uint8_t gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, (uint8_t)atoi(argv[4])};
        memcpy(attr + 14, gid, 16);
        attr[18] = (uint32_t)atoi(argv[3]);   /* the flow label */
        ((uint8_t *)attr)[85] = 1;            /* is_global */
        ((uint8_t *)attr)[86] = 1;            /* port */
        memcpy(given, attr, sizeof attr);
        struct timespec begun, ended;
        clock_gettime(CLOCK_MONOTONIC, &begun);
        if (modify(qp, attr, 1 << 0 | 1 << 7 | 1 << 20)) return 4;
        clock_gettime(CLOCK_MONOTONIC, &ended);
        spent += (ended.tv_sec - begun.tv_sec) * INT64_C(1000000000) + ended.tv_nsec - begun.tv_nsec;
        printf("%u %u %d %d\n", seen->qp_num, seen->label, !memcmp(given, attr, sizeof attr), seen->version);
    }
    printf("%" PRId64 "\n", spent);
    return 0;
}
