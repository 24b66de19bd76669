// The same work as the gateway's kernels, on the same rows and tables, as a C programmer would write it: the measure
// of what compiling Python costs. Rows are structs whose fields come from the Python types (FIELDS headers on the
// command line), so both sides read one layout. UDP over IPv4 alone: what the benchmark sends.
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
  int64_t generation;
} tables_t;

static inline uint16_t load16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return __builtin_bswap16(v); }
static inline uint32_t load32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }
static inline uint64_t load64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return __builtin_bswap64(v); }
static inline uint32_t native32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }
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
static inline int64_t mixed5(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) {
  uint64_t x = ((uint64_t)a * GOLDEN) ^ ((uint64_t)b * MIX), y = ((uint64_t)c * MIX) ^ ((uint64_t)d * GOLDEN);
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

// Bytes of a sound header of 20 (others: -1), as the kernels check it.
static inline int64_t header_of(const uint8_t *ip, int64_t there, int64_t whole) {
  if (there < 20) return -1;
  uint32_t first = load32(ip);
  int64_t header = first >> 22 & 0x3C, total = first & 0xFFFF;
  if (first >> 28 != 4 || header != 20 || total < header || total > whole) return -1;
  uint64_t sum = (uint64_t)native32(ip) + native32(ip + 4) + native32(ip + 8) + native32(ip + 12) + native32(ip + 16);
  return folded(sum) == 0xFFFF ? header : -1;
}

static inline int many(uint32_t a) { return a >> 28 == 14 || a == 0xFFFFFFFF; }
static inline int no_source(uint32_t a) { return a >> 24 == 0 || a >> 24 == 127 || a >> 24 >= 224; }
static inline int no_target(uint32_t a) { return a >> 24 == 0 || a >> 24 == 127 || (a >> 24 >= 240 && a != 0xFFFFFFFF); }

static inline void read_headers(uint8_t *memory, packet_t *p) {
  uint8_t *ip = memory + p->l3;
  if (load16(ip - 2) != 0x0800) { drop(p, 3); return; }
  int64_t header = header_of(ip, p->at + p->first_length - p->l3, p->at + p->length - p->l3);
  if (header < 0) { drop(p, 1); return; }
  uint32_t source = load32(ip + 12), target = load32(ip + 16);
  p->family = 4;
  p->source_lo = 0xFFFF00000000ll | source;
  p->target_lo = 0xFFFF00000000ll | target;
  p->protocol = ip[9];
  p->l4 = p->l3 + header;
  p->l4_bytes = load16(ip + 2) - header;
  int64_t length = p->l4 + p->l4_bytes - p->at;
  if (p->first_length == p->length) p->first_length = p->length = length;
  else if (p->length != length) { drop(p, 1); return; }
  if (many(target) || p->routed == -1) { drop(p, 29); return; }
  if (no_source(source) || no_target(target) || source == target) { drop(p, 30); return; }
  uint16_t word = load16(ip + 6);
  p->fragment = 0;
  if (word & 0x3FFF) { drop(p, 35); return; }
  if (p->outer_ecn > 0) { drop(p, 35); return; }
  const uint8_t *udp = memory + p->l4;
  if (p->protocol != 17) { drop(p, 35); return; }
  if (p->l4_bytes < 8 || p->l4 + 8 > p->at + p->first_length) { drop(p, 0); return; }
  uint16_t udp_length = load16(udp + 4);
  if (udp_length < 8 || udp_length > p->l4_bytes) { drop(p, 1); return; }
  p->ports = load32(udp);
  p->hash = mixed5(p->source_hi, p->source_lo, p->target_hi, p->target_lo, p->ports << 8 | p->protocol);
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
  store16(outer + 24, ~folded((uint64_t)(~load16(ready + 24) & 0xFFFF) + total + service));
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
    read_headers(memory, p);
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
  uint8_t *frame = memory + p->at, *ip = frame + 14;
  const int64_t *port = t->ports + p->in_port * t->port_words;
  if (p->first_length < 14) { drop(p, 0); return; }
  if (frame[0] & 1 || (int64_t)(load64(frame) >> 16) != port[1]) { drop(p, 4); return; }
  if (load16(frame + 12) != 0x0800) { drop(p, 3); return; }
  int64_t header = header_of(ip, p->first_length - 14, p->length - 14);
  if (header < 0) { drop(p, 1); return; }
  uint32_t target = load32(ip + 16);
  if (target == 0 || (target != port[2] && target != t->own[OWN_TAKEN])) { drop(p, 4); return; }
  int64_t udp = p->l3 + header, count = load16(ip + 2) - header, there = p->at + p->first_length - udp;
  const uint8_t *u = memory + udp;
  if (ip[9] != 17 || load16(ip + 6) & 0x3FFF || count < 16 || there < 16 || load16(u + 2) != 4789 ||
      !t->own[OWN_ACTIVE_WORD]) { drop(p, 5); return; }
  uint16_t length = load16(u + 4);
  if (length < 16 || length > count || !(load32(u + 8) & 0x08000000)) { drop(p, 5); return; }
  int64_t vni = load32(u + 12) >> 8, vpc = row1(t->vnis, t->vni_slots, vni);
  if (vpc == -1) { drop(p, 6); return; }
  uint32_t source = load32(ip + 12);
  if (row2(t->vteps, t->vtep_slots, vni, source) == -1) { drop(p, 7); return; }
  p->outer_source = source;
  p->outer_ecn = ip[1] & 3;
  p->vni = vni;
  p->vpc = vpc;
  int64_t inner = udp + 16, taken = inner - p->at, bytes = length - 16;
  if (bytes < 14 || p->first_length - taken < 14) { drop(p, 0); return; }
  if (p->length == p->first_length) p->first_length = bytes;
  else if (p->length - taken == bytes) p->first_length -= taken;
  else { drop(p, 5); return; }
  p->length = bytes;
  p->at = inner;
  p->l3 = inner + 14;
  if ((int64_t)(load64(memory + inner) >> 16) != t->vpcs[vpc].gateway_mac) p->routed = memory[inner] & 1 ? -1 : 0;
}

void decapsulate_burst(uint8_t *memory, packet_t *packets, int64_t count, int64_t vni, const tables_t *t) {
  (void)vni;
  for (int64_t i = 0; i < count; i++) {
    packet_t *p = packets + i;
    p->node = 0;
    begin(p);
    open_frame(memory, p, t);
  }
  for (int64_t i = 0; i < count; i++)
    if (packets[i].node == 0) read_headers(memory, packets + i);
}

static inline int64_t find(const tables_t *t, const packet_t *p, int64_t key) {
  int64_t hashed = mixed5(p->source_hi, p->source_lo, p->target_hi, p->target_lo, key);
  for (int bucket = 0; bucket < 2; bucket++) {
    const int64_t *slots = t->slots + (hashed >> (bucket * 24) & (t->slot_count / 8 - 1)) * 8;
    for (int n = 0; n < 8 && slots[n]; n++) {
      if (slots[n] >> 32 != hashed >> 32) continue;
      int64_t row = (slots[n] & 0xFFFFFFFF) - 1;
      const connection_t *c = t->connections + row;
      if (c->key == key && c->source_lo == p->source_lo && c->target_lo == p->target_lo &&
          c->source_hi == p->source_hi && c->target_hi == p->target_hi)
        return row;
    }
  }
  return -1;
}

static inline void mend(uint8_t *at, uint64_t change) {
  store16(at, ~folded((uint64_t)(~load16(at) & 0xFFFF) + change));
}

// Read, find the connection, count, rewrite: UDP that is translated and was answered before.
void translate_burst(uint8_t *memory, packet_t *packets, int64_t count, int64_t vni, const tables_t *t, int64_t now_ns) {
  for (int64_t i = 0; i < count; i++) {
    packet_t *p = packets + i;
    p->l3 = p->at + 14;
    p->node = 0;
    p->routed = 1;
    p->vni = vni;
    read_headers(memory, p);
  }
  for (int64_t i = 0; i < count; i++) {
    packet_t *p = packets + i;
    if (p->node) continue;
    int64_t row = find(t, p, p->ports << 32 | p->protocol << 24 | p->vni);
    p->connection = row;
    if (row == -1 || t->connections[row].generation != t->generation) { p->node = 2; continue; }
    connection_t *c = t->connections + row;
    p->next_hop = c->next_hop;
    p->translation = c->flags & TRANSLATED_FLAG ? row : -1;
    c->last_seen_ns = now_ns;
    c->packets++;
    c->bytes += p->length;
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
    mend(ip + 10, change);
    store32(ip + 12, source);
    store32(ip + 16, target);
    if (load16(udp + 6)) {
      change += (uint64_t)(uint32_t)~load32(udp) + ports;
      mend(udp + 6, change);
      if (!load16(udp + 6)) store16(udp + 6, 0xFFFF);
    }
    store32(udp, ports);
  }
}

// All frames, burst by burst, as a port would hand them over; `pristine` restores what a rewrite changed.
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
        if (kind == 2) memcpy(memory + p->at, pristine + p->at, 64);
      }
      if (kind == 0) encapsulate_burst(memory, packets, 64, vni, t);
      else if (kind == 1) decapsulate_burst(memory, packets, 64, vni, t);
      else translate_burst(memory, packets, 64, vni, t, now_ns);
    }
}
