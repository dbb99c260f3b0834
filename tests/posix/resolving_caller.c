// SPDX-License-Identifier: MIT OR Apache-2.0
// A library whose calls of the resolver names_test adopts: each function calls the C library's of the same name.
#include "resolving_caller.h"

int caller_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out) {
    return getaddrinfo(node, service, hints, out);
}

int caller_getnameinfo(const struct sockaddr *address, socklen_t length, char *host, socklen_t host_size, char *service,
                       socklen_t service_size, int flags) {
    return getnameinfo(address, length, host, host_size, service, service_size, flags);
}

struct hostent *caller_gethostbyname(const char *name) {
    return gethostbyname(name);
}
struct hostent *caller_gethostbyname2(const char *name, int family) {
    return gethostbyname2(name, family);
}
struct hostent *caller_gethostbyaddr(const void *address, socklen_t length, int family) {
    return gethostbyaddr(address, length, family);
}
int caller_gethostbyname_r(const char *name, struct hostent *host, char *buffer, size_t size, struct hostent **result,
                           int *error) {
    return gethostbyname_r(name, host, buffer, size, result, error);
}
int caller_gethostbyname2_r(const char *name, int family, struct hostent *host, char *buffer, size_t size,
                            struct hostent **result, int *error) {
    return gethostbyname2_r(name, family, host, buffer, size, result, error);
}
int caller_gethostbyaddr_r(const void *address, socklen_t length, int family, struct hostent *host, char *buffer,
                           size_t size, struct hostent **result, int *error) {
    return gethostbyaddr_r(address, length, family, host, buffer, size, result, error);
}

int caller_res_query(const char *name, int class, int type, unsigned char *answer, int size) {
    return res_query(name, class, type, answer, size);
}
int caller_res_search(const char *name, int class, int type, unsigned char *answer, int size) {
    return res_search(name, class, type, answer, size);
}
int caller_res_querydomain(const char *name, const char *domain, int class, int type, unsigned char *answer, int size) {
    return res_querydomain(name, domain, class, type, answer, size);
}
int caller_res_send(const unsigned char *message, int length, unsigned char *answer, int size) {
    return res_send(message, length, answer, size);
}
int caller_res_nquery(res_state state, const char *name, int class, int type, unsigned char *answer, int size) {
    return res_nquery(state, name, class, type, answer, size);
}
int caller_res_nsearch(res_state state, const char *name, int class, int type, unsigned char *answer, int size) {
    return res_nsearch(state, name, class, type, answer, size);
}
int caller_res_nquerydomain(res_state state, const char *name, const char *domain, int class, int type,
                            unsigned char *answer, int size) {
    return res_nquerydomain(state, name, domain, class, type, answer, size);
}
int caller_res_nsend(res_state state, const unsigned char *message, int length, unsigned char *answer, int size) {
    return res_nsend(state, message, length, answer, size);
}
