/* Counts what the sockets of each domain send and receive, and stops it at the byte.
 *
 * Built on the kernel's UAPI headers alone, so it loads on kernels that carry no type information.
 * A packet is charged to every domain that its socket's group is beneath, from the top down.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "domains.h"

#define PASS 1
#define DROP 0
#define LOOPBACK 1 /* the index of that device in every network namespace */
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17

char LICENSE[] SEC("license") = "GPL";

/* Whom a domain has sent datagrams to, so that each is told of once. */
struct meeting {
	__u64 domain;
	struct peer peer;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct meeting);
	__type(value, __u8);
} met SEC(".maps");

/* Read whom a packet is for from its own headers: a datagram's socket need not know. */
static __always_inline void read_peer(struct __sk_buff *skb, struct peer *peer)
{
	__u8 first = 0, protocol = 0;
	__u32 ports = 0;
	__be16 port = 0;

	bpf_skb_load_bytes(skb, 0, &first, 1);
	if (first >> 4 == 4) {
		peer->family = FAMILY_INET;
		bpf_skb_load_bytes(skb, 9, &protocol, 1);
		bpf_skb_load_bytes(skb, 16, peer->address, 4);
		ports = (first & 15) * 4;
	} else {
		peer->family = FAMILY_INET6;
		bpf_skb_load_bytes(skb, 6, &protocol, 1);
		bpf_skb_load_bytes(skb, 24, peer->address, 16);
		ports = 40;
	}
	peer->protocol = protocol;
	if (protocol == PROTOCOL_TCP || protocol == PROTOCOL_UDP) {
		bpf_skb_load_bytes(skb, ports + 2, &port, 2);
		peer->port = bpf_ntohs(port);
	}
}

/* Charge a domain for one packet unless that would go over its limit. */
static __always_inline int take(struct domain *domain, __u64 bytes)
{
	__u64 before;

	if (domain->over == 1)
		return 0;
	/* First taken, then looked at: two processors cannot both fit into the last room. */
	before = __sync_fetch_and_add(&domain->egress_bytes, bytes);
	if (before + bytes <= domain->egress_limit) {
		add(&domain->egress_packets, 1);
		return 1;
	}
	add(&domain->egress_bytes, -bytes);
	return 0;
}

static __always_inline void give_back(struct domain *domain, __u64 bytes)
{
	add(&domain->egress_bytes, -bytes);
	add(&domain->egress_packets, -1);
}

static __always_inline void refuse(struct domain *domain, struct __sk_buff *skb, __u16 over)
{
	if (!domain->over) {
		domain->over = over;
		read_peer(skb, &domain->refused);
	}
	add(&domain->refused_bytes, skb->len);
	add(&domain->refused_packets, 1);
}

SEC("cgroup_skb/egress")
int count_egress(struct __sk_buff *skb)
{
	struct domain *chain[LEVELS] = {};
	struct domain *deepest = 0;
	struct config *settings = the_config();
	int is_loopback = skb->ifindex == LOOPBACK;
	__u64 bytes = skb->len;
	int stopped = LEVELS;

	if (!settings)
		return PASS;
#pragma unroll
	for (int step = 0; step < LEVELS; step++) {
		__u64 id = 0;

		id = bpf_skb_ancestor_cgroup_id(skb, settings->first_level + step);
		if (!id)
			break;
		chain[step] = bpf_map_lookup_elem(&domains, &id);
		if (chain[step])
			deepest = chain[step];
	}
	if (!deepest)
		return PASS;
	if (deepest->is_shut)
		return DROP;
	if (is_loopback && settings->free_loopback) {
#pragma unroll
		for (int step = 0; step < LEVELS; step++)
			if (chain[step])
				add(&chain[step]->loopback_bytes, bytes);
		return PASS;
	}
#pragma unroll
	for (int step = 0; step < LEVELS; step++) {
		if (stopped == LEVELS && chain[step] && !take(chain[step], bytes)) {
			stopped = step;
			refuse(chain[step], skb, 1);
			if (deepest != chain[step])
				refuse(deepest, skb, 2);
		}
	}
	if (stopped == LEVELS) {
#pragma unroll
		for (int step = 0; step < LEVELS; step++)
			if (is_loopback && chain[step])
				add(&chain[step]->loopback_bytes, bytes);
		return PASS;
	}
#pragma unroll
	for (int step = 0; step < LEVELS; step++)
		if (step < stopped && chain[step])
			give_back(chain[step], bytes);
	return DROP;
}

SEC("cgroup_skb/ingress")
int count_ingress(struct __sk_buff *skb)
{
	struct config *settings = the_config();

	if (!settings)
		return PASS;
#pragma unroll
	for (int step = 0; step < LEVELS; step++) {
		struct domain *domain;
		__u64 id = 0;

		id = bpf_skb_ancestor_cgroup_id(skb, settings->first_level + step);
		if (!id)
			break;
		domain = bpf_map_lookup_elem(&domains, &id);
		if (!domain)
			continue;
		add(&domain->ingress_bytes, skb->len);
		add(&domain->ingress_packets, 1);
	}
	return PASS;
}

/* Count a connection and tell of it. */
static __always_inline void connected(struct peer *peer, __u32 kind)
{
	struct config *settings = the_config();
	struct domain *domain = 0;
	struct record *record;
	__u64 id = 0;

	if (!settings)
		return;
	if (kind == KIND_SEND) {
		struct meeting meeting = {};
		__u8 yes = 1;

		FOR_EACH_DOMAIN_OF_CURRENT(settings, id, domain, );
		if (!domain)
			return;
		meeting.domain = id;
		meeting.peer = *peer;
		if (bpf_map_lookup_elem(&met, &meeting))
			return;
		bpf_map_update_elem(&met, &meeting, &yes, BPF_ANY);
	}
	FOR_EACH_DOMAIN_OF_CURRENT(settings, id, domain, add(&domain->connections, 1));
	if (!domain)
		return;
	record = a_record(domain, id, kind);
	if (!record)
		return;
	record->peer = *peer;
	record->pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

static __always_inline void connected4(struct bpf_sock_addr *to, __u32 kind)
{
	struct peer peer = {.family = FAMILY_INET, .protocol = to->protocol};
	__u32 address = to->user_ip4;

	__builtin_memcpy(peer.address, &address, sizeof(address));
	peer.port = bpf_ntohs((__u16)to->user_port);
	connected(&peer, kind);
}

static __always_inline void connected6(struct bpf_sock_addr *to, __u32 kind)
{
	struct peer peer = {.family = FAMILY_INET6, .protocol = to->protocol};
	__u32 address[4] = {to->user_ip6[0], to->user_ip6[1], to->user_ip6[2], to->user_ip6[3]};

	__builtin_memcpy(peer.address, address, sizeof(address));
	peer.port = bpf_ntohs((__u16)to->user_port);
	connected(&peer, kind);
}

SEC("cgroup/connect4")
int count_connect4(struct bpf_sock_addr *to)
{
	connected4(to, KIND_CONNECT);
	return PASS;
}

SEC("cgroup/connect6")
int count_connect6(struct bpf_sock_addr *to)
{
	connected6(to, KIND_CONNECT);
	return PASS;
}

SEC("cgroup/sendmsg4")
int count_sendmsg4(struct bpf_sock_addr *to)
{
	connected4(to, KIND_SEND);
	return PASS;
}

SEC("cgroup/sendmsg6")
int count_sendmsg6(struct bpf_sock_addr *to)
{
	connected6(to, KIND_SEND);
	return PASS;
}

/* What the programs that are not attached are asked, and answer, when they are run once. */
struct question {
	__u64 group;
	__u32 level; /* the answer: how deep below the root the group is, or LEVEL_NOT_FOUND */
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct question);
} question SEC(".maps");

/* In a namespace of control groups nobody else tells how deep one is. It is looked for among the
 * groups above the process that has this run, for that is whose the made-up packet is.
 */
SEC("cgroup_skb/egress")
int find_level(struct __sk_buff *skb)
{
	__u32 only = 0;
	struct question *asked = bpf_map_lookup_elem(&question, &only);

	if (!asked)
		return PASS;
	asked->level = LEVEL_NOT_FOUND;
	for (int level = 0; level < LEVEL_NOT_FOUND; level++) {
		if (bpf_skb_ancestor_cgroup_id(skb, level) == asked->group) {
			asked->level = level;
			break;
		}
	}
	return PASS;
}

/* Written here, because from outside a whole entry is written, and what was counted since it was
 * read would be lost.
 */
SEC("cgroup_skb/egress")
int shut_domain(struct __sk_buff *skb)
{
	__u32 only = 0;
	struct question *asked = bpf_map_lookup_elem(&question, &only);
	struct domain *domain;

	if (!asked)
		return PASS;
	domain = bpf_map_lookup_elem(&domains, &asked->group);
	if (domain)
		domain->is_shut = 1;
	return PASS;
}
