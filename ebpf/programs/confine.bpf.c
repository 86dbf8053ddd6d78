// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Where the processes of a domain may connect, send, listen, and which devices they may open.
 *
 * One set of maps serves all domains: every key begins with the id of the domain's control
 * group. A domain that the maps do not know is one that may reach nothing. Headers of the
 * user-space API alone are used, so this loads on kernels without type information.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ALLOW 1
#define REFUSE 0

#define DOMAINS_MAX 4096
#define PLACES_MAX 65536
#define DENIED_MAX 4096

#define STREAM 1
#define DATAGRAM 2
#define MPTCP 262
#define FRAGMENT_OFFSET 0x1fff
/* The bits of the domain and the port, which come before the address. */
#define BITS_BEFORE 80
#define BITS_WHOLE (BITS_BEFORE + 128)

enum kind { CONNECT = 1, SEND = 2, LISTEN = 3, PACKET = 4, SOCKET = 5, DEVICE = 6 };

/* An address of IPv4 is written as IPv6 does: ::ffff:a.b.c.d. Port 0 stands for all. */
struct address {
	__u32 words[4];
};

struct place {
	__u32 bits;
	__u64 domain;
	__u16 port;
	struct address address;
} __attribute__((packed));

struct denied {
	__u64 domain;
	struct address address;
	__u16 port;
	__u8 kind;
	__u8 unused[5];
};

struct attempts {
	__u64 count;
	char program[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PLACES_MAX);
	__type(key, struct place);
	__type(value, __u8);
} places SEC(".maps");

/* The last of the places that were refused; how many refusals there were is in `denials`. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, DENIED_MAX);
	__type(key, struct denied);
	__type(value, struct attempts);
} denied SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DOMAINS_MAX);
	__type(key, __u64);
	__type(value, __u64);
} denials SEC(".maps");

static __always_inline int refuse(const struct denied *what, int has_caller)
{
	struct attempts first = {.count = 1};
	struct attempts *seen;
	__u64 *total;

	total = bpf_map_lookup_elem(&denials, &what->domain);
	if (total)
		__sync_fetch_and_add(total, 1);
	seen = bpf_map_lookup_elem(&denied, what);
	if (seen) {
		__sync_fetch_and_add(&seen->count, 1);
		return REFUSE;
	}
	if (has_caller)
		bpf_get_current_comm(first.program, sizeof(first.program));
	bpf_map_update_elem(&denied, what, &first, BPF_ANY);
	return REFUSE;
}

static __always_inline int is_allowed(__u64 domain, const struct address *address, __u16 port)
{
	struct place place = {
		.bits = BITS_WHOLE,
		.domain = domain,
		.port = port,
		.address = *address,
	};

	if (bpf_map_lookup_elem(&places, &place))
		return 1;
	place.port = 0;
	return bpf_map_lookup_elem(&places, &place) != 0;
}

static __always_inline struct address mapped(__u32 ip4)
{
	struct address address = {{0, 0, bpf_htonl(0xffff), ip4}};

	return address;
}

static __always_inline int is_loopback(const struct address *address)
{
	const __u32 *words = address->words;

	if (words[0] || words[1])
		return 0;
	if (words[2] == bpf_htonl(0xffff))
		return (words[3] & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000);
	return !words[2] && words[3] == bpf_htonl(1);
}

static __always_inline int reach(struct address address, __u32 port, __u8 kind)
{
	struct denied what = {
		.domain = bpf_get_current_cgroup_id(),
		.address = address,
		.port = (__u16)port,
		.kind = kind,
	};

	if (is_allowed(what.domain, &what.address, what.port))
		return ALLOW;
	return refuse(&what, 1);
}

/* Others are let in on the loopback alone. What the kernel chooses a port for is a client. */
static __always_inline int listen(struct address address, __u32 port)
{
	struct denied what = {
		.domain = bpf_get_current_cgroup_id(),
		.address = address,
		.port = (__u16)port,
		.kind = LISTEN,
	};

	if (!port)
		return ALLOW;
	if (is_loopback(&address) && is_allowed(what.domain, &what.address, what.port))
		return ALLOW;
	return refuse(&what, 1);
}

#define ADDRESS_6(ctx) \
	((struct address){{ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]}})

SEC("cgroup/connect4")
int confine_connect4(struct bpf_sock_addr *ctx)
{
	return reach(mapped(ctx->user_ip4), ctx->user_port, CONNECT);
}

SEC("cgroup/connect6")
int confine_connect6(struct bpf_sock_addr *ctx)
{
	return reach(ADDRESS_6(ctx), ctx->user_port, CONNECT);
}

SEC("cgroup/sendmsg4")
int confine_sendmsg4(struct bpf_sock_addr *ctx)
{
	return reach(mapped(ctx->user_ip4), ctx->user_port, SEND);
}

SEC("cgroup/sendmsg6")
int confine_sendmsg6(struct bpf_sock_addr *ctx)
{
	return reach(ADDRESS_6(ctx), ctx->user_port, SEND);
}

SEC("cgroup/bind4")
int confine_bind4(struct bpf_sock_addr *ctx)
{
	return listen(mapped(ctx->user_ip4), ctx->user_port);
}

SEC("cgroup/bind6")
int confine_bind6(struct bpf_sock_addr *ctx)
{
	return listen(ADDRESS_6(ctx), ctx->user_port);
}

/* Raw sockets and those of rarer protocols have no port to look at. */
SEC("cgroup/sock_create")
int confine_socket(struct bpf_sock *ctx)
{
	struct denied what = {.kind = SOCKET};
	__u32 protocol = ctx->protocol;

	if (ctx->type == STREAM && (!protocol || protocol == IPPROTO_TCP || protocol == MPTCP))
		return ALLOW;
	if (ctx->type == DATAGRAM && (!protocol || protocol == IPPROTO_UDP))
		return ALLOW;
	what.domain = bpf_get_current_cgroup_id();
	what.port = (__u16)protocol;
	return refuse(&what, 1);
}

static __always_inline int leaves(struct __sk_buff *skb, struct address from, struct address to,
				  __u8 protocol, __u32 ports_at)
{
	struct denied what = {
		.domain = bpf_skb_cgroup_id(skb),
		.address = to,
		.kind = PACKET,
	};
	__u16 ports[2] = {};

	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
		return refuse(&what, 0);
	if (bpf_skb_load_bytes(skb, ports_at, ports, sizeof(ports)))
		return refuse(&what, 0);
	what.port = ports[1];
	if (is_allowed(what.domain, &what.address, ports[1]))
		return ALLOW;
	/* An answer to who came in on the loopback. */
	if (is_loopback(&from) && is_loopback(&to) && is_allowed(what.domain, &from, ports[0]))
		return ALLOW;
	return refuse(&what, 0);
}

/*
 * The last fence: whichever way a socket came to its peer, its packets go only where they may.
 */
SEC("cgroup_skb/egress")
int confine_packet(struct __sk_buff *skb)
{
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct {
			__u8 version_length, service;
			__u16 length, id, fragment;
			__u8 life, protocol;
			__u16 check;
			__u32 from, to;
		} header;

		if (bpf_skb_load_bytes(skb, 0, &header, sizeof(header)))
			return REFUSE;
		if (header.fragment & bpf_htons(FRAGMENT_OFFSET))
			return REFUSE;
		return leaves(skb, mapped(header.from), mapped(header.to), header.protocol,
			      (header.version_length & 0xf) * 4);
	}
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct {
			__u32 flow;
			__u16 length;
			__u8 next, hops;
			struct address from, to;
		} header;

		if (bpf_skb_load_bytes(skb, 0, &header, sizeof(header)))
			return REFUSE;
		return leaves(skb, header.from, header.to, header.next, sizeof(header));
	}
	return REFUSE;
}

/* The devices that programs take for granted, and terminals of their own. */
SEC("cgroup/dev")
int confine_device(struct bpf_cgroup_dev_ctx *ctx)
{
	struct denied what = {.kind = DEVICE};
	__u32 is_character = (ctx->access_type & 0xffff) == BPF_DEVCG_DEV_CHAR;
	__u32 makes = (ctx->access_type >> 16) & BPF_DEVCG_ACC_MKNOD;

	if (is_character && !makes) {
		/* null, zero, full, random, urandom */
		if (ctx->major == 1 && (ctx->minor == 3 || ctx->minor == 5 ||
					(ctx->minor >= 7 && ctx->minor <= 9)))
			return ALLOW;
		/* tty, ptmx */
		if (ctx->major == 5 && (ctx->minor == 0 || ctx->minor == 2))
			return ALLOW;
		/* pts/N */
		if (ctx->major >= 136 && ctx->major <= 143)
			return ALLOW;
	}
	what.domain = bpf_get_current_cgroup_id();
	what.address.words[0] = ctx->major;
	what.address.words[1] = ctx->minor;
	what.port = is_character ? 'c' : 'b';
	return refuse(&what, 1);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
