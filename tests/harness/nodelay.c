/* Put in front of the C library of a proxy: its sockets send at once (TCP_NODELAY).
 *
 * A proxy relays in pieces of some 16 KiB. Over loopback, where a segment holds 64 KiB, each piece
 * but the first waits until the other side confirms the one before, which it does after 40 ms; over
 * a network, where a segment holds 1.5 KiB, it does so at once.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

int socket(int domain, int type, int protocol)
{
    int (*real)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
    int made = real(domain, type, protocol), on = 1;

    if (made >= 0)
        setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* accepted ones inherit it */
    return made;
}
