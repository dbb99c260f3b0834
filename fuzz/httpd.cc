// SPDX-License-Identifier: MIT OR Apache-2.0
// Target `httpd`: bytes to the example web server, in a simulation. The first two choose the pieces, the pauses and
// other options; the client sends the rest over one connection.
//
// Whatever the bytes: each request has at most one answer, in order. Each answer is well-formed: a status line, fields,
// and as many bytes of a body as it says, or none if the request begins with HEAD or the status has none. Nothing
// follows an answer that says that it is the last; then the connection is over, and nothing of it is left.
#include "check.h"

#include "httpd_serve.h"
#include "sim/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <string>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace {

// The value of a field in a header; empty if it is not there.
std::string value_of(const std::string& header, const char* name) {
    for (size_t line = header.find("\r\n"); line + 2 < header.size(); line = header.find("\r\n", line + 2)) {
        size_t from = line + 2, colon = header.find(':', from), end = header.find("\r\n", from);
        if (colon >= end || strcasecmp(header.substr(from, colon - from).c_str(), name) != 0) continue;
        size_t first = header.find_first_not_of(" \t", colon + 1);
        if (first >= end) return "";
        return header.substr(first, header.find_last_not_of(" \t", end - 1) - first + 1);
    }
    return "";
}

// Where the lines of a trailer, or a chunked body, end; npos if they do not.
size_t end_of_chunks(const std::string& sent, size_t at) {
    for (;;) {
        size_t line = sent.find("\r\n", at);
        if (line == std::string::npos) return line;
        size_t size = strtoul(sent.c_str() + at, nullptr, 16);
        at = line + 2;
        if (size == 0) break;
        if (size > sent.size() - at || sent.compare(at + size, 2, "\r\n") != 0) return std::string::npos;
        at += size + 2;
    }
    while (sent.compare(at, 2, "\r\n") != 0) {
        size_t line = sent.find("\r\n", at);
        if (line == std::string::npos) return line;
        at = line + 2;
    }
    return at + 2;
}

// Where the requests begin, if the server accepts each of them; it need not, and then answers no further one. This does
// not share a line with the server's parser, so that a request which the two see end in different places is found.
std::vector<size_t> beginnings(const std::string& sent) {
    std::vector<size_t> all;
    for (size_t at = 0; at < sent.size();) {
        while (sent.compare(at, 2, "\r\n") == 0) at += 2;
        all.push_back(at); // empty lines alone are the beginning of one that never comes
        size_t end = sent.find("\r\n\r\n", at);
        if (end == std::string::npos) break;
        std::string header = sent.substr(at, end + 4 - at);
        at = end + 4;
        if (value_of(header, "Transfer-Encoding") != "") {
            at = end_of_chunks(sent, at);
            if (at == std::string::npos) break;
        } else {
            size_t length = strtoul(value_of(header, "Content-Length").c_str(), nullptr, 10);
            if (length > sent.size() - at) break;
            at += length;
        }
    }
    return all;
}

struct Client {
    int fd;
    std::string received;

    void* read_all() {
        char bytes[4096];
        int64_t count;
        while ((count = fiber_recv(fd, bytes, sizeof bytes, 0)) > 0) received.append(bytes, size_t(count));
        FUZZ_CHECK(count == 0 || count == -ECONNRESET);
        return nullptr;
    }
};

void* read_all(void* client) { return static_cast<Client*>(client)->read_all(); }

// The answers, one after the other.
void check_answers(const std::string& sent, const std::string& received) {
    std::vector<size_t> requests = beginnings(sent);
    size_t at = 0;
    for (size_t answer = 0; at < received.size(); answer++) {
        FUZZ_CHECK(answer < requests.size());
        FUZZ_CHECK(received.compare(at, 9, "HTTP/1.1 ") == 0);
        size_t end = received.find("\r\n\r\n", at);
        FUZZ_CHECK(end != std::string::npos);
        int status = atoi(received.c_str() + at + 9);
        FUZZ_CHECK(status >= 200 && status < 600);
        int64_t length = -1;
        bool last = false, chunked = false;
        for (size_t line = received.find("\r\n", at) + 2; line < end + 2;) {
            size_t next = received.find("\r\n", line);
            std::string field = received.substr(line, next - line);
            size_t colon = field.find(": ");
            FUZZ_CHECK(colon != std::string::npos && colon > 0);
            for (unsigned char c : field) FUZZ_CHECK(c >= ' ' && c != 127);
            std::string name = field.substr(0, colon), value = field.substr(colon + 2);
            if (strcasecmp(name.c_str(), "Content-Length") == 0) {
                FUZZ_CHECK_EQ(length, -1);
                FUZZ_CHECK(!value.empty() && value.find_first_not_of("0123456789") == std::string::npos);
                length = atoll(value.c_str());
            }
            last |= strcasecmp(name.c_str(), "Connection") == 0 && value == "close";
            chunked |= strcasecmp(name.c_str(), "Transfer-Encoding") == 0 && value == "chunked";
            line = next + 2;
        }
        at = end + 4;
        bool head = sent.compare(requests[answer], 5, "HEAD ") == 0;
        if (status == 304) FUZZ_CHECK(length == -1 && !chunked);
        // A listing has no length, and chunks unless the request was of HTTP/1.0.
        if (status != 304) FUZZ_CHECK(length >= 0 ? !chunked : status == 200 && (chunked || last));
        if (status == 408 && at == received.size()) head = true; // the server has not seen all of the word, or all
        if (status == 408 && at < received.size()) head = false;
        if (chunked && !head) {
            at = end_of_chunks(received, at);
            FUZZ_CHECK(at != std::string::npos);
        } else if (length < 0 && status != 304) {
            at = received.size();
        } else if (status != 304 && !head) {
            FUZZ_CHECK(received.size() - at >= size_t(length));
            at += size_t(length);
        }
        if (last) FUZZ_CHECK_EQ(at, received.size());
    }
}

void begin_simulation() {
    static bool begun;
    if (begun) return;
    begun = true;
    setenv("FIBERRT_BACKEND", "sim", 1);
    FUZZ_CHECK_EQ(serve_begin(FUZZ_HTTPD_ROOT), 0);
    FUZZ_CHECK_EQ(strcmp(fiber_backend_name(), "sim"), 0);
}

int lowest_free() {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    begin_simulation();
    Input input(data, size);
    uint8_t begin = input.byte(), pieces = input.byte();
    fiberrt::simulation.faults = begin & 1;
    fiberrt::simulation.choices.seed(begin >> 1);
    std::string sent;
    while (!input.done()) sent += char(input.byte());
    int free_before = lowest_free();
    int ends[2];
    FUZZ_CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    Client client{ends[0], {}};
    fiber_t server, reader;
    FUZZ_CHECK_EQ(serve_start(ends[1], &server), 0);
    FUZZ_CHECK_EQ(fiber_spawn(&reader, read_all, &client), 0);
    unsigned random = pieces;
    for (size_t at = 0; at < sent.size();) {
        random = random * 1103515245 + 12345;
        size_t count = pieces & 1 ? 1 + (random >> 16) % (pieces & 2 ? 4 : 100) : sent.size();
        if (count > sent.size() - at) count = sent.size() - at;
        int64_t put = fiber_send(ends[0], sent.data() + at, count, MSG_NOSIGNAL);
        if (put < 0) {
            FUZZ_CHECK(put == -EPIPE || put == -ECONNRESET);
            break;
        }
        at += size_t(put);
        if (pieces & 4) FUZZ_CHECK_EQ(fiber_sleep(FIBER_MSEC(1 + (random >> 20) % 64) * (pieces & 8 ? 50 : 1)), 0);
    }
    if (!(pieces & 16)) shutdown(ends[0], SHUT_WR); // else the server's patience ends it
    FUZZ_CHECK_EQ(fiber_join(server, nullptr), 0);
    FUZZ_CHECK_EQ(fiber_join(reader, nullptr), 0);
    FUZZ_CHECK_EQ(fiber_close(ends[0]), 0);
    FUZZ_CHECK_EQ(serve_left(), 0);
    FUZZ_CHECK_EQ(lowest_free(), free_before);
    check_answers(sent, client.received);
    return 0;
}
