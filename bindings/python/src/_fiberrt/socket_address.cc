// SPDX-License-Identifier: MIT OR Apache-2.0
#include "socket_address.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>

namespace fiberrt_python {

PyObject* socket_address(const SocketAddress& address, socklen_t length) {
    char text[INET6_ADDRSTRLEN];
    if (length == 0) Py_RETURN_NONE;
    switch (address.any.sa_family) {
    case AF_INET:
        inet_ntop(AF_INET, &address.in.sin_addr, text, sizeof text);
        return Py_BuildValue("si", text, int(ntohs(address.in.sin_port)));
    case AF_INET6:
        inet_ntop(AF_INET6, &address.in6.sin6_addr, text, sizeof text);
        return Py_BuildValue("siII", text, int(ntohs(address.in6.sin6_port)),
                             unsigned(ntohl(address.in6.sin6_flowinfo)), unsigned(address.in6.sin6_scope_id));
    default: {
        size_t path = length > offsetof(sockaddr_un, sun_path) ? length - offsetof(sockaddr_un, sun_path) : 0;
        if (path && address.un.sun_path[0] == 0)
            return PyBytes_FromStringAndSize(address.un.sun_path, Py_ssize_t(path));
        return PyUnicode_DecodeFSDefaultAndSize(address.un.sun_path, Py_ssize_t(strnlen(address.un.sun_path, path)));
    }
    }
}

namespace {

// The number at that place of the tuple, from 0 to most; -1: there is none.
int64_t number_at(PyObject* tuple, Py_ssize_t i, int64_t most) {
    PyObject* number = PyTuple_GET_ITEM(tuple, i);
    if (!PyLong_CheckExact(number)) return -1;
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    return overflow || value > most ? -1 : value;
}

} // namespace

bool socket_address_parse(int family, PyObject* address, SocketAddress& to, socklen_t& length) {
    if ((family != AF_INET && family != AF_INET6) || !PyTuple_CheckExact(address)) return false;
    Py_ssize_t count = PyTuple_GET_SIZE(address);
    if (count < 2 || count > (family == AF_INET ? 2 : 4) || !PyUnicode_CheckExact(PyTuple_GET_ITEM(address, 0)))
        return false;
    Py_ssize_t host_size;
    const char* host = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(address, 0), &host_size);
    if (!host) PyErr_Clear();
    if (!host || strlen(host) != size_t(host_size)) return false;
    int64_t port = number_at(address, 1, 65535);
    int64_t flow = count > 2 ? number_at(address, 2, 0xfffff) : 0;
    int64_t scope = count > 3 ? number_at(address, 3, UINT32_MAX) : 0;
    if (port < 0 || flow < 0 || scope < 0) return false;
    memset(&to, 0, sizeof to);
    to.any.sa_family = sa_family_t(family);
    if (family == AF_INET) {
        to.in.sin_port = htons(uint16_t(port));
        length = sizeof to.in;
        return inet_pton(AF_INET, host, &to.in.sin_addr) == 1;
    }
    to.in6.sin6_port = htons(uint16_t(port));
    to.in6.sin6_flowinfo = htonl(uint32_t(flow));
    to.in6.sin6_scope_id = uint32_t(scope);
    length = sizeof to.in6;
    return inet_pton(AF_INET6, host, &to.in6.sin6_addr) == 1;
}

} // namespace fiberrt_python
