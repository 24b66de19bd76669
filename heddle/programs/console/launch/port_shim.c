/* Gives the queue pairs of an unchanged program the source ports of their planned paths.
 *
 * Loaded by LD_AUDIT (rtld-audit(7)), because NCCL resolves ibv_modify_qp by dlvsym, which LD_PRELOAD does not reach.
 * At INIT to RTR it asks `heddle exec` for the port of (source GID, destination GID, queue pair) and passes on a copy of
 * the attributes whose grh.flow_label encodes that port. RoCEv2 providers derive the source port from the label:
 * 0xC000 | ((label & 0x3fff) ^ (label >> 14)) (rdma_flow_label_to_udp_sport of Linux).
 *
 * A queue pair is never refused for the shim's sake. One request that takes longer than 50 ms
 * (HEDDLE_PORT_DEADLINE_MS), fails, or gets a reply that is none, and no more are made for the life of the process.
 *
 * Audit libraries live in a linker namespace of their own, so this one depends on no other, not even on libc: a second
 * libc would take memory for thread-local variables that the program may need. Hence system calls.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <linux/un.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
enum { DEFAULT_DEADLINE_MS = 50, MAX_DEADLINE_MS = 60000, MAGIC = 0x31504448, LOWEST_PORT = 49152, HIGHEST_PORT = 65535, HIDDEN_VERSION = 0x8000 };

/* ---- the parts of libibverbs' ABI that are used (rdma-core, libibverbs/verbs.h, IBVERBS_1.1) ---- */

enum { IBV_QPS_RTR = 2, IBV_QP_STATE = 1 << 0, IBV_QP_AV = 1 << 7, IBV_QP_DEST_QPN = 1 << 20 };

union gid { uint8_t raw[16]; uint64_t half[2]; };
struct route { union gid dgid; uint32_t flow_label; uint8_t sgid_index, hop_limit, traffic_class; };
struct address { struct route grh; uint16_t dlid; uint8_t sl, src_path_bits, static_rate, is_global, port_num; };
struct qp_attr {
    int qp_state, cur_qp_state, path_mtu, path_mig_state;
    uint32_t qkey, rq_psn, sq_psn, dest_qp_num;
    unsigned qp_access_flags;
    uint32_t cap[5];
    struct address ah, alt_ah;
    uint16_t pkey_index, alt_pkey_index;
    uint8_t sqd_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt,
        rnr_retry, alt_port_num, alt_timeout;
    uint32_t rate_limit;
};
struct qp { void *context, *qp_context, *pd, *send_cq, *recv_cq, *srq; uint32_t handle, qp_num; };

typedef int modify_qp(struct qp *, struct qp_attr *, int);
typedef int query_gid(void *context, uint8_t port, int index, union gid *);

struct request { uint32_t magic, number; union gid src, dst; uint32_t queue_pair, peer; } __attribute__((packed));
struct reply { uint32_t magic, number, port; };

static modify_qp *real_modify_qp;
static query_gid *real_query_gid;
static int skipped;
static uint32_t requests;
static int deadline_ms = DEFAULT_DEADLINE_MS;
static struct sockaddr_un agent = {.sun_family = AF_UNIX};

/* ---- system calls ---- */

static long call(long number, long a, long b, long c, long d, long e, long f)
{
#if defined __x86_64__
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined __aarch64__
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#else
#error "the shim knows the system calls of x86_64 and aarch64 only"
#endif
}

/* The compiler may call these. */
void *memcpy(void *to, const void *from, size_t size)
{
    for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *memset(void *to, int value, size_t size)
{
    for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = (char)value;
    return to;
}

static int equal(const char *a, const char *b)
{
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

static void log_line(const char *text)
{
    size_t size = 0;
    while (text[size]) size++;
    call(SYS_write, 2, (long)text, (long)size, 0, 0, 0);
}

static int64_t now_ns(void)
{
    struct timespec now = {0, 0};
    call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0, 0, 0);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- the request ---- */

/* Sends the request and waits for its reply until the deadline; 0 if a reply came. */
static int exchange(int end, const struct request *request, struct reply *reply, int64_t deadline_ns)
{
    if (call(SYS_connect, end, (long)&agent, sizeof agent, 0, 0, 0) < 0) return -1;
    if (call(SYS_sendto, end, (long)request, sizeof *request, MSG_NOSIGNAL, 0, 0) != sizeof *request) return -1;
    for (;;) {
        int64_t left_ns = deadline_ns - now_ns();
        if (left_ns <= 0) return -1;
        struct timespec left = {left_ns / 1000000000, left_ns % 1000000000};
        struct pollfd ready = {.fd = end, .events = POLLIN};
        long count = call(SYS_ppoll, (long)&ready, 1, (long)&left, 0, 0, 0);
        if (count == 0 || (count < 0 && count != -4 /* EINTR */)) return -1;
        if (count > 0) return call(SYS_recvfrom, end, (long)reply, sizeof *reply, 0, 0, 0) == sizeof *reply ? 0 : -1;
    }
}

/* Returns the planned port of a queue pair; 0 where none is planned, or no sound reply came in time. */
static uint32_t planned_port(const union gid *src, const union gid *dst, uint32_t queue_pair, uint32_t peer)
{
    struct request request = {MAGIC, __atomic_add_fetch(&requests, 1, __ATOMIC_RELAXED), *src, *dst, queue_pair, peer};
    struct reply reply = {0, 0, 0};
    int64_t deadline_ns = now_ns() + deadline_ms * INT64_C(1000000);
    long end = call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0, 0, 0);
    int failed = end < 0 || exchange((int)end, &request, &reply, deadline_ns);
    if (end >= 0) call(SYS_close, end, 0, 0, 0, 0, 0);
    if (!failed && reply.magic == MAGIC && reply.number == request.number &&
        (reply.port == 0 || (reply.port >= LOWEST_PORT && reply.port <= HIGHEST_PORT)))
        return reply.port;
    if (!__atomic_exchange_n(&skipped, 1, __ATOMIC_RELAXED))
        log_line("heddle: no sound reply of the port agent in time: queue pairs keep their own source ports\n");
    return 0;
}

/* A label of 0 asks the provider for a port of its own choice, so port 0xC000 is written as 1 xor 1. */
static uint32_t label_of(uint32_t port)
{
    uint32_t bits = port & 0x3fff;
    return bits ? bits : 0x4001;
}

static int modify(struct qp *qp, struct qp_attr *attr, int mask)
{
    union gid src;
    if ((mask & (IBV_QP_STATE | IBV_QP_AV)) != (IBV_QP_STATE | IBV_QP_AV) || attr->qp_state != IBV_QPS_RTR ||
        !attr->ah.is_global || __atomic_load_n(&skipped, __ATOMIC_RELAXED) || !real_query_gid ||
        real_query_gid(qp->context, attr->ah.port_num, attr->ah.grh.sgid_index, &src))
        return real_modify_qp(qp, attr, mask);
    uint32_t peer = mask & IBV_QP_DEST_QPN ? attr->dest_qp_num : 0;
    uint32_t port = planned_port(&src, &attr->ah.grh.dgid, qp->qp_num, peer);
    if (!port) return real_modify_qp(qp, attr, mask);
    struct qp_attr copy = *attr;
    copy.ah.grh.flow_label = label_of(port);
    return real_modify_qp(qp, &copy, mask);
}

/* ---- the audit interface ---- */

struct symbols { const ElfW(Sym) *table; const char *names; const uint32_t *hash; const ElfW(Half) *versions; };

static struct symbols symbols_of(const struct link_map *map)
{
    struct symbols found = {0, 0, 0, 0};
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        uintptr_t value = entry->d_un.d_ptr;
        if (value < map->l_addr) value += map->l_addr; /* glibc has relocated it, except in read-only sections */
        if (entry->d_tag == DT_SYMTAB) found.table = (const void *)value;
        if (entry->d_tag == DT_STRTAB) found.names = (const void *)value;
        if (entry->d_tag == DT_GNU_HASH) found.hash = (const void *)value;
        if (entry->d_tag == DT_VERSYM) found.versions = (const void *)value;
    }
    return found;
}

/* Returns the address of an object's symbol in its default version, 0 if it has none. */
static uintptr_t address_of(const struct link_map *map, const char *name)
{
    struct symbols in = symbols_of(map);
    if (!in.table || !in.names || !in.hash) return 0;
    uint32_t buckets = in.hash[0], first = in.hash[1], words = in.hash[2], wanted = 5381;
    for (const char *at = name; *at; at++) wanted = wanted * 33 + (unsigned char)*at;
    const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(in.hash + 4) + words), *chain = bucket + buckets;
    if (!buckets || bucket[wanted % buckets] < first) return 0;
    for (uint32_t index = bucket[wanted % buckets];; index++) {
        uint32_t hash = chain[index - first];
        if ((hash | 1) == (wanted | 1) && equal(in.names + in.table[index].st_name, name) &&
            !(in.versions && in.versions[index] & HIDDEN_VERSION))
            return map->l_addr + in.table[index].st_value;
        if (hash & 1) return 0;
    }
}

static int is_ibverbs(const char *path)
{
    const char *name = path;
    for (; *path; path++)
        if (*path == '/') name = path + 1;
    const char *wanted = "libibverbs.so";
    while (*wanted && *name == *wanted) name++, wanted++;
    return !*wanted;
}

EXPORT unsigned la_version(unsigned version)
{
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

EXPORT unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    (void)space, (void)cookie;
    if (!is_ibverbs(map->l_name)) return LA_FLG_BINDFROM;
    real_modify_qp = (modify_qp *)address_of(map, "ibv_modify_qp");
    real_query_gid = (query_gid *)address_of(map, "ibv_query_gid");
    return LA_FLG_BINDFROM | LA_FLG_BINDTO;
}

EXPORT uintptr_t la_symbind64(ElfW(Sym) *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags,
                              const char *name)
{
    (void)index, (void)from, (void)to, (void)flags;
    /* Programs that are bound to IBVERBS_1.0 have other structures: they get what they ask for. */
    if (agent.sun_path[0] && real_modify_qp && symbol->st_value == (uintptr_t)real_modify_qp &&
        equal(name, "ibv_modify_qp"))
        return (uintptr_t)modify;
    return symbol->st_value;
}

/* Returns the value of a variable if `entry` sets it, else 0. */
static const char *value_in(const char *entry, const char *name)
{
    while (*name && *entry == *name) entry++, name++;
    return *name || *entry != '=' ? 0 : entry + 1;
}

/* glibc passes the environment to initialisers. */
__attribute__((constructor)) static void read_environment(int count, char **arguments, char **environment)
{
    (void)count, (void)arguments;
    for (; environment && *environment; environment++) {
        const char *path = value_in(*environment, "HEDDLE_PORT_SOCKET");
        size_t size = 0;
        while (path && path[size]) size++;
        if (path && size < sizeof agent.sun_path) memcpy(agent.sun_path, path, size + 1);
        const char *deadline = value_in(*environment, "HEDDLE_PORT_DEADLINE_MS");
        int value = 0;
        for (; deadline && *deadline >= '0' && *deadline <= '9' && value <= MAX_DEADLINE_MS; deadline++)
            value = 10 * value + *deadline - '0';
        if (deadline && !*deadline && value > 0 && value <= MAX_DEADLINE_MS) deadline_ms = value;
    }
}
