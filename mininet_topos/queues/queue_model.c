/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The queue model of the lab's switch ports: two programs, attached by `attach.py` to both ends of every link.
 *
 *   switch port                                       far end (a switch port or a NIC)
 *   egress  -> classify, tail drop, ECN, enqueue      ingress -> dequeue; at a switch also: record the ingress port
 *
 * The bytes between the two are the queue depth: exactly what the port's tc classes hold, because of the link's rate or
 * of a pause.
 *
 * One program serves all ports: the filter's class id (`tc_classid`) selects the attachment.
 * The counters that a frame was added to are carried in skb->hash, which a veth pair preserves, also into another
 * network namespace: so a frame is subtracted from exactly the counters that it was added to.
 *
 *   hash:  0x4844 | slot of the ingress port (13 bits, all ones: unknown) | priority (3 bits)
 *
 * A drop returns TC_ACT_STOLEN and not TC_ACT_SHOT: on SHOT the kernel returns ENOBUFS to the sender, and Open vSwitch
 * then discards the rest of its batch, which no queue would count.
 */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static __attribute__((always_inline)) inline

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_LRU_HASH = 9, FLAG_NO_PREALLOC = 1, FLAG_MMAPABLE = 1 << 10 };
enum { ACT_OK = 0, ACT_STOLEN = 4 };
enum { ETHERNET_BYTES = 14, HEADER_BYTES = ETHERNET_BYTES + 20 + 4, ETH_IPV4 = 0x0800, ETH_MAC_CONTROL = 0x8808 };
enum { CE = 3, NO_EXIST = 1 };

#define NONE 0xffffffffu
#define PRIORITIES 8
#define CLASS_MAJOR 0x10000u
#define CLASS_MINOR 0x10u /* priority 3 is class 1:13 */
#define TAG 0x48440000u
#define TAG_MASK 0xffff0000u
#define TAG_UNKNOWN 0xfff8u

struct __sk_buff {
  u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority, ingress_ifindex,
      ifindex, tc_index, cb[5], hash, tc_classid, data, data_end;
};

/* The loader reads these definitions from the object; it sets the entries of `ports`, `limits` and `queues` itself. */
struct map {
  u32 type, key_bytes, value_bytes, entries, flags;
};

/* An attachment; queues are numbered slot * 8 + priority. */
struct port {
  u32 own;       /* first queue of the switch port that this is, or NONE at a NIC */
  u32 sender;    /* first queue of the switch port at the far end of the link, or NONE if that is a NIC */
  u32 switch_id; /* numbers from 1 */
  u32 unused;
};

struct limit {
  u32 kmin_bytes, kmax_bytes;
  u32 pmax;            /* in 65,536ths; 0 and kmin at its largest: no marking */
  u32 queue_bytes;     /* limit of the egress queue */
  u32 arrival_bytes;   /* limit of the ingress occupancy: bytes in the switch that arrived at this port and priority */
  u32 frame_bytes;     /* larger frames are dropped: the tc class would lose them uncounted; 0: all, for the watchdog */
};

struct queue {
  u64 enqueued_bytes, dequeued_bytes, written_off_bytes; /* depth = first - others */
  u64 sent_packets, marked_packets, dropped_packets, dropped_bytes, max_depth_bytes;
  u64 received_packets, received_bytes;
  u64 arrived_bytes, departed_bytes, arrived_written_off_bytes; /* ingress occupancy = first - others */
  u64 max_ingress_bytes, headroom_drops, enqueued_packets;
};

struct classes {
  u8 priority_of_dscp[64];
};

struct stream {
  u32 switch_id, source, destination, ports;
};

/* The bytes that went from one ingress port to one egress queue of a switch: what of a queue each ingress port counts.
 * The PFC watchdog needs it to discard a queue; see `discards.py`. */
struct crossing {
  u32 arrival, departure; /* queues: where the bytes are counted as ingress occupancy, and where they wait */
};

struct crossed {
  u64 entered_bytes, left_bytes;
};

struct map ports SECTION("maps") = {MAP_ARRAY, sizeof(u32), sizeof(struct port), 1, 0};
struct map limits SECTION("maps") = {MAP_ARRAY, sizeof(u32), sizeof(struct limit), 1, 0};
struct map queues SECTION("maps") = {MAP_ARRAY, sizeof(u32), sizeof(struct queue), 1, FLAG_MMAPABLE};
struct map classes SECTION("maps") = {MAP_ARRAY, sizeof(u32), sizeof(struct classes), 1, 0};
struct map arrivals SECTION("maps") = {MAP_LRU_HASH, sizeof(struct stream), sizeof(u32), 65536, 0};
struct map crossings SECTION("maps") = {MAP_HASH, sizeof(struct crossing), sizeof(struct crossed), 1 << 20, FLAG_NO_PREALLOC};

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u32 (*random_u32)(void) = (void *)7;
static long (*pull_data)(struct __sk_buff *frame, u32 bytes) = (void *)39;
static u32 (*set_hash)(struct __sk_buff *frame, u32 hash) = (void *)48;
static long (*set_congestion_experienced)(struct __sk_buff *frame) = (void *)97;

#define add(counter, number) ((void)__sync_fetch_and_add(&(counter), (number)))

/* Frames larger than a page have 14 linear bytes: the headers must be pulled in before they can be read. */
INLINE u8 *headers(struct __sk_buff *frame, u32 bytes)
{
  u8 *data = (u8 *)(long)frame->data;
  if (data + bytes <= (u8 *)(long)frame->data_end)
    return data;
  if (frame->len < bytes || pull_data(frame, bytes))
    return 0;
  data = (u8 *)(long)frame->data;
  return data + bytes <= (u8 *)(long)frame->data_end ? data : 0;
}

INLINE u32 ethertype(u8 *data)
{
  return data[12] << 8 | data[13];
}

INLINE void read_stream(struct stream *stream, u8 *data, u32 switch_id)
{
  stream->switch_id = switch_id;
  __builtin_memcpy(&stream->source, data + 26, 4);
  __builtin_memcpy(&stream->destination, data + 30, 4);
  __builtin_memcpy(&stream->ports, data + 34, 4);
}

INLINE u32 priority_of(u8 *data)
{
  u32 zero = 0;
  struct classes *found = map_lookup(&classes, &zero);
  return found ? found->priority_of_dscp[data[15] >> 2] & (PRIORITIES - 1) : 0;
}

INLINE struct crossed *crossed_from(u32 arrival, u32 departure)
{
  struct crossing key = {arrival, departure};
  struct crossed *found = map_lookup(&crossings, &key);
  if (found)
    return found;
  struct crossed none = {0, 0};
  map_update(&crossings, &key, &none, NO_EXIST);
  return map_lookup(&crossings, &key);
}

INLINE u64 level(u64 in, u64 out, u64 written_off)
{
  long long rest = in - out - written_off;
  return rest < 0 ? 0 : rest;
}

/* RED on the current queue length, as in RoCE switches: none below kmin, linear up to pmax at kmax, then all. */
INLINE int marks(struct limit *limit, u64 depth)
{
  if (depth <= limit->kmin_bytes || limit->pmax == 0)
    return 0;
  if (depth >= limit->kmax_bytes)
    return 1;
  u64 chance = (depth - limit->kmin_bytes) * limit->pmax / (limit->kmax_bytes - limit->kmin_bytes + 1);
  return (random_u32() & 0xffff) < chance;
}

SECTION("tc/egress") int egress(struct __sk_buff *frame)
{
  u32 attachment = frame->tc_classid, priority = 0, tag = TAG_UNKNOWN;
  struct port *port = map_lookup(&ports, &attachment);
  if (!port || port->own == NONE)
    return ACT_OK;
  u8 *data = headers(frame, ETHERNET_BYTES);
  if (data && ethertype(data) == ETH_MAC_CONTROL)
    return ACT_OK; /* the kick frame of tx_pause.py: it has its own class and never reaches the wire */
  struct queue *arrival = 0;
  struct limit *arrival_limit = 0;
  u32 ecn = 0, arrival_number = NONE;
  if (data && ethertype(data) == ETH_IPV4 && (data = headers(frame, HEADER_BYTES))) {
    struct stream stream;
    priority = priority_of(data);
    ecn = data[15] & CE;
    read_stream(&stream, data, port->switch_id);
    u32 *first = map_lookup(&arrivals, &stream);
    if (first) {
      arrival_number = *first + priority;
      arrival = map_lookup(&queues, &arrival_number);
      arrival_limit = map_lookup(&limits, &arrival_number);
      tag = *first & TAG_UNKNOWN;
    }
  }
  u32 number = port->own + priority;
  struct queue *queue = map_lookup(&queues, &number);
  struct limit *limit = map_lookup(&limits, &number);
  if (!queue || !limit)
    return ACT_OK;
  u64 bytes = frame->len, depth = level(queue->enqueued_bytes, queue->dequeued_bytes, queue->written_off_bytes);
  u64 inside = 0;
  if (arrival && arrival_limit) {
    inside = level(arrival->arrived_bytes, arrival->departed_bytes, arrival->arrived_written_off_bytes) + bytes;
    if (inside > arrival_limit->arrival_bytes) {
      add(arrival->headroom_drops, 1);
      goto drop;
    }
  }
  if (depth + bytes > limit->queue_bytes || bytes > limit->frame_bytes)
    goto drop;
  if (ecn && ecn != CE && marks(limit, depth) && set_congestion_experienced(frame) == 1)
    add(queue->marked_packets, 1);
  if (depth + bytes > queue->max_depth_bytes)
    queue->max_depth_bytes = depth + bytes;
  add(queue->enqueued_bytes, bytes);
  add(queue->enqueued_packets, 1);
  if (arrival) {
    add(arrival->arrived_bytes, bytes);
    if (inside > arrival->max_ingress_bytes)
      arrival->max_ingress_bytes = inside;
    struct crossed *crossed = crossed_from(arrival_number, number);
    if (crossed)
      add(crossed->entered_bytes, bytes);
  }
  frame->priority = CLASS_MAJOR + CLASS_MINOR + priority;
  set_hash(frame, TAG | tag | priority);
  return ACT_OK;
drop:
  add(queue->dropped_packets, 1);
  add(queue->dropped_bytes, bytes);
  return ACT_STOLEN;
}

SECTION("tc/ingress") int ingress(struct __sk_buff *frame)
{
  u32 attachment = frame->tc_classid, tag = frame->hash;
  struct port *port = map_lookup(&ports, &attachment);
  if (!port)
    return ACT_OK;
  u64 bytes = frame->len;
  if (port->sender != NONE && (tag & TAG_MASK) == TAG) {
    u32 priority = tag & (PRIORITIES - 1), first = tag & TAG_UNKNOWN, sender = port->sender + priority, number = sender;
    struct queue *queue = map_lookup(&queues, &number);
    if (queue) {
      add(queue->dequeued_bytes, bytes);
      add(queue->sent_packets, 1);
    }
    number = first + priority;
    if (first != TAG_UNKNOWN && (queue = map_lookup(&queues, &number))) {
      add(queue->departed_bytes, bytes);
      struct crossed *crossed = crossed_from(number, sender);
      if (crossed)
        add(crossed->left_bytes, bytes);
    }
  }
  if (port->own == NONE)
    return ACT_OK;
  u8 *data = headers(frame, ETHERNET_BYTES);
  if (!data || ethertype(data) == ETH_MAC_CONTROL)
    return ACT_OK;
  u32 number = port->own;
  if (ethertype(data) == ETH_IPV4 && (data = headers(frame, HEADER_BYTES))) {
    struct stream stream;
    u32 first = port->own;
    number += priority_of(data);
    read_stream(&stream, data, port->switch_id);
    u32 *known = map_lookup(&arrivals, &stream);
    if (!known || *known != first)
      map_update(&arrivals, &stream, &first, 0);
  }
  struct queue *queue = map_lookup(&queues, &number);
  if (queue) {
    add(queue->received_packets, 1);
    add(queue->received_bytes, bytes);
  }
  return ACT_OK;
}

char license_text[] SECTION("license") = "Dual MIT/GPL";
