// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions of resolving_caller.c.
#ifndef FIBERRT_TESTS_POSIX_RESOLVING_CALLER_H
#define FIBERRT_TESTS_POSIX_RESOLVING_CALLER_H

#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

int caller_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out);
int caller_getnameinfo(const struct sockaddr *address, socklen_t length, char *host, socklen_t host_size, char *service,
                       socklen_t service_size, int flags);
struct hostent *caller_gethostbyname(const char *name);
struct hostent *caller_gethostbyname2(const char *name, int family);
struct hostent *caller_gethostbyaddr(const void *address, socklen_t length, int family);
int caller_gethostbyname_r(const char *name, struct hostent *host, char *buffer, size_t size, struct hostent **result,
                           int *error);
int caller_gethostbyname2_r(const char *name, int family, struct hostent *host, char *buffer, size_t size,
                            struct hostent **result, int *error);
int caller_gethostbyaddr_r(const void *address, socklen_t length, int family, struct hostent *host, char *buffer,
                           size_t size, struct hostent **result, int *error);
int caller_res_query(const char *name, int class_, int type, unsigned char *answer, int size);
int caller_res_search(const char *name, int class_, int type, unsigned char *answer, int size);
int caller_res_querydomain(const char *name, const char *domain, int class_, int type, unsigned char *answer, int size);
int caller_res_send(const unsigned char *message, int length, unsigned char *answer, int size);
int caller_res_nquery(res_state state, const char *name, int class_, int type, unsigned char *answer, int size);
int caller_res_nsearch(res_state state, const char *name, int class_, int type, unsigned char *answer, int size);
int caller_res_nquerydomain(res_state state, const char *name, const char *domain, int class_, int type,
                            unsigned char *answer, int size);
int caller_res_nsend(res_state state, const unsigned char *message, int length, unsigned char *answer, int size);

#ifdef __cplusplus
}
#endif

#endif
