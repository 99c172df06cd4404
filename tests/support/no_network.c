/* Refuses every way to another machine, and writes a line for each attempt to the file that NO_NETWORK_LOG names.

   cc -shared -fPIC -o no_network.so no_network.c -ldl; NO_NETWORK_LOG=attempts LD_PRELOAD=./no_network.so ...

   Addresses of this machine stay allowed, so that a server can listen and a client can reach it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void note(const char *call, const char *target) {
    const char *path = getenv("NO_NETWORK_LOG");
    char line[512];
    int size = snprintf(line, sizeof line, "%s %s\n", call, target ? target : "");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (file >= 0) {
        if (write(file, line, (size_t)size) < 0) abort();
        close(file);
    }
}

static int is_local(const struct sockaddr *address) {
    if (!address) return 1;
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    if (address->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return 1;
}

static int refuse(const char *call, const struct sockaddr *address) {
    char text[INET6_ADDRSTRLEN] = "";
    if (address->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, text, sizeof text);
    else
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, text, sizeof text);
    note(call, text);
    errno = ENETUNREACH;
    return -1;
}

static int is_local_name(const char *name) {
    struct in_addr four;
    struct in6_addr six;
    return !name || !strcmp(name, "localhost") || inet_pton(AF_INET, name, &four) == 1 || inet_pton(AF_INET6, name, &six) == 1;
}

int connect(int file, const struct sockaddr *address, socklen_t size) {
    static int (*next)(int, const struct sockaddr *, socklen_t);
    if (!next) next = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
    return is_local(address) ? next(file, address, size) : refuse("connect", address);
}

ssize_t sendto(int file, const void *data, size_t length, int flags, const struct sockaddr *address, socklen_t size) {
    static ssize_t (*next)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    if (!next) next = (ssize_t(*)(int, const void *, size_t, int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "sendto");
    return is_local(address) ? next(file, data, length, flags, address, size) : refuse("sendto", address);
}

ssize_t sendmsg(int file, const struct msghdr *message, int flags) {
    static ssize_t (*next)(int, const struct msghdr *, int);
    if (!next) next = (ssize_t(*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg");
    return is_local(message->msg_name) ? next(file, message, flags) : refuse("sendmsg", message->msg_name);
}

int sendmmsg(int file, struct mmsghdr *messages, unsigned int count, int flags) {
    static int (*next)(int, struct mmsghdr *, unsigned int, int);
    if (!next) next = (int (*)(int, struct mmsghdr *, unsigned int, int))dlsym(RTLD_NEXT, "sendmmsg");
    for (unsigned int i = 0; i < count; i++)
        if (!is_local(messages[i].msg_hdr.msg_name)) return refuse("sendmmsg", messages[i].msg_hdr.msg_name);
    return next(file, messages, count, flags);
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    static int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    if (!next) next = (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(RTLD_NEXT, "getaddrinfo");
    if (is_local_name(name)) return next(name, service, hints, found);
    note("getaddrinfo", name);
    return EAI_FAIL;
}

int gethostbyname_r(const char *name, struct hostent *entry, char *buffer, size_t size, struct hostent **found, int *error) {
    static int (*next)(const char *, struct hostent *, char *, size_t, struct hostent **, int *);
    if (!next) next = (int (*)(const char *, struct hostent *, char *, size_t, struct hostent **, int *))dlsym(RTLD_NEXT, "gethostbyname_r");
    if (is_local_name(name)) return next(name, entry, buffer, size, found, error);
    note("gethostbyname_r", name);
    *found = NULL;
    *error = NO_RECOVERY;
    return 0;
}

struct hostent *gethostbyname(const char *name) {
    static struct hostent *(*next)(const char *);
    if (!next) next = (struct hostent * (*)(const char *)) dlsym(RTLD_NEXT, "gethostbyname");
    if (is_local_name(name)) return next(name);
    note("gethostbyname", name);
    h_errno = NO_RECOVERY;
    return NULL;
}
