/*
 * nat.c: a function of a chain, in C: each address of a network inside is seen outside as the one
 * at the same place of another network, and back (what iptables calls NETMAP).
 *
 *   cc -O2 -shared -fPIC -I crates/functions/plugin/include examples/nat.c -o nat.so
 *
 *   [[function]]
 *   kind = "shared-object"
 *   file = "nat.so"
 *   arguments = ["eth2", "10.1.0.0", "192.0.2.0", "24"]     outside, network inside and outside, bits
 *
 * Put it before a router. IPv4 only; what ICMP errors quote stays as it is.
 */
#include <arpa/inet.h>
#include <calisto_function.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct nat {
  int outside;
  uint32_t inside_network, outside_network, hosts;
  uint64_t out, in;
};

static void *make(const struct calisto_function_host *host, size_t count,
                  const char *const *arguments, char *error, size_t error_bytes) {
  struct in_addr inside, outside;
  struct nat *nat;
  int bits;
  if (count != 4 || !inet_aton(arguments[1], &inside) || !inet_aton(arguments[2], &outside) ||
      (bits = atoi(arguments[3])) < 1 || bits > 32) {
    snprintf(error, error_bytes, "its arguments are a port, two networks, and bits from 1 to 32");
    return NULL;
  }
  nat = calloc(1, sizeof *nat);
  if (!nat)
    return NULL;
  nat->outside = host->port(host->chain, arguments[0]);
  if (nat->outside < 0) {
    snprintf(error, error_bytes, "%s is no port of the chain", arguments[0]);
    free(nat);
    return NULL;
  }
  nat->hosts = (uint32_t)((1ull << (32 - bits)) - 1);
  nat->inside_network = ntohl(inside.s_addr) & ~nat->hosts;
  nat->outside_network = ntohl(outside.s_addr) & ~nat->hosts;
  return nat;
}

/* RFC 1624: what a checksum becomes when four of the bytes that it covers change. */
static void update(uint8_t *sum, uint32_t old, uint32_t new) {
  uint32_t total = (uint16_t)~(sum[0] << 8 | sum[1]);
  total += (uint16_t)~(old >> 16) + (uint16_t)~old + (new >> 16) + (new & 0xffff);
  total = (total & 0xffff) + (total >> 16);
  total = (total & 0xffff) + (total >> 16);
  sum[0] = (uint8_t)(~total >> 8);
  sum[1] = (uint8_t)~total;
}

/* Changes the address at `at` of an IPv4 header, if it is of the one network; whether it was. */
static int translate(struct calisto_function_packet *packet, unsigned at, uint32_t from,
                     uint32_t to, uint32_t hosts) {
  uint8_t *ip = packet->data + 14, *sum = NULL;
  uint32_t address, translated, header;
  if (packet->len < 34 || packet->data[12] != 8 || packet->data[13] != 0 || ip[0] >> 4 != 4)
    return 0;
  memcpy(&address, ip + at, 4);
  address = ntohl(address);
  if ((address & ~hosts) != from)
    return 0;
  translated = to | (address & hosts);
  header = (ip[0] & 15) * 4u;
  update(ip + 10, address, translated);
  /* Pieces after the first one have no checksum of their own. */
  if (((ip[6] & 0x1f) | ip[7]) == 0) {
    if (ip[9] == 6 && packet->len >= 14 + header + 18)
      sum = ip + header + 16;
    else if (ip[9] == 17 && packet->len >= 14 + header + 8 && (ip[header + 6] | ip[header + 7]))
      sum = ip + header + 6;
  }
  if (sum) {
    update(sum, address, translated);
    if (ip[9] == 17 && !(sum[0] | sum[1]))
      sum[0] = sum[1] = 0xff;
  }
  translated = htonl(translated);
  memcpy(ip + at, &translated, 4);
  return 1;
}

static void process(void *state, struct calisto_function_packet *packets, size_t count,
                    uint64_t now_ns) {
  struct nat *nat = state;
  size_t i;
  (void)now_ns;
  for (i = 0; i < count; i++)
    if (packets[i].port == nat->outside)
      nat->in += translate(&packets[i], 16, nat->outside_network, nat->inside_network, nat->hosts);
}

static void leave(void *state, struct calisto_function_packet *packets, size_t count,
                  uint64_t now_ns) {
  struct nat *nat = state;
  size_t i;
  (void)now_ns;
  for (i = 0; i < count; i++)
    if (packets[i].port == nat->outside)
      nat->out += translate(&packets[i], 12, nat->inside_network, nat->outside_network, nat->hosts);
}

static void read_counters(const void *state, uint64_t *values) {
  const struct nat *nat = state;
  values[0] = nat->out;
  values[1] = nat->in;
}

static void take_over(void *state, void *before) {
  struct nat *nat = state, *old = before;
  nat->out = old->out;
  nat->in = old->in;
}

static const struct calisto_function_counter counters[] = {
    {"translated_out", "Packets that left with an address of the network outside."},
    {"translated_in", "Packets that came to an address of it."},
};

const struct calisto_function *calisto_function_1(void) {
  static const struct calisto_function function = {
      CALISTO_FUNCTION_VERSION, 2, counters, make, process, leave, read_counters, take_over, free,
  };
  return &function;
}
