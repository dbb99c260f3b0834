// SPDX-License-Identifier: MIT OR Apache-2.0
// examples_servers.h - servers for the examples that are clients: a page server, and one that speaks as much of
// PostgreSQL's protocol as a query with one parameter needs. Each runs on a thread of the test.
#ifndef FIBERRT_TESTS_EXAMPLES_SERVERS_H
#define FIBERRT_TESTS_EXAMPLES_SERVERS_H

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

namespace fiberrt_test {

// Listens on a port of loopback. Answers held back go out once there are `together` of them, which shows that the client
// had so many requests under way at one time; later answers go out at once.
class SmallServer {
public:
    explicit SmallServer(size_t together) : together_(together) {
        sockaddr_in address = {};
        socklen_t length = sizeof address;
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(listen(listener_, 512), 0);
        EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length), 0);
        port_ = ntohs(address.sin_port);
        EXPECT_EQ(pipe(end_), 0);
    }
    virtual ~SmallServer() {
        for (auto& [fd, input] : inputs_) close(fd);
        for (int fd : {listener_, end_[0], end_[1]}) close(fd);
    }
    SmallServer(const SmallServer&) = delete;
    SmallServer& operator=(const SmallServer&) = delete;

    int port() const { return port_; }
    void Start() {
        thread_ = std::thread([this] { Run(); });
    }
    void Stop() { // before the destructor, which is too late for the virtual functions
        close(end_[1]);
        end_[1] = -1;
        thread_.join();
    }

protected:
    // Takes the first whole request off the input, and answers it by Send or Hold. Returns false if there is none.
    virtual bool Serve(int fd, std::string& input) = 0;

    static void Send(int fd, const std::string& text) {
        EXPECT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), ssize_t(text.size()));
    }
    void Hold(int fd, const std::string& text) {
        held_.emplace_back(fd, text);
        if (held_.size() < together_) return;
        for (auto& [to, answer] : held_) Send(to, answer);
        held_.clear();
        together_ = 0;
    }

private:
    void Run() {
        for (;;) {
            std::vector<pollfd> entries = {{end_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
            for (auto& [fd, input] : inputs_) entries.push_back({fd, POLLIN, 0});
            poll(entries.data(), entries.size(), -1);
            if (entries[0].revents) return;
            if (entries[1].revents) {
                if (int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC); fd >= 0) inputs_[fd];
            }
            for (size_t i = 2; i < entries.size(); i++) {
                if (entries[i].revents) Receive(entries[i].fd);
            }
        }
    }
    void Receive(int fd) {
        char bytes[4096];
        ssize_t count = recv(fd, bytes, sizeof bytes, 0);
        if (count <= 0) {
            inputs_.erase(fd);
            close(fd);
            return;
        }
        std::string& input = inputs_[fd];
        input.append(bytes, size_t(count));
        while (Serve(fd, input)) {}
    }

    size_t together_;
    int listener_, port_, end_[2];
    std::map<int, std::string> inputs_; // by connection
    std::vector<std::pair<int, std::string>> held_;
    std::thread thread_;
};

// Answers a query that has one parameter, a number, by its double and an empty text.
class SmallPostgres : public SmallServer {
public:
    using SmallServer::SmallServer;

private:
    static std::string Big16(size_t n) { return {char(n >> 8), char(n)}; }
    static std::string Big32(size_t n) { return {char(n >> 24), char(n >> 16), char(n >> 8), char(n)}; }
    static size_t Number(const std::string& text, size_t at) {
        size_t number = 0;
        for (size_t i = at; i < at + 4; i++) number = number << 8 | static_cast<unsigned char>(text[i]);
        return number;
    }
    static std::string Message(char type, const std::string& body) { return type + Big32(body.size() + 4) + body; }
    static std::string Column(const std::string& name) {
        return name + '\0' + Big32(0) + Big16(0) + Big32(25) + Big16(0xFFFF) + Big32(0xFFFFFFFF) + Big16(0);
    }

    bool Serve(int fd, std::string& input) override {
        bool first = parameters_.count(fd) == 0; // the first message has no type
        if (input.size() < 5) return false;
        size_t length = Number(input, !first) + !first;
        if (input.size() < length) return false;
        std::string message = input.substr(0, length);
        input.erase(0, length);
        if (first) {
            parameters_.insert({fd, ""});
            Send(fd, Message('R', Big32(0)) + Message('Z', "I"));
        } else if (message[0] == 'B') { // two names, no formats, one parameter, two bytes for the format of the result
            size_t parameter = 5 + 2 + 2 + 2;
            parameters_[fd] = message.substr(parameter + 4, Number(message, parameter));
        } else if (message[0] == 'S') {
            std::string answer = std::to_string(atoi(parameters_[fd].c_str()) * 2);
            Hold(fd, Message('1', "") + Message('2', "") + Message('T', Big16(2) + Column("a") + Column("b")) +
                         Message('D', Big16(2) + Big32(answer.size()) + answer + Big32(0)) +
                         Message('C', std::string("SELECT 1") + '\0') + Message('Z', "I"));
        } else if (message[0] == 'X') {
            parameters_.erase(fd);
        }
        return true;
    }

    std::map<int, std::string> parameters_; // by connection; no entry: not greeted yet
};

// Serves /0, /1, … with so many bytes; never answers /silent…, and has nothing else.
class SmallHttp : public SmallServer {
public:
    using SmallServer::SmallServer;

private:
    bool Serve(int fd, std::string& input) override {
        size_t end = input.find("\r\n\r\n");
        if (end == std::string::npos) return false;
        std::string path = input.substr(input.find('/') + 1);
        input.erase(0, end + 4);
        if (path.rfind("silent", 0) == 0) return true;
        if (!isdigit(static_cast<unsigned char>(path[0]))) {
            Send(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
            return true;
        }
        int size = atoi(path.c_str());
        Hold(fd, "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n" +
                     std::string(size_t(size), 'x'));
        return true;
    }
};

} // namespace fiberrt_test

#endif
