#include "sandbox/subnet.h"

#include <arpa/inet.h>
#include <errno.h>

#define SUBNET_FIRST 0x0ae70000U /* 10.231.0.0 */
#define SUBNET_MASK  0xffff0000U

static uint32_t subnet_of(unsigned number)
{
    return SUBNET_FIRST + ((uint32_t)number << SUBNET_BITS);
}

struct route {
    struct str interface;
    uint32_t net, mask; /* host order */
};

/* The next word of a line; "" at its end. */
static struct str take_word(struct str *line)
{
    size_t n = 0;

    while (line->n > 0 && (line->p[0] == ' ' || line->p[0] == '\t'))
        *line = str_skip(*line, 1);
    while (n < line->n && line->p[n] != ' ' && line->p[n] != '\t')
        n++;
    *line = str_skip(*line, n);
    return str_make(line->p - n, n);
}

/* "eth0 00000000 010200C0 0003 0 0 0 00000000 ...": interface, destination, gateway, flags, three
 * numbers, mask. Addresses are in network byte order, printed as numbers of this machine. */
static bool read_route(struct str line, struct route *ret)
{
    struct str net, word = STR_NONE;
    uint64_t value;

    ret->interface = take_word(&line);
    net = take_word(&line);
    for (int i = 0; i < 6; i++)
        word = take_word(&line);
    if (str_to_hex_u64(net, &value) < 0 || value > UINT32_MAX)
        return false;
    ret->net = ntohl((uint32_t)value);
    if (str_to_hex_u64(word, &value) < 0 || value > UINT32_MAX)
        return false;
    ret->mask = ntohl((uint32_t)value);
    return true;
}

/* The number of the network that the bridge has, or -1. */
static int number_of_bridge(struct str routes, const char *bridge)
{
    struct str line;
    struct route r;

    while (str_cut(&routes, '\n', &line))
        if (read_route(line, &r) && str_eq(r.interface, str_of(bridge)) && r.mask == SUBNET_MASK &&
            r.net >= subnet_of(0) && r.net < subnet_of(SUBNET_COUNT))
            return (int)((r.net - SUBNET_FIRST) >> SUBNET_BITS);
    return -1;
}

static bool hides_route(struct str routes, uint32_t net)
{
    struct str line;
    struct route r;

    while (str_cut(&routes, '\n', &line))
        if (read_route(line, &r) && r.mask != 0 && ((r.net ^ net) & (r.mask & SUBNET_MASK)) == 0)
            return true;
    return false;
}

static bool hides_name_server(struct str resolv, uint32_t net)
{
    struct str line;

    while (str_cut(&resolv, '\n', &line)) {
        char text[INET_ADDRSTRLEN];
        struct in_addr addr;

        if (str_eq(take_word(&line), STR("nameserver")) &&
            str_copy(text, sizeof(text), take_word(&line)) == 0 &&
            inet_pton(AF_INET, text, &addr) == 1 && (ntohl(addr.s_addr) & SUBNET_MASK) == net)
            return true;
    }
    return false;
}

int subnet_pick(struct str routes, struct str resolv, const char *bridge, unsigned start,
                struct in_addr *ret_net, struct err *e)
{
    int number = number_of_bridge(routes, bridge);

    for (unsigned i = 0; i < SUBNET_COUNT && number < 0; i++) {
        uint32_t net = subnet_of((start + i) % SUBNET_COUNT);

        if (!hides_route(routes, net) && !hides_name_server(resolv, net))
            number = (int)((start + i) % SUBNET_COUNT);
    }
    if (number < 0)
        return err_set(e, EADDRNOTAVAIL,
                       "no network is free for sandboxes: routes or name servers of this host are "
                       "in each of 10.231.0.0/16 to 10.255.0.0/16");
    ret_net->s_addr = htonl(subnet_of((unsigned)number));
    return 0;
}
