// The work of the gateway's kernels in C, on the same rows and tables, to measure the cost of compiling Python. Rows are
// structs whose fields come from the Python types (the FIELDS macros of the command line), so both sides share one layout.
// The benchmark sends plain UDP over IPv4. For other packets the kernels call further functions; this code drops them.
#include <stdint.h>
#include <string.h>

typedef struct { PACKET_FIELDS } packet_t;
typedef struct { NEXT_HOP_FIELDS } hop_t;
typedef struct { CONNECTION_FIELDS } connection_t;
typedef struct { VPC_FIELDS } vpc_t;

typedef struct {
  const int64_t *vnis; int64_t vni_slots;
  const vpc_t *vpcs;
  const int64_t *vteps; int64_t vtep_slots;
  const int64_t *endpoints; int64_t endpoint_slots;
  const hop_t *hops;
  const uint8_t *templates;
  const int64_t *own, *ports; int64_t port_words;
  connection_t *connections; const int64_t *slots; int64_t slot_count;
  int64_t generation, seed;
} tables_t;

static inline uint16_t load16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return __builtin_bswap16(v); }
static inline uint32_t load32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }
static inline uint64_t load64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return __builtin_bswap64(v); }
static inline void store16(uint8_t *p, uint16_t v) { v = __builtin_bswap16(v); memcpy(p, &v, 2); }
static inline void store32(uint8_t *p, uint32_t v) { v = __builtin_bswap32(v); memcpy(p, &v, 4); }
static inline void store64(uint8_t *p, uint64_t v) { v = __builtin_bswap64(v); memcpy(p, &v, 8); }

#define GOLDEN 0x9E3779B97F4A7C15ull
#define MIX 0xD6E8FEB86659FD93ull
static inline int64_t mixed(int64_t w) {
  uint64_t x = (uint64_t)w * GOLDEN;
  x = (x ^ (x >> 29)) * MIX;
  return (int64_t)((x ^ (x >> 32)) >> 1);
}
static inline int64_t mixed2(int64_t a, int64_t b) {
  uint64_t x = ((uint64_t)a * GOLDEN) ^ (uint64_t)b;
  x = (x ^ (x >> 29)) * MIX;
  x = (x ^ (x >> 32)) * GOLDEN;
  return (int64_t)((x ^ (x >> 29)) >> 1);
}
static inline int64_t mixed5(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t seed) {
  uint64_t x = ((uint64_t)a * GOLDEN) ^ ((uint64_t)b * MIX) ^ (uint64_t)seed;
  uint64_t y = ((uint64_t)c * MIX) ^ ((uint64_t)d * GOLDEN) ^ (uint64_t)seed;
  x = (x ^ (x >> 29)) * GOLDEN;
  y = (y ^ (y >> 32)) * MIX;
  uint64_t z = x + y + (uint64_t)e * GOLDEN;
  z = (z ^ (z >> 32)) * MIX;
  return (int64_t)((z ^ (z >> 29)) >> 1);
}

static inline uint32_t folded(uint64_t t) {
  t = (t & 0xFFFFFFFF) + (t >> 32);
  t = (t & 0xFFFF) + (t >> 16);
  t = (t & 0xFFFF) + (t >> 16);
  return (t & 0xFFFF) + (t >> 16);
}

enum { OTHER = 35 };
static inline void drop(packet_t *p, int reason) { p->node = -1; p->reason = reason; }

static inline int64_t row1(const int64_t *grid, int64_t slots, int64_t a) {
  for (int64_t at = mixed(a) & (slots - 1), n = 0; n < slots; n++, at = (at + 1) & (slots - 1))
    if (grid[at * 2 + 1] == -1 || grid[at * 2] == a) return grid[at * 2 + 1];
  return -1;
}
static inline int64_t row2(const int64_t *grid, int64_t slots, int64_t a, int64_t b) {
  for (int64_t at = mixed2(a, b) & (slots - 1), n = 0; n < slots; n++, at = (at + 1) & (slots - 1)) {
    const int64_t *s = grid + at * 3;
    if (s[2] == -1 || (s[0] == a && s[1] == b)) return s[2];
  }
  return -1;
}
static inline int64_t row3(const int64_t *grid, int64_t slots, int64_t a, int64_t b, int64_t c) {
  for (int64_t at = mixed2(mixed2(a, b), c) & (slots - 1), n = 0; n < slots; n++, at = (at + 1) & (slots - 1)) {
    const int64_t *s = grid + at * 4;
    if ((s[0] == a && s[1] == b && s[2] == c) || s[3] == -1) return s[3];
  }
  return -1;
}

static inline int is_all_ones(uint64_t t) {
  t = (t & 0xFFFFFFFF) + (t >> 32);
  t = (t & 0xFFFF) + (t >> 16);
  return t == 0xFFFF || t == 0x1FFFE;
}

// Return the total length of a valid, unfragmented IPv4 header without options; 0 for any other.
static inline int64_t plain_total(const uint8_t *ip, int64_t whole) {
  uint64_t first = load64(ip), second = load64(ip + 8);
  int64_t total = first >> 32 & 0xFFFF;
  if (first >> 56 != 0x45 || first & 0x3FFF || total > whole) return 0;
  uint64_t sum = (first >> 32) + (uint32_t)first + (second >> 32) + (uint32_t)second + load32(ip + 16);
  return is_all_ones(sum) ? total : 0;
}

static inline int is_host(uint32_t a) { return a >> 24 > 0 && a >> 24 < 224 && a >> 24 != 127; }

static inline int is_sound(const uint8_t *p, int64_t count, int64_t protocol) {
  if (protocol == 17) return 8 <= load16(p + 4) && load16(p + 4) <= count;
  int64_t header = p[12] >> 2 & 0x3C;
  return protocol == 6 && count >= 20 && 20 <= header && header <= count;
}

static inline void read_headers(uint8_t *memory, packet_t *p, int64_t seed) {
  int64_t at = p->l3, length = p->length, whole = p->at + length - at;
  const uint8_t *ip = memory + at;
  if (p->first_length != length || whole < 28) { drop(p, OTHER); return; }
  if (load16(ip - 2) != 0x0800 || p->routed == -1 || p->outer_ecn > 0) { drop(p, OTHER); return; }
  int64_t total = plain_total(ip, whole), protocol = ip[9], count = total - 20;
  uint32_t source = load32(ip + 12), target = load32(ip + 16);
  if (!is_host(source) || !is_host(target) || source == target) { drop(p, OTHER); return; }
  if (!is_sound(ip + 20, count, protocol)) { drop(p, OTHER); return; }
  int64_t ports = load32(ip + 20);
  p->family = 4;
  p->source_lo = 0xFFFF00000000ll | source;
  p->target_lo = 0xFFFF00000000ll | target;
  p->protocol = protocol;
  p->l4 = at + 20;
  p->l4_bytes = count;
  p->length = p->first_length = at + total - p->at;
  p->fragment = 0;
  p->ports = ports;
  int64_t key = ports << 32 | protocol << 24 | p->vni;
  p->hash = mixed5(0, 0xFFFF00000000ll | source, 0, 0xFFFF00000000ll | target, key, seed);
}

static inline void leave(uint8_t *memory, packet_t *p, const hop_t *hop, const uint8_t *templates) {
  if (p->at + p->length - p->l3 > hop->mtu_bytes || !hop->resolved || hop->kind != 2 || hop->template_bytes != 50) {
    drop(p, 35);
    return;
  }
  int64_t inner = p->l3 - 14, at = inner - 50;
  if (at < p->floor) { drop(p, 27); return; }
  int64_t more = p->at - at;
  p->at = at;
  p->length += more;
  p->first_length += more;
  uint8_t *frame = memory + inner, *outer = memory + at;
  if (p->routed != 0) {
    store64(frame, (uint64_t)hop->target_mac << 16 | (uint64_t)hop->source_mac >> 32);
    store32(frame + 8, (uint32_t)hop->source_mac);
    store16(frame + 12, 0x0800);
  }
  uint8_t service = memory[p->l3 + 1];
  const uint8_t *ready = templates + hop->template;
  uint32_t total = p->length - 14;
  memcpy(outer, ready, 50);
  outer[15] = service;
  store16(outer + 16, total);
  uint32_t sum = (uint32_t)(~load16(ready + 24) & 0xFFFF) + total + service;
  sum = (sum & 0xFFFF) + (sum >> 16);
  store16(outer + 24, ~(sum + (sum >> 16)));
  store16(outer + 34, 49152 | (p->hash & 0x3FFF));
  store16(outer + 38, total - 20);
  p->node = -2;
  p->out_port = hop->port;
}

void encapsulate_burst(uint8_t *memory, packet_t *packets, int64_t count, int64_t vni, const tables_t *t) {
  for (int64_t i = 0; i < count; i++) {
    packet_t *p = packets + i;
    p->l3 = p->at + 14;
    p->node = 0;
    p->routed = 1;
    p->vni = vni;
    read_headers(memory, p, 0);
    if (p->node) continue;
    int64_t row = row3(t->endpoints, t->endpoint_slots, vni, p->target_hi, p->target_lo);
    if (row == -1) drop(p, 10);
    else leave(memory, p, t->hops + row, t->templates);
  }
}

static inline void begin(packet_t *p) {
  p->reason = -1; p->out_port = -1; p->vni = 0; p->vpc = -1; p->l3 = p->at + 14; p->l4 = p->l3; p->l4_bytes = 0;
  p->family = 0; p->protocol = 0; p->fragment = 0; p->fragment_id = 0; p->source_hi = 0; p->source_lo = 0;
  p->target_hi = 0; p->target_lo = 0; p->ports = 0; p->hash = 0; p->outer_source = 0; p->outer_ecn = -1;
  p->connection = -1; p->next_hop = -1; p->translation = -1; p->source_hop = -1; p->routed = 1;
}

static inline void open_frame(uint8_t *memory, packet_t *p, const tables_t *t) {
  int64_t at = p->at, length = p->length;
  const uint8_t *frame = memory + at, *ip = frame + 14, *udp = ip + 20, *inner = frame + 50;
  const int64_t *port = t->ports + p->in_port * t->port_words;
  if (p->first_length != length || length < 64) { drop(p, OTHER); return; }
  if ((int64_t)(load64(frame) >> 16) != port[1] || load16(frame + 12) != 0x0800) { drop(p, OTHER); return; }
  int64_t total = plain_total(ip, length - 14), udp_bytes = load16(udp + 4), bytes = udp_bytes - 16;
  uint32_t source = load32(ip + 12), target = load32(ip + 16);
  if (target != port[2] || target == 0 || !t->own[OWN_ACTIVE_WORD]) { drop(p, OTHER); return; }
  if (ip[9] != 17 || load16(udp + 2) != 4789 || udp_bytes > total - 20) { drop(p, OTHER); return; }
  if (bytes < 14 || !(load32(udp + 8) & 0x08000000)) { drop(p, OTHER); return; }
  int64_t vni = load32(udp + 12) >> 8, vpc = row1(t->vnis, t->vni_slots, vni);
  if (vpc < 0 || row2(t->vteps, t->vtep_slots, vni, source) == -1) { drop(p, OTHER); return; }
  int64_t routed = (int64_t)(load64(inner) >> 16) == t->vpcs[vpc].gateway_mac ? 1 : inner[0] & 1 ? -1 : 0;
  int64_t ecn = ip[1] & 3;
  p->at = at + 50;
  p->length = p->first_length = bytes;
  begin(p);
  p->vni = vni;
  p->vpc = vpc;
  p->outer_source = source;
  p->outer_ecn = ecn;
  p->routed = routed;
}

void decapsulate_burst(uint8_t *memory, packet_t *packets, int64_t count, int64_t vni, const tables_t *t) {
  (void)vni;
  for (int64_t i = 0; i < count; i++) {
    packet_t *p = packets + i;
    p->node = 0;
    open_frame(memory, p, t);
  }
  for (int64_t i = 0; i < count; i++)
    if (packets[i].node == 0) read_headers(memory, packets + i, t->seed);
}

static inline const int64_t *bucket_of(const tables_t *t, int64_t hashed) {
  return t->slots + (hashed & (t->slot_count / 8 - 1)) * 8;
}

// Return the row that a lookup most likely finds, or -1; prefetch its two cache lines.
static inline int64_t look_further(const tables_t *t, int64_t hashed) {
  const int64_t *slots = bucket_of(t, hashed);
  int where = 0;
  for (int n = 0; n < 8; n++) where |= slots[n] >> 32 == hashed >> 32 ? n + 1 : 0;
  int64_t entry = slots[(where - 1) & 7];
  if (entry == 0 || entry >> 32 != hashed >> 32) return -1;
  const char *row = (const char *)(t->connections + (entry & 0xFFFFFFFF) - 1);
  __builtin_prefetch(row, 1, 3);
  __builtin_prefetch(row + 64, 1, 3);
  return (entry & 0xFFFFFFFF) - 1;
}

static inline int is_of(const connection_t *c, const packet_t *p, int64_t key) {
  return c->key == key && c->source_lo == p->source_lo && c->target_lo == p->target_lo &&
         c->source_hi == p->source_hi && c->target_hi == p->target_hi;
}

__attribute__((noinline)) static int64_t find(const tables_t *t, const packet_t *p, int64_t key) {
  int64_t hashed = mixed5(p->source_hi, p->source_lo, p->target_hi, p->target_lo, key, t->seed);
  for (int bucket = 0; bucket < 2; bucket++) {
    const int64_t *slots = t->slots + (hashed >> (bucket * 24) & (t->slot_count / 8 - 1)) * 8;
    for (int n = 0; n < 8 && slots[n]; n++) {
      if (slots[n] >> 32 != hashed >> 32) continue;
      int64_t row = (slots[n] & 0xFFFFFFFF) - 1;
      if (is_of(t->connections + row, p, key)) return row;
    }
  }
  return -1;
}

static inline void update_checksum(uint8_t *at, uint64_t change) {
  store16(at, ~folded((uint64_t)(~load16(at) & 0xFFFF) + change));
}

// Parse, find the connection, count, rewrite: translated UDP of an established connection.
void translate_burst(uint8_t *memory, packet_t *packets, int64_t count, int64_t vni, const tables_t *t, int64_t now_ns) {
  for (int64_t i = 0; i < count; i++) {
    packet_t *p = packets + i;
    p->l3 = p->at + 14;
    p->node = 0;
    p->routed = 1;
    p->vni = vni;
    read_headers(memory, p, t->seed);
  }
  for (int64_t i = 0; i < count; i++)
    if (packets[i].node == 0) __builtin_prefetch(bucket_of(t, packets[i].hash), 0, 3);
  for (int64_t i = 0; i < count; i++)
    if (packets[i].node == 0) packets[i].connection = look_further(t, packets[i].hash);
  for (int64_t i = 0; i < count; i++) {
    packet_t *p = packets + i;
    if (p->node) continue;
    int64_t row = p->connection, key = p->ports << 32 | p->protocol << 24 | p->vni;
    if (row < 0 || !is_of(t->connections + row, p, key)) row = find(t, p, key);
    p->connection = row;
    if (row == -1 || t->connections[row].generation != t->generation) { p->node = 2; continue; }
    connection_t *c = t->connections + row;
    p->next_hop = c->next_hop;
    p->translation = c->flags & TRANSLATED_FLAG ? row : -1;
    c->last_seen_ns = now_ns;
    c->packets++;
    p->node = 1;
  }
  for (int64_t i = 0; i < count; i++) {
    packet_t *p = packets + i;
    if (p->node != 1) continue;
    p->node = 3;
    if (p->translation < 0) continue;
    const connection_t *c = t->connections + p->translation;
    uint8_t *ip = memory + p->l3, *udp = memory + p->l4;
    uint32_t source = c->new_source_lo, target = c->new_target_lo, ports = c->new_ports;
    uint64_t change = (uint64_t)(uint32_t)~load32(ip + 12) + source + (uint32_t)~load32(ip + 16) + target;
    update_checksum(ip + 10, change);
    store32(ip + 12, source);
    store32(ip + 16, target);
    if (load16(udp + 6)) {
      change += (uint64_t)(uint32_t)~load32(udp) + ports;
      update_checksum(udp + 6, change);
      if (!load16(udp + 6)) store16(udp + 6, 0xFFFF);
    }
    store32(udp, ports);
  }
}

// Process all frames, burst by burst, as a port delivers them; `pristine` restores bytes changed by a rewrite.
void repeat(int64_t kind, uint8_t *memory, const uint8_t *pristine, const int64_t *starts, const int64_t *lengths,
            int64_t flows, packet_t *packets, int64_t rounds, int64_t vni, const tables_t *t, int64_t now_ns) {
  for (int64_t round = 0; round < rounds; round++)
    for (int64_t first = 0; first < flows; first += 64) {
      for (int64_t i = 0; i < 64; i++) {
        packet_t *p = packets + i;
        p->at = starts[first + i];
        p->length = p->first_length = lengths[first + i];
        p->floor = p->at - 256;
        p->in_port = 0;
        p->outer_ecn = -1;
        __builtin_prefetch(memory + p->at, 1, 3);
        __builtin_prefetch(memory + p->at + 64, 1, 3);
        if (kind == 2) memcpy(memory + p->at, pristine + p->at, 64);
      }
      if (kind == 0) encapsulate_burst(memory, packets, 64, vni, t);
      else if (kind == 1) decapsulate_burst(memory, packets, 64, vni, t);
      else translate_burst(memory, packets, 64, vni, t, now_ns);
    }
}
