// SPDX-License-Identifier: MIT OR Apache-2.0
// httpd_test.cc - runs the example httpd on a fresh directory and is a hostile client to it, with plain blocking
// sockets that have a time limit: a hanging server is a failed test and not a hanging one.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#if FIBERRT_TEST_SQLITE
#include <sqlite3.h>
#endif

#include "subprocess.h"

using fiberrt_test::Clock;
using fiberrt_test::Matches;
using fiberrt_test::milliseconds;
using fiberrt_test::MillisecondsSince;
using fiberrt_test::Process;
using fiberrt_test::RefuseSystemCall;

namespace {

void Sleep(int ms) { std::this_thread::sleep_for(milliseconds(ms)); }

// Waits until a condition holds; says whether it came to.
template <typename Condition>
bool Eventually(Condition condition, int limit_ms = 60000) {
    for (Clock::time_point start = Clock::now(); MillisecondsSince(start) < limit_ms; Sleep(5)) {
        if (condition()) {
            return true;
        }
    }
    return condition();
}

struct Response {
    int status = 0; // 0: none came
    std::map<std::string, std::string> headers;
    std::string body;
    bool whole = false; // the body is as long as was promised

    std::string Header(const std::string& name) const {
        auto found = headers.find(name);
        return found == headers.end() ? "" : found->second;
    }
};

// One connection to the server.
class Client {
public:
    explicit Client(int port, int receive_buffer = 0, int timeout_ms = 60000) {
        fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (receive_buffer > 0) {
            setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
        }
        int on = 1;
        setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        timeval limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
        setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<uint16_t>(port));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    ~Client() { Close(); }

    void Close() {
        if (fd_ >= 0) {
            close(fd_);
            fd_ = -1;
        }
    }

    // Closes with a reset instead of an orderly end.
    void Reset() {
        linger now = {1, 0};
        setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        Close();
    }

    bool connected() const { return connected_; }
    int fd() const { return fd_; }
    void HalfClose() const { shutdown(fd_, SHUT_WR); }

    bool Send(const std::string& text) const {
        size_t done = 0;
        while (done < text.size()) {
            ssize_t count = send(fd_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
            if (count <= 0) {
                return false;
            }
            done += static_cast<size_t>(count);
        }
        return true;
    }

    // Sends a few bytes at a time with pauses, until it is through or the server has closed.
    bool Trickle(const std::string& text, int pause_ms, size_t bytes = 1) const {
        for (size_t at = 0; at < text.size(); at += bytes) {
            if (!Send(text.substr(at, bytes))) {
                return false;
            }
            Sleep(pause_ms);
        }
        return true;
    }

    // Reads up to count bytes, as they come. Returns 0 at the end, -1 for a reset, -2 when the time is over.
    ssize_t Receive(std::string& to, size_t count) const {
        std::string buffer(count, '\0');
        ssize_t got = recv(fd_, buffer.data(), count, 0);
        if (got > 0) {
            to.append(buffer, 0, static_cast<size_t>(got));
        }
        return got >= 0 ? got : errno == EAGAIN || errno == EWOULDBLOCK ? -2 : -1;
    }

    // Reads one response. Without a body for HEAD.
    Response Read(bool head = false) {
        Response response;
        size_t end;
        while ((end = unread_.find("\r\n\r\n")) == std::string::npos) {
            if (Receive(unread_, 65536) <= 0) {
                return response;
            }
        }
        std::istringstream lines(unread_.substr(0, end + 2));
        unread_.erase(0, end + 4);
        std::string line;
        std::getline(lines, line);
        if (line.rfind("HTTP/1.1 ", 0) != 0 || line.back() != '\r') {
            ADD_FAILURE() << "not a status line: " << line;
            return response;
        }
        response.status = atoi(line.c_str() + 9);
        while (std::getline(lines, line)) {
            size_t colon = line.find(": ");
            if (colon == std::string::npos || line.back() != '\r') {
                ADD_FAILURE() << "not a header field: " << line;
                return response;
            }
            std::string name = line.substr(0, colon);
            std::transform(name.begin(), name.end(), name.begin(), ::tolower);
            EXPECT_EQ(response.headers.count(name), 0u) << name << " twice";
            response.headers[name] = line.substr(colon + 2, line.size() - colon - 3);
        }
        size_t length = strtoull(response.Header("content-length").c_str(), nullptr, 10);
        if (head || response.status == 304) {
            length = 0;
        }
        if (response.Header("transfer-encoding") == "chunked") {
            response.whole = head || ReadChunks(response.body);
            return response;
        }
        while (unread_.size() < length && Receive(unread_, 1 << 20) > 0) {}
        response.whole = unread_.size() >= length;
        response.body = unread_.substr(0, length);
        unread_.erase(0, length);
        return response;
    }

    // Reads the body that comes in chunks; says whether it is whole.
    bool ReadChunks(std::string& body) {
        for (;;) {
            size_t line;
            while ((line = unread_.find("\r\n")) == std::string::npos) {
                if (Receive(unread_, 65536) <= 0) {
                    return false;
                }
            }
            size_t size = strtoull(unread_.c_str(), nullptr, 16);
            while (unread_.size() < line + 2 + size + 2) {
                if (Receive(unread_, 1 << 20) <= 0) {
                    return false;
                }
            }
            body += unread_.substr(line + 2, size);
            EXPECT_EQ(unread_.substr(line + 2 + size, 2), "\r\n");
            unread_.erase(0, line + 2 + size + 2);
            if (size == 0) {
                return true;
            }
        }
    }

    // Reads until the server ends the connection, in whatever way; false if it does not in time.
    bool ReadToEnd(std::string& to) {
        to += unread_;
        unread_.clear();
        ssize_t count;
        while ((count = Receive(to, 65536)) > 0) {}
        return count != -2;
    }

    // The server sends nothing more for a while, and does not end the connection.
    bool IsSilent(int ms) const {
        pollfd readable = {fd_, POLLIN, 0};
        return unread_.empty() && poll(&readable, 1, ms) == 0;
    }

    // The server ends the connection and sends nothing more.
    bool AtEnd() {
        std::string rest;
        return ReadToEnd(rest) && rest.empty();
    }

private:
    int fd_ = -1;
    bool connected_ = false;
    std::string unread_;
};

std::string Get(const std::string& path, const std::string& fields = "", const std::string& method = "GET") {
    return method + " " + path + " HTTP/1.1\r\nHost: test\r\n" + fields + "\r\n";
}

// Bytes that differ everywhere, so that a wrong offset shows.
std::string Pattern(size_t size) {
    std::string text(size, '\0');
    uint32_t state = 12345;
    for (char& byte : text) {
        state = state * 1664525 + 1013904223;
        byte = static_cast<char>(state >> 24);
    }
    return text;
}

class Httpd : public testing::Test {
protected:
    void SetUp() override {
        std::string name = testing::TempDir() + "httpd_test_XXXXXX";
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        top_ = name;
        root_ = top_ + "/root";
        std::filesystem::create_directory(root_);
        WriteFile("hello.txt", "hello\n");
        WriteFile("../secret.txt", "the secret");
        WriteFile("large.bin", large_);
    }

    void TearDown() override {
        process_.reset();
        std::filesystem::remove_all(top_);
    }

    void WriteFile(const std::string& name, const std::string& text) {
        std::ofstream file(root_ + "/" + name, std::ios::binary);
        file << text;
        ASSERT_TRUE(file.good()) << name;
    }

    // A file that is large and takes no room.
    void MakeHugeFile(const std::string& name, off_t size) {
        WriteFile(name, "");
        ASSERT_EQ(truncate((root_ + "/" + name).c_str(), size), 0);
    }

    void Start(std::vector<std::string> arguments = {}, const std::function<void()>& in_child = nullptr) {
        std::vector<std::string> command = {EXAMPLES_DIR "/httpd", "--port", "0", "--root", root_};
        command.insert(command.end(), arguments.begin(), arguments.end());
        process_ = std::make_unique<Process>(command, in_child);
        std::string line = process_->ReadLine(milliseconds(20000));
        ASSERT_TRUE(Matches(line, "listening on http://127\\.0\\.0\\.1:[0-9]+/"))
            << line << process_->ReadErrors(milliseconds(100));
        port_ = std::stoi(line.substr(line.rfind(':') + 1));
        descriptors_ = Descriptors();
    }

    // Ends the server as a user would; it must do so in order.
    void Stop(int signal = SIGTERM) {
        ASSERT_TRUE(process_->Signal(signal));
        EXPECT_EQ(process_->Wait(milliseconds(60000)), 0) << process_->ReadErrors(milliseconds(100));
    }

    Response Ask(const std::string& request, bool head = false) {
        Client client(port_);
        EXPECT_TRUE(client.Send(request));
        return client.Read(head);
    }

    // The number of descriptors that the server has open; with a limit, those below it. (It may have inherited others.)
    int Descriptors(int limit = INT_MAX) const {
        int count = 0;
        std::error_code error;
        for (auto& entry :
             std::filesystem::directory_iterator("/proc/" + std::to_string(process_->pid()) + "/fd", error)) {
            count += std::stoi(entry.path().filename()) < limit;
        }
        return count;
    }

    // All descriptors that connections and requests took are given back. (The log's is opened before the count.)
    bool DescriptorsAreBack(int limit_ms = 60000) {
        return Eventually([&] { return Descriptors() == descriptors_; }, limit_ms);
    }

    int64_t ResidentKib() const { return StatusKib("VmRSS:"); }
    int64_t PeakResidentKib() const { return StatusKib("VmHWM:"); }

    int64_t StatusKib(const std::string& field) const {
        std::ifstream status("/proc/" + std::to_string(process_->pid()) + "/status");
        std::string line;
        while (std::getline(status, line)) {
            if (line.rfind(field, 0) == 0) {
                return atoll(line.c_str() + field.size());
            }
        }
        return -1;
    }

    // The server is alive and well.
    void ExpectAlive() {
        Response response = Ask(Get("/hello.txt"));
        EXPECT_EQ(response.status, 200);
        EXPECT_EQ(response.body, "hello\n");
    }

    const std::string large_ = Pattern(5 << 20);
    std::string top_, root_;
    std::unique_ptr<Process> process_;
    int port_ = 0;
    int descriptors_ = 0;
};

// With one thread, and with several.
class HttpdThreads : public Httpd, public testing::WithParamInterface<int> {
protected:
    void Start(std::vector<std::string> arguments = {}, const std::function<void()>& in_child = nullptr) {
        arguments.insert(arguments.end(), {"--threads", std::to_string(GetParam())});
        Httpd::Start(arguments, in_child);
    }
};

INSTANTIATE_TEST_SUITE_P(OfThreads, HttpdThreads, testing::Values(1, 3), testing::PrintToStringParamName());

// ---- files -------------------------------------------------------------------------------------------------------

TEST_F(Httpd, ServesAFile) {
    Start();
    Response response = Ask(Get("/hello.txt"));
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "hello\n");
    EXPECT_EQ(response.Header("content-length"), "6");
    EXPECT_EQ(response.Header("content-type"), "text/plain; charset=utf-8");
    EXPECT_EQ(response.Header("accept-ranges"), "bytes");
    std::string date("(Sun|Mon|Tue|Wed|Thu|Fri|Sat), [0-9]{2} (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) "
                     "20[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT");
    EXPECT_TRUE(Matches(response.Header("date"), date)) << response.Header("date");
    EXPECT_TRUE(Matches(response.Header("last-modified"), date)) << response.Header("last-modified");
    EXPECT_EQ(response.headers.count("connection"), 0u);
    Stop();
}

TEST_F(Httpd, SendsTheTimeOfModification) {
    struct timespec times[2] = {{951827696, 0}, {951827696, 0}}; // Tue, 29 Feb 2000 12:34:56
    ASSERT_EQ(utimensat(AT_FDCWD, (root_ + "/hello.txt").c_str(), times, 0), 0);
    Start();
    EXPECT_EQ(Ask(Get("/hello.txt")).Header("last-modified"), "Tue, 29 Feb 2000 12:34:56 GMT");
    Stop();
}

// A file on tmpfs keeps any 64 bits as its time; most other file systems truncate it to their range.
TEST_F(Httpd, OutlivesTimesOfModificationBeyondAnyDate) {
    std::string folder = "/dev/shm/httpd_test_XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) {
        GTEST_SKIP() << "there is no tmpfs at /dev/shm";
    }
    std::filesystem::remove_all(root_);
    root_ = folder;
    WriteFile("hello.txt", "hello\n");
    Start();
    for (time_t when : {time_t{INT64_MAX}, time_t{INT64_MIN}, time_t{1} << 56, -(time_t{1} << 56), time_t{253402300800},
                        time_t{-62167219201}}) {
        struct timespec times[2] = {{when, 0}, {when, 0}};
        EXPECT_EQ(utimensat(AT_FDCWD, (root_ + "/hello.txt").c_str(), times, 0), 0);
        Response response = Ask(Get("/hello.txt", "If-Modified-Since: yesterday\r\n"));
        EXPECT_EQ(response.body, "hello\n") << when;
        EXPECT_EQ(response.Header("last-modified"),
                  when > 0 ? "Fri, 31 Dec 9999 23:59:59 GMT" : "Sat, 01 Jan 0000 00:00:00 GMT")
            << when;
    }
    std::filesystem::remove_all(folder);
    Stop();
}

TEST_F(Httpd, ServesFilesOfEverySizeAroundItsBuffer) {
    Start();
    Client client(port_);
    std::vector<size_t> sizes = {0, 1, 1000, 65535, 65536, 65537, 131072, 200000};
    for (size_t size = 65536 - 300; size < 65536 - 100; size += 7) { // with the header it is just as large
        sizes.push_back(size);
    }
    for (size_t size : sizes) {
        WriteFile("sized.bin", large_.substr(0, size));
        ASSERT_TRUE(client.Send(Get("/sized.bin")));
        Response response = client.Read();
        ASSERT_EQ(response.status, 200);
        ASSERT_EQ(response.body.size(), size);
        ASSERT_TRUE(response.body == large_.substr(0, size)) << size;
    }
    Stop();
}

TEST_F(Httpd, ServesALargeFileByteForByte) {
    Start();
    Response response = Ask(Get("/large.bin"));
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.Header("content-type"), "application/octet-stream");
    EXPECT_TRUE(response.whole);
    EXPECT_TRUE(response.body == large_);
    EXPECT_TRUE(DescriptorsAreBack());
    Stop();
}

TEST_F(Httpd, OpensTheFileAtEachRequest) {
    Start();
    Client client(port_);
    for (const char* text : {"first", "the second"}) {
        WriteFile("changing.txt", text);
        ASSERT_TRUE(client.Send(Get("/changing.txt")));
        EXPECT_EQ(client.Read().body, text);
    }
    unlink((root_ + "/changing.txt").c_str());
    ASSERT_TRUE(client.Send(Get("/changing.txt")));
    EXPECT_EQ(client.Read().status, 404);
    Stop();
}

TEST_F(Httpd, KnowsContentTypes) {
    Start();
    const std::pair<const char*, const char*> types[] = {
        {"a.html", "text/html; charset=utf-8"},
        {"a.HTML", "text/html; charset=utf-8"},
        {"a.css", "text/css; charset=utf-8"},
        {"a.js", "text/javascript; charset=utf-8"},
        {"a.json", "application/json"},
        {"a.svg", "image/svg+xml"},
        {"a.png", "image/png"},
        {"a.tar.gz", "application/gzip"},
        {"a", "application/octet-stream"},
        {"a.unknown", "application/octet-stream"},
        {"html", "application/octet-stream"},
        {"a.", "application/octet-stream"},
    };
    Client client(port_);
    for (auto [name, type] : types) {
        WriteFile(name, "x");
        ASSERT_TRUE(client.Send(Get(std::string("/") + name)));
        EXPECT_EQ(client.Read().Header("content-type"), type) << name;
    }
    Stop();
}

TEST_F(Httpd, DecodesTheUrlAndIgnoresTheQuery) {
    WriteFile("a b+c%.txt", "odd");
    WriteFile("\xc3\xa9.txt", "e");
    WriteFile("..two..dots..", "dots");
    WriteFile("...", "three");
    Start();
    EXPECT_EQ(Ask(Get("/a%20b+c%25.txt")).body, "odd");
    EXPECT_EQ(Ask(Get("/%61%20b%2Bc%25%2etxt?x=../..&%00")).body, "odd");
    EXPECT_EQ(Ask(Get("/%C3%a9.txt")).body, "e");
    EXPECT_EQ(Ask(Get("/..two..dots..")).body, "dots");
    EXPECT_EQ(Ask(Get("/...")).body, "three");
    EXPECT_EQ(Ask(Get("//hello.txt")).body, "hello\n");
    EXPECT_EQ(Ask(Get("/./hello.txt")).body, "hello\n");
    EXPECT_EQ(Ask(Get("http://anywhere:80/hello.txt?q")).body, "hello\n");
    for (const char* bad : {"/%", "/%2", "/%zz", "/hello.txt%", "/%g1"}) {
        EXPECT_EQ(Ask(Get(bad)).status, 400) << bad;
    }
    Stop();
}

TEST_F(Httpd, HeadHasTheHeaderOfGetAndNoBody) {
    WriteFile("dir.txt", "x");
    Start();
    Client client(port_);
    for (const char* path : {"/hello.txt", "/large.bin", "/", "/none", "/%"}) {
        ASSERT_TRUE(client.Send(Get(path) + Get(path, "", "HEAD")));
        Response got = client.Read();
        Response head = client.Read(true); // the client would take a body for the next response
        EXPECT_EQ(head.status, got.status) << path;
        EXPECT_EQ(head.Header("content-length"), got.Header("content-length")) << path;
        EXPECT_EQ(head.Header("content-type"), got.Header("content-type")) << path;
    }
    ASSERT_TRUE(client.Send(Get("/hello.txt")));
    EXPECT_EQ(client.Read().body, "hello\n");
    for (const char* malformed : {"HEAD \r\n\r\n", "\r\nHEAD x HTTP/1.1\r\n\r\n", "HEAD / HTTP/1.1\r\n: x\r\n\r\n"}) {
        Client other(port_);
        ASSERT_TRUE(other.Send(malformed));
        EXPECT_EQ(other.Read(true).status, 400) << malformed;
        std::string rest;
        EXPECT_TRUE(other.ReadToEnd(rest));
        EXPECT_EQ(rest, "") << malformed;
    }
    Stop();
}

TEST_F(Httpd, AnswersRequestsForNonFiles) {
    ASSERT_EQ(mkfifo((root_ + "/fifo").c_str(), 0644), 0);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::string name = root_ + "/socket";
    ASSERT_LT(name.size(), sizeof address.sun_path);
    strcpy(address.sun_path, name.c_str());
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    Start();
    EXPECT_EQ(Ask(Get("/none.txt")).status, 404);
    EXPECT_EQ(Ask(Get("/none/none.txt")).status, 404);
    EXPECT_EQ(Ask(Get("/hello.txt/")).status, 404);
    EXPECT_EQ(Ask(Get("/hello.txt/more")).status, 404);
    EXPECT_EQ(Ask(Get("/" + std::string(300, 'x'))).status, 404);
    EXPECT_EQ(Ask(Get("/" + std::string(5000, 'x'))).status, 404);
    EXPECT_EQ(Ask(Get("/fifo")).status, 403);
    EXPECT_EQ(Ask(Get("/socket")).status, 403);
    Response missing = Ask(Get("/none.txt"));
    EXPECT_EQ(missing.headers.count("connection"), 0u) << "the connection goes on";
    EXPECT_NE(missing.body.find("404 Not Found"), std::string::npos);
    EXPECT_TRUE(DescriptorsAreBack());
    close(fd);
    Stop();
}

TEST_F(Httpd, RefusesAFileThatItMayNotRead) {
    ASSERT_EQ(chmod((root_ + "/hello.txt").c_str(), 0), 0);
    // Root may read anything, so the server gives that right up, but keeps its user, who may reach its executable.
    bool root = geteuid() == 0;
    Start({}, [root] {
        if (root &&
            (prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE) != 0 || prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH) != 0)) {
            _exit(126);
        }
    });
    EXPECT_EQ(Ask(Get("/hello.txt")).status, 403);
    Stop();
}

TEST_F(Httpd, EndsAnAnswerWhoseFileShrinks) {
    MakeHugeFile("shrinking.bin", 256 << 20);
    Start();
    Client client(port_, 65536);
    ASSERT_TRUE(client.Send(Get("/shrinking.bin")));
    std::string received;
    ASSERT_GT(client.Receive(received, 1000), 0);
    ASSERT_EQ(truncate((root_ + "/shrinking.bin").c_str(), 1000), 0);
    EXPECT_TRUE(client.ReadToEnd(received));
    EXPECT_LT(received.size(), size_t{256} << 20);
    EXPECT_TRUE(DescriptorsAreBack());
    ExpectAlive();
    Stop();
}

// ---- directories -------------------------------------------------------------------------------------------------

TEST_F(Httpd, ServesTheIndexOfADirectory) {
    std::filesystem::create_directory(root_ + "/sub");
    WriteFile("sub/index.html", "<p>index");
    WriteFile("index.html", "<p>top");
    Start();
    EXPECT_EQ(Ask(Get("/sub/")).body, "<p>index");
    EXPECT_EQ(Ask(Get("/sub/")).Header("content-type"), "text/html; charset=utf-8");
    EXPECT_EQ(Ask(Get("/")).body, "<p>top");
    EXPECT_EQ(Ask(Get("/?query")).body, "<p>top");
    Stop();
}

TEST_F(Httpd, ListsADirectoryWithEveryNameEscaped) {
    std::filesystem::create_directories(root_ + "/sub/<i>&amp;");
    const std::string names[] = {"plain",    "<script>alert(1)</script>",
                                 "a&b",      "\"quoted\"",
                                 "it's",     "per%41cent",
                                 "que?ry",   "ha#sh",
                                 "sp ace",   "a:b",
                                 "\xc3\xa9", "\xff\xfe",
                                 "new\nline"};
    for (const std::string& name : names) {
        std::string file = name;
        std::replace(file.begin(), file.end(), '/', '_');
        WriteFile("sub/" + file, "contents of " + name);
    }
    Start();
    Response listing = Ask(Get("/sub/"));
    EXPECT_EQ(listing.status, 200);
    EXPECT_EQ(listing.Header("content-type"), "text/html; charset=utf-8");
    EXPECT_EQ(listing.body.find("<script"), std::string::npos);
    EXPECT_EQ(listing.body.find("<i>"), std::string::npos);
    EXPECT_NE(listing.body.find("&lt;script&gt;"), std::string::npos);
    EXPECT_NE(listing.body.find("<a href=\"../\">"), std::string::npos);
    EXPECT_NE(listing.body.find("/\">&lt;i&gt;&amp;amp;/</a>"), std::string::npos) << listing.body;

    // Every link leads to the file that it names.
    std::map<std::string, bool> seen;
    const std::string front = "href=\"./";
    for (size_t at = 0; (at = listing.body.find(front, at)) != std::string::npos;) {
        at += front.size();
        std::string link = listing.body.substr(at, listing.body.find('"', at) - at);
        Response file = Ask(Get("/sub/" + link));
        EXPECT_EQ(file.status, 200) << link;
        seen[file.body] = true;
    }
    for (const std::string& name : names) {
        EXPECT_TRUE(seen["contents of " + name]) << name;
    }
    EXPECT_EQ(Ask(Get("/")).body.find("../"), std::string::npos) << "nothing above the root";
    EXPECT_TRUE(DescriptorsAreBack());
    Stop();
}

// Many clients that ask for a directory with more files than a listing has.
class HttpdListings : public Httpd {
protected:
    void MakeMany() {
        std::filesystem::create_directory(root_ + "/many");
        for (int i = 0; i < 10050; i++) {
            // Further names of one file: much faster to make than as many files.
            ASSERT_EQ(link((root_ + "/hello.txt").c_str(),
                           (root_ + "/many/a file with a rather long name " + std::to_string(i)).c_str()),
                      0);
        }
    }

    // Clients that have asked for the listing, and do not read: the kernel holds a small part of the answer for them.
    std::vector<std::unique_ptr<Client>> Crowd() {
        std::vector<std::unique_ptr<Client>> crowd;
        for (int i = 0; i < 300; i++) {
            crowd.push_back(std::make_unique<Client>(port_, 4096));
        }
        for (auto& client : crowd) {
            EXPECT_TRUE(client->Send(Get("/many/")));
        }
        return crowd;
    }

    // How many have got the beginning of their answer.
    static int Begun(const std::vector<std::unique_ptr<Client>>& crowd) {
        int begun = 0;
        for (auto& client : crowd) {
            pollfd readable = {client->fd(), POLLIN, 0};
            begun += poll(&readable, 1, 0) == 1;
        }
        return begun;
    }
};

TEST_F(HttpdListings, EndAtALimit) {
    MakeMany();
    Start();
    Response listing = Ask(Get("/many/"));
    EXPECT_EQ(listing.status, 200);
    EXPECT_TRUE(listing.whole);
    size_t links = 0;
    for (size_t at = 0; (at = listing.body.find("<li>", at)) != std::string::npos; at++) {
        links++;
    }
    EXPECT_EQ(links, 10001u); // and "../"
    EXPECT_NE(listing.body.find("and more"), std::string::npos);
    Stop();
}

TEST_F(HttpdListings, AreSortedUnlessTheDirectoryIsLarge) {
    std::filesystem::create_directory(root_ + "/some");
    for (int i = 999; i >= 300; i--) {
        WriteFile("some/" + std::to_string(i * 3 % 700 + 300), "");
    }
    Start();
    Response listing = Ask(Get("/some/"));
    size_t at = 0;
    for (int i = 300; i < 1000; i++) {
        at = listing.body.find("<li><a href=\"./" + std::to_string(i) + "\">" + std::to_string(i) + "</a>", at);
        ASSERT_NE(at, std::string::npos) << i;
    }
    Stop();
}

TEST_F(HttpdListings, ComeInChunksOrToTheEndOfTheConnection) {
    MakeMany();
    Start();
    Client client(port_);
    ASSERT_TRUE(client.Send(Get("/many/") + Get("/many/", "", "HEAD") + Get("/hello.txt")));
    Response listing = client.Read();
    EXPECT_EQ(listing.Header("transfer-encoding"), "chunked");
    EXPECT_TRUE(listing.whole);
    EXPECT_EQ(client.Read(true).Header("transfer-encoding"), "chunked");
    EXPECT_EQ(client.Read().body, "hello\n") << "the connection goes on";

    Client old(port_); // HTTP/1.0 knows no chunks
    ASSERT_TRUE(old.Send("GET /many/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    Response header = old.Read();
    EXPECT_EQ(header.Header("connection"), "close");
    EXPECT_EQ(header.headers.count("transfer-encoding"), 0u);
    std::string body;
    EXPECT_TRUE(old.ReadToEnd(body));
    EXPECT_TRUE(body == listing.body);
    client.Close();
    EXPECT_TRUE(DescriptorsAreBack());
    Stop();
}

TEST_F(HttpdListings, OfManyClientsTakeLittleMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer takes more memory";
#endif
    MakeMany();
    Start();
    int64_t before = PeakResidentKib();
    std::vector<std::unique_ptr<Client>> crowd = Crowd();
    ASSERT_TRUE(Eventually([&] { return Begun(crowd) == 300; }));
    int64_t grown = PeakResidentKib() - before;
    RecordProperty("grown_kib", std::to_string(grown));
    EXPECT_LT(grown, 100 * 1024) << "KiB for 300 listings of more than a MiB each";
    Response listing = crowd.back()->Read();
    EXPECT_TRUE(listing.whole) << "the last one is served as the others are";
    crowd.clear();
    EXPECT_TRUE(DescriptorsAreBack());
    Stop();
}

TEST_F(Httpd, RedirectsADirectoryWithoutASlash) {
    std::filesystem::create_directories(root_ + "/sub dir/evil.test");
    std::filesystem::create_directories(root_ + "/evil.test");
    Start();
    Response response = Ask(Get("/sub%20dir"));
    EXPECT_EQ(response.status, 301);
    EXPECT_EQ(response.Header("location"), "/sub%20dir/");
    EXPECT_EQ(Ask(Get("/sub%20dir?a=b")).Header("location"), "/sub%20dir/?a=b");
    EXPECT_EQ(Ask(Get("//evil.test")).Header("location"), "/evil.test/") << "\"//evil.test/\" is another host";
    EXPECT_EQ(Ask(Get("////evil.test")).Header("location"), "/evil.test/");
    EXPECT_EQ(Ask(Get("http://test/evil.test")).Header("location"), "/evil.test/");
    Stop();
}

// ---- ranges and conditions ---------------------------------------------------------------------------------------

TEST_F(Httpd, ServesRanges) {
    Start();
    struct Case {
        const char* range;
        size_t first, count;
    } cases[] = {
        {"bytes=0-0", 0, 1},
        {"bytes=0-99", 0, 100},
        {"bytes=1000-1999", 1000, 1000},
        {"bytes=100000-300000", 100000, 200001},
        {"bytes=5242879-", 5242879, 1},
        {"bytes=5000000-", 5000000, 242880},
        {"bytes=-1", 5242879, 1},
        {"bytes=-100", 5242780, 100},
        {"bytes=-99999999", 0, 5242880},
        {"bytes=5242000-99999999999999999999999", 5242000, 880},
        {"BYTES=3-4", 3, 2},
        {"bytes=0-99  ", 0, 100},
    };
    Client client(port_);
    for (const Case& c : cases) {
        ASSERT_TRUE(client.Send(Get("/large.bin", std::string("Range: ") + c.range + "\r\n")));
        Response response = client.Read();
        EXPECT_EQ(response.status, 206) << c.range;
        EXPECT_TRUE(response.body == large_.substr(c.first, c.count)) << c.range;
        std::ostringstream content_range;
        content_range << "bytes " << c.first << "-" << c.first + c.count - 1 << "/" << large_.size();
        EXPECT_EQ(response.Header("content-range"), content_range.str());
    }
    Stop();
}

TEST_F(Httpd, RefusesRangesThatTheFileDoesNotHave) {
    WriteFile("empty", "");
    Start();
    Client client(port_);
    for (const char* range : {"bytes=6-", "bytes=6-7", "bytes=99999999999999999999-", "bytes=-0"}) {
        ASSERT_TRUE(client.Send(Get("/hello.txt", std::string("Range: ") + range + "\r\n")));
        Response response = client.Read();
        EXPECT_EQ(response.status, 416) << range;
        EXPECT_EQ(response.Header("content-range"), "bytes */6");
    }
    EXPECT_EQ(Ask(Get("/empty", "Range: bytes=0-\r\n")).status, 416);
    EXPECT_EQ(Ask(Get("/empty", "Range: bytes=-5\r\n")).status, 416);
    Stop();
}

TEST_F(Httpd, AnswersRangesItDoesNotUnderstandWithTheWholeFile) {
    Start();
    Client client(port_);
    for (const char* range : {"bytes=", "bytes=-", "bytes=a-b", "bytes=1", "bytes=3-2", "bytes=1-2x", "bytes 1-2",
                              "lines=1-2", "bytes=0-0,2-3", "bytes=-1-2", "bytes=--1", "bytes=1 -2", "", "-"}) {
        ASSERT_TRUE(client.Send(Get("/hello.txt", std::string("Range: ") + range + "\r\n")));
        Response response = client.Read();
        EXPECT_EQ(response.status, 200) << range;
        EXPECT_EQ(response.body, "hello\n") << range;
        EXPECT_EQ(response.headers.count("content-range"), 0u) << range;
    }
    ASSERT_TRUE(client.Send(Get("/hello.txt", "Range: bytes=0-0\r\n", "HEAD")));
    EXPECT_EQ(client.Read(true).status, 200) << "ranges are for GET alone";
    Stop();
}

TEST_F(Httpd, AnswersIfModifiedSince) {
    struct timespec times[2] = {{784111777, 0}, {784111777, 0}}; // Sun, 06 Nov 1994 08:49:37
    ASSERT_EQ(utimensat(AT_FDCWD, (root_ + "/hello.txt").c_str(), times, 0), 0);
    Start();
    struct Case {
        const char* fields;
        int status;
    } cases[] = {
        {"If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 304},
        {"if-modified-since:Sunday, 06-Nov-94 08:49:37 GMT\r\n", 304},
        {"If-Modified-Since: Sun Nov  6 08:49:37 1994\r\n", 304},
        {"If-Modified-Since: Sun, 06 Nov 1994 08:49:38 GMT\r\n", 304},
        {"If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", 200},
        {"If-Modified-Since: yesterday\r\n", 200},
        {"If-Modified-Since: \r\n", 200},
        {"If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT, and so on and on and on and on and on and on\r\n", 200},
        {"If-None-Match: \"x\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 200},
        {"If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nRange: bytes=0-1\r\n", 304},
        {"If-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\nRange: bytes=0-1\r\n", 206},
        {"If-Range: Sun, 06 Nov 1994 08:49:38 GMT\r\nRange: bytes=0-1\r\n", 200},
        {"If-Range: \"tag\"\r\nRange: bytes=0-1\r\n", 200},
    };
    Client client(port_);
    for (const Case& c : cases) {
        ASSERT_TRUE(client.Send(Get("/hello.txt", c.fields)));
        Response response = client.Read();
        EXPECT_EQ(response.status, c.status) << c.fields;
        EXPECT_EQ(response.body, c.status == 304 ? "" : c.status == 206 ? "he" : "hello\n") << c.fields;
        EXPECT_EQ(response.Header("last-modified"), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
    Stop();
}

// ---- out of the root ---------------------------------------------------------------------------------------------

class HttpdEscape : public Httpd {
protected:
    void MakeLinks() {
        namespace fs = std::filesystem;
        fs::create_directory(root_ + "/sub");
        WriteFile("sub/file.txt", "inside");
        fs::create_symlink("../secret.txt", root_ + "/relative");
        fs::create_symlink(top_ + "/secret.txt", root_ + "/absolute");
        fs::create_symlink("..", root_ + "/sub/up");
        fs::create_symlink("../..", root_ + "/sub/upup");
        fs::create_symlink("/", root_ + "/slash");
        fs::create_symlink("/proc/self/cwd", root_ + "/magic");
        fs::create_symlink("loop", root_ + "/loop");
        fs::create_symlink("sub/file.txt", root_ + "/good");
        fs::create_symlink("sub", root_ + "/goodsub");
        fs::create_directory(root_ + "/indexed");
        fs::create_symlink("../../secret.txt", root_ + "/indexed/index.html");
        fs::create_directory(root_ + "-beside"); // its name begins like the root's
        WriteFile("../root-beside/secret.txt", "the secret");
        fs::create_symlink("../root-beside/secret.txt", root_ + "/beside");
    }

    void TryLinks() {
        Client client(port_);
        for (const char* path :
             {"/relative", "/absolute", "/sub/upup/secret.txt", "/slash/etc/passwd", "/slash/", "/slash", "/magic/",
              "/sub/upup/", "/sub/upup", "/indexed/", "/indexed/index.html", "/loop", "/beside"}) {
            ASSERT_TRUE(client.Send(Get(path)));
            Response response = client.Read();
            EXPECT_EQ(response.status, 403) << path;
            EXPECT_EQ(response.body.find("secret"), std::string::npos) << path;
        }
        for (const char* path : {"/good", "/goodsub/file.txt", "/sub/up/sub/file.txt"}) {
            ASSERT_TRUE(client.Send(Get(path)));
            EXPECT_EQ(client.Read().body, "inside") << path;
        }
    }
};

TEST_F(HttpdEscape, RefusesPathsOutOfTheRoot) {
    std::filesystem::create_directory(root_ + "/sub");
    Start();
    for (const char* path : {"/../secret.txt",
                             "/sub/../../secret.txt",
                             "/..",
                             "/../",
                             "/sub/..",
                             "/%2e%2e/secret.txt",
                             "/%2E%2E/secret.txt",
                             "/.%2e/secret.txt",
                             "/%2e./secret.txt",
                             "/..%2fsecret.txt",
                             "/%2e%2e%2fsecret.txt",
                             "/sub/%2e%2e/%2e%2e/secret.txt",
                             "/sub/..%2f..%2fsecret.txt",
                             "/..\\secret.txt",
                             "/..%5csecret.txt",
                             "/sub\\..\\..\\secret.txt",
                             "/%5c..%5csecret.txt",
                             "//../secret.txt",
                             "/./../secret.txt",
                             "/.//../secret.txt",
                             "/%00",
                             "/hello.txt%00.html",
                             "/%00/../secret.txt",
                             "/..%00/secret.txt",
                             "/%2e%2e/%2e%2e/etc/passwd",
                             "/sub/../../../../../../../../etc/passwd",
                             "http://test/../secret.txt",
                             "../secret.txt",
                             "/....//....//secret.txt",
                             "/%252e%252e/secret.txt",
                             "/..;/secret.txt",
                             "/%c0%ae%c0%ae/secret.txt",
                             "/\xc0\xae\xc0\xae/secret.txt"}) {
        Response response = Ask(Get(path));
        EXPECT_TRUE(response.status == 400 || response.status == 403 || response.status == 404)
            << path << " " << response.status;
        EXPECT_EQ(response.body.find("secret"), std::string::npos) << path;
    }
    // Request lines that no client library would send.
    Response response = Ask("GET " + top_ + "/secret.txt HTTP/1.1\r\nHost: test\r\n\r\n");
    EXPECT_EQ(response.status, 404);
    ExpectAlive();
    Stop();
}

TEST_F(HttpdEscape, DoesNotFollowLinksOutOfTheRoot) {
    MakeLinks();
    Start();
    TryLinks();
    EXPECT_TRUE(DescriptorsAreBack());
    Stop();
}

TEST_F(HttpdEscape, DoesNotFollowLinksOutOfTheRootWithoutOpenat2) {
    MakeLinks();
    for (int error : {ENOSYS, EPERM}) {
        Start({}, [error] { RefuseSystemCall(SYS_openat2, error); });
        TryLinks();
        EXPECT_TRUE(DescriptorsAreBack());
        Stop();
    }
}

// ---- connections -------------------------------------------------------------------------------------------------

TEST_F(Httpd, ServesManyRequestsOnOneConnection) {
    Start();
    Client client(port_);
    for (int i = 0; i < 1000; i++) {
        ASSERT_TRUE(client.Send(Get("/hello.txt")));
        ASSERT_EQ(client.Read().body, "hello\n") << i;
    }
    Stop();
}

TEST_F(Httpd, KeepsOrEndsTheConnectionAsAsked) {
    Start();
    struct Case {
        const char* request;
        const char* connection;
        bool ends;
    } cases[] = {
        {"GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n", "", false},
        {"GET /hello.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "close", true},
        {"GET /hello.txt HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n", "close", true},
        {"GET /hello.txt HTTP/1.0\r\n\r\n", "close", true},
        {"GET /hello.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "keep-alive", false},
        {"GET /hello.txt HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "close",
         true},
        {"\r\n\r\nGET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n", "", false},
        {"GET /hello.txt HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", "", false},
    };
    for (const Case& c : cases) {
        Client client(port_);
        ASSERT_TRUE(client.Send(c.request));
        Response response = client.Read();
        EXPECT_EQ(response.status, 200) << c.request;
        EXPECT_EQ(response.body, "hello\n") << c.request;
        EXPECT_EQ(response.Header("connection"), c.connection) << c.request;
        if (c.ends) {
            EXPECT_TRUE(client.AtEnd()) << c.request;
        } else {
            EXPECT_TRUE(client.IsSilent(200)) << c.request;
            ASSERT_TRUE(client.Send(c.request));
            EXPECT_EQ(client.Read().body, "hello\n") << c.request;
        }
    }
    Stop();
}

TEST_F(Httpd, AnswersPipelinedRequestsInOrder) {
    std::string requests;
    for (int i = 0; i < 10; i++) {
        WriteFile(std::to_string(i), "file " + std::to_string(i));
        requests += Get("/" + std::to_string(i));
    }
    Start();
    Client client(port_);
    for (int round = 0; round < 20; round++) {
        ASSERT_TRUE(client.Send(requests));
        for (int i = 0; i < 10; i++) {
            ASSERT_EQ(client.Read().body, "file " + std::to_string(i));
        }
    }
    Stop();
}

TEST_F(Httpd, AnswersPipelinedRequestsHoweverTheyAreCut) {
    std::string requests;
    for (int i = 0; i < 10; i++) {
        WriteFile(std::to_string(i), "file " + std::to_string(i));
        requests += Get("/" + std::to_string(i), "X-Filler: " + std::string(static_cast<size_t>(i) * 7, 'x') + "\r\n");
    }
    Start();
    for (size_t piece : {1u, 2u, 3u, 7u, 50u, 101u}) {
        Client client(port_);
        std::thread sender([&] { client.Trickle(requests, 0, piece); });
        for (int i = 0; i < 10; i++) {
            EXPECT_EQ(client.Read().body, "file " + std::to_string(i)) << piece;
        }
        sender.join();
    }
    Stop();
}

TEST_F(Httpd, AnswersMorePipelinedRequestsThanItsBufferHolds) {
    Start();
    Client client(port_);
    std::string requests;
    for (int i = 0; i < 3000; i++) {
        requests += Get("/hello.txt", i % 7 == 0 ? "Range: bytes=0-1\r\nX: " + std::string(500, 'x') + "\r\n" : "");
    }
    std::thread sender([&] { client.Send(requests); });
    for (int i = 0; i < 3000; i++) {
        Response response = client.Read();
        EXPECT_EQ(response.body, i % 7 == 0 ? "he" : "hello\n") << i;
        if (HasFailure()) {
            client.Reset();
            break;
        }
    }
    sender.join();
    Stop();
}

TEST_F(Httpd, AnswersAHalfClosedClient) {
    Start();
    for (const char* path : {"/hello.txt", "/large.bin"}) {
        Client client(port_);
        ASSERT_TRUE(client.Send(Get(path)));
        client.HalfClose();
        Response response = client.Read();
        EXPECT_EQ(response.status, 200);
        EXPECT_TRUE(response.whole);
        EXPECT_TRUE(client.AtEnd());
    }
    Client client(port_);
    ASSERT_TRUE(client.Send("GET /hello.txt HTT"));
    client.HalfClose();
    EXPECT_TRUE(client.AtEnd()) << "half a request and then the end";
    EXPECT_TRUE(DescriptorsAreBack());
    Stop();
}

TEST_F(Httpd, SurvivesResetsAtAnyMoment) {
    Start();
    for (int i = 0; i < 100; i++) {
        Client client(port_, 4096);
        switch (i % 4) {
        case 0:
            client.Send(Get("/large.bin"));
            Sleep(i % 8);
            break;
        case 1: client.Send("GET /large.b"); break;
        case 2: client.Send(Get("/large.bin") + Get("/large.bin") + Get("/", "Content-Length: 9\r\n", "POST")); break;
        default: break;
        }
        client.Reset();
    }
    EXPECT_TRUE(DescriptorsAreBack());
    ExpectAlive();
    Stop();
}

// ---- bad requests ------------------------------------------------------------------------------------------------

TEST_F(Httpd, RefusesMalformedRequests) {
    Start();
    const std::string malformed[] = {
        "\x16\x03\x01\x02", // the beginning of a TLS handshake
        "hello\r\n\r\n",
        "get /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET\r\n\r\n",
        "GET /hello.txt\r\n\r\n",
        "GET /hello.txt HTTP\r\n\r\n",
        "GET /hello.txt HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET /hello.txt HTTP/x.1\r\nHost: a\r\n\r\n",
        "GET /hello.txt ICE/1.0\r\nHost: a\r\n\r\n",
        "GET /hello .txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET hello.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nName : value\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\n: nameless\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nX: y\x01\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5x\r\n\r\nhello",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "GET /hello.txt\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /hel\tlo.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET  /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /hello.txt  HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET\t/hello.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        " GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /hello.txt HTTP/1.1x\r\nHost: a\r\n\r\n",
        "GET /hello.txt HTTP/01.1\r\nHost: a\r\n\r\n",
        "GET /hello.txt#part HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET ftp://a/hello.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http:///hello.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://user@a/hello.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\nhello",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"
        "0\r\n\r\n",
    };
    for (const std::string& request : malformed) {
        Client client(port_);
        ASSERT_TRUE(client.Send(request));
        Response response = client.Read();
        EXPECT_EQ(response.status, 400) << request;
        EXPECT_TRUE(response.whole) << request;
        if (response.Header("connection") == "close") {
            client.HalfClose();
            EXPECT_TRUE(client.AtEnd()) << request;
        }
    }
    EXPECT_EQ(Ask("GET /hello.txt HTTP/2.0\r\nHost: a\r\n\r\n").status, 505);
    EXPECT_TRUE(DescriptorsAreBack());
    ExpectAlive();
    Stop();
}

TEST_F(Httpd, RefusesAHostThatIsNoHost) {
    Start();
    for (const char* good : {"a", "a:80", "a:", "", "A-b_c.example.", "127.0.0.1:8080", "[::1]", "[::1]:80", "a%20b"}) {
        EXPECT_EQ(Ask("GET /hello.txt HTTP/1.1\r\nHost: \t" + std::string(good) + " \r\n\r\n").status, 200) << good;
    }
    for (const char* bad :
         {"a b", "a\tb",   "a b:80", "a:80 b",    "a:8x", "a:80:80", "a:-1", "http://a/", "a/b",  "a?b",
          "a#b", "u@a",    "a\\b",   "\"a\"",     "<a>",  "a%2",     "a%zz", "a\xc3\xa9", "[::1", "::1",
          "[]",  "[::1]x", "[a b]",  "[::1] :80", "{a}",  "a|b",     "a^b",  "a`b"}) {
        for (const char* version : {"1.1", "1.0"}) {
            Response response = Ask("GET /hello.txt HTTP/" + std::string(version) + "\r\nHost: " + bad + "\r\n\r\n");
            EXPECT_EQ(response.status, 400) << bad;
            EXPECT_EQ(response.Header("connection"), "close") << bad;
        }
    }
    ExpectAlive();
    Stop();
}

// A field that continues on the next line, which begins with a blank.
TEST_F(Httpd, RefusesFoldedFields) {
    Start();
    for (const char* fields :
         {"Host: a\r\nX: y\r\n z\r\n\r\n", "Host: a\r\nX: y\r\n\tz\r\n\r\n", "Host: a\r\nX:\r\n y\r\n\r\n",
          "Host:\r\n a\r\n\r\n", "Host: a\r\n b\r\n\r\n", "Host: a\r\n \r\n\r\n", "Host: a\r\nX: y\r\n\t\r\n\r\n",
          " Host: a\r\n\r\n", " X: y\r\nHost: a\r\n\r\n", "Host: a\r\nX: y\r\n z: x\r\n\r\n",
          "Host: a\r\nConnection:\r\n close\r\n\r\n",
          "Host: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n z\r\n\r\n",
          "Host: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"}) {
        Response response = Ask("GET /hello.txt HTTP/1.1\r\n" + std::string(fields));
        EXPECT_EQ(response.status, 400) << fields;
        EXPECT_EQ(response.Header("connection"), "close") << fields;
    }
    ExpectAlive();
    Stop();
}

// Wherever a request has CR LF: LF alone, CR alone, LF CR, and CR CR LF, in one piece and byte by byte.
TEST_F(Httpd, RefusesLinesThatEndWithAnythingButCrLf) {
    Start();
    const std::string good = "\r\n" + Get("/hello.txt", "X: y\r\nTransfer-Encoding: chunked\r\n", "POST") +
                             "5;x=y\r\nhello\r\n0\r\nTrailer: x\r\n\r\n";
    EXPECT_EQ(Ask(good).status, 405);
    int line = 0;
    for (size_t at = 0; (at = good.find("\r\n", at)) != std::string::npos; at += 2, line++) {
        for (const char* end : {"\n", "\r", "\n\r", "\r\r\n", "\rx"}) {
            std::string bad = good;
            bad.replace(at, 2, end);
            Client client(port_);
            ASSERT_TRUE(client.Send(bad + "\r\n\r\n"));
            EXPECT_EQ(client.Read().status, 400) << bad;
            Client slow(port_);
            for (char byte : bad + "\r\n\r\n") {
                if (!slow.Send(std::string(1, byte))) {
                    break; // refused before the end
                }
            }
            EXPECT_EQ(slow.Read().status, 400) << bad;
        }
    }
    EXPECT_EQ(line, 11);
    EXPECT_EQ(Ask("GET /hello.txt HTTP/1.1\nHost: a\n\n").status, 400);
    ExpectAlive();
    Stop();
}

TEST_F(Httpd, RefusesNulBytes) {
    Start();
    const std::string nul(1, '\0');
    const std::string requests[] = {
        nul + Get("/hello.txt"),
        "GET /hello.txt" + nul + " HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHo" + nul + "st: a\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a" + nul + "b\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: a\r\nX: " + nul + "\r\n\r\n",
        std::string(100, '\0'),
    };
    for (const std::string& request : requests) {
        EXPECT_EQ(Ask(request).status, 400);
    }
    ExpectAlive();
    Stop();
}

TEST_F(Httpd, SurvivesRandomBytes) {
    Start();
    for (size_t i = 0; i < 200; i++) {
        Client client(port_);
        std::string noise = large_.substr(i * 1000, 1 + i * 37 % 900);
        if (i % 2 == 0) { // noise within a request
            std::string request = Get("/hello.txt", "Range: bytes=1-2\r\n");
            request.replace(i % request.size(), 1, noise.substr(0, 3));
            noise = request;
        }
        client.Send(noise);
        client.HalfClose();
        std::string reply;
        ASSERT_TRUE(client.ReadToEnd(reply)) << "it hangs at round " << i;
    }
    EXPECT_TRUE(DescriptorsAreBack());
    ExpectAlive();
    Stop();
}

TEST_F(Httpd, RefusesHeadersThatAreTooLarge) {
    Start();
    std::string many;
    for (int i = 0; i < 2000; i++) {
        many += "X" + std::to_string(i) + ": y\r\n";
    }
    const std::string requests[] = {
        Get("/hello.txt", "X: " + std::string(17000, 'x') + "\r\n"),
        Get("/hello.txt", "X: " + std::string(100000, 'x') + "\r\n"),
        Get("/hello.txt", std::string(17000, 'x') + ": x\r\n"),
        Get("/hello.txt", "X: " + std::string(17000, ' ') + "x\r\n"),
        Get("/hello.txt", many),
        "GET /hello.txt HTTP/1.1\r\nX: " + std::string(1 << 20, 'x'), // it never ends
    };
    for (const std::string& request : requests) {
        Client client(port_);
        client.Send(request);
        EXPECT_EQ(client.Read().status, 431) << request.substr(0, 40);
        client.HalfClose();
        std::string rest;
        EXPECT_EQ(client.Receive(rest, 1), 0) << "an end in order, not a reset that could overtake the answer";
    }
    std::string newlines;
    for (int i = 0; i < 20000; i++) {
        newlines += "\r\n";
    }
    EXPECT_EQ(Ask(newlines).status, 431);
    EXPECT_EQ(Ask(Get("/hello.txt", "X: " + std::string(15000, 'x') + "\r\n")).status, 200) << "not too large";
    ExpectAlive();
    Stop();
}

TEST_F(Httpd, RefusesUrlsThatAreTooLong) {
    Start();
    for (size_t length : {8193u, 9000u, 20000u, 200000u}) {
        Client client(port_);
        client.Send(Get("/" + std::string(length, 'x')));
        EXPECT_EQ(client.Read().status, 414) << length;
    }
    EXPECT_EQ(Ask(Get("/" + std::string(8000, 'x'))).status, 404) << "not too long";
    EXPECT_EQ(Ask(Get("/hello.txt?" + std::string(8000, 'x'))).status, 200) << "not too long";
    ExpectAlive();
    Stop();
}

TEST_F(Httpd, RefusesMethodsItDoesNotHave) {
    Start();
    Client client(port_);
    for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "PROPFIND"}) {
        ASSERT_TRUE(client.Send(Get("/hello.txt", "Content-Length: 3\r\n", method) + "abc"));
        Response response = client.Read();
        EXPECT_EQ(response.status, 405) << method;
        EXPECT_EQ(response.Header("allow"), "GET, HEAD") << method;
    }
    ASSERT_TRUE(client.Send(Get("/hello.txt")));
    EXPECT_EQ(client.Read().body, "hello\n") << "the bodies were read and the connection goes on";
    EXPECT_EQ(Ask("CONNECT example.test:443 HTTP/1.1\r\nHost: example.test\r\n\r\n").status, 405);
    EXPECT_EQ(Ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").status, 405);
    Stop();
}

TEST_F(Httpd, ReadsBodiesAndForgetsThem) {
    Start();
    Client client(port_);
    for (size_t size : {0u, 1u, 1000u, 20000u, 1u << 20}) {
        std::string body = large_.substr(0, size);
        ASSERT_TRUE(client.Send(Get("/hello.txt", "Content-Length: " + std::to_string(size) + "\r\n") + body +
                                Get("/hello.txt", "Range: bytes=0-1\r\n")));
        EXPECT_EQ(client.Read().body, "hello\n") << size;
        EXPECT_EQ(client.Read().body, "he") << size;
    }
    for (size_t size : {1u, 1000u, 30000u}) {
        std::ostringstream body;
        for (size_t at = 0; at < 300000; at += size) {
            body << std::hex << size << ";extension=x\r\n" << large_.substr(at, size) << "\r\n";
            if (at > 100 * size) {
                break;
            }
        }
        body << "0\r\nRange: bytes=0-0\r\n\r\n"; // a trailer's fields are ignored
        ASSERT_TRUE(client.Send(Get("/hello.txt", "Transfer-Encoding: chunked\r\n") + body.str() + Get("/large.bin")));
        EXPECT_EQ(client.Read().body, "hello\n") << size;
        EXPECT_TRUE(client.Read().body == large_) << size;
    }
    Stop();
}

// In one piece, and byte by byte.
TEST_F(Httpd, RefusesChunksThatDoNotEndAsTheyMust) {
    Start();
    struct Case {
        const char* body;
        int status;
    } cases[] = {
        {"5\r\nhello\r\n0\r\n\r\n", 200},
        {"5\r\nhello\r\n3\r\nabc\r\n0\r\nTrailer: x\r\n\r\n", 200},
        {"1\r\n\r\r\n1\r\n\n\r\n0\r\n\r\n", 200},
        {"5\r\nhelloXX0\r\n\r\n", 400},
        {"5\r\nhello\rX0\r\n\r\n", 400},
        {"5\r\nhelloX\n0\r\n\r\n", 400},
        {"5\r\nhello\n\n0\r\n\r\n", 400},
        {"5\rXhello\r\n0\r\n\r\n", 400},
        {"5\r\nhello\r\n0\rX\r\n", 400},
        {"5 \r\nhello\r\n0\r\n\r\n", 400},
        {"5\t\r\nhello\r\n0\r\n\r\n", 400},
        {" 5\r\nhello\r\n0\r\n\r\n", 400},
        {"5 ;x=y\r\nhello\r\n0\r\n\r\n", 400},
        {"5; x=y\r\nhello\r\n0\r\n\r\n", 400},
        {"5;x=y \r\nhello\r\n0\r\n\r\n", 400},
        {"5;\r\nhello\r\n0\r\n\r\n", 400},
        {"5;x=\xff\r\nhello\r\n0\r\n\r\n", 400},
        {"5\r\nhello\r\n0 \r\n\r\n", 400},
        {"5\r\nhello\r\n\r\n0\r\n\r\n", 400},
        {"\r\n5\r\nhello\r\n0\r\n\r\n", 400},
        {"0x5\r\nhello\r\n0\r\n\r\n", 400},
        {"+5\r\nhello\r\n0\r\n\r\n", 400},
        {"-5\r\nhello\r\n0\r\n\r\n", 400},
        {";x=y\r\n\r\n", 400},
        {"5\r\nhello!\r\n0\r\n\r\n", 400},
        {"5\r\nhello\r\n0\r\nno colon\r\n\r\n", 400},
        {"5\r\nhello\r\n0\r\nName : x\r\n\r\n", 400},
        {"10000000000000005\r\nhello\r\n0\r\n\r\n", 413},
        {"fffffffffffffffe\r\nhello\r\n0\r\n\r\n", 413},
    };
    for (const Case& c : cases) {
        std::string request = Get("/hello.txt", "Transfer-Encoding: chunked\r\n") + c.body;
        EXPECT_EQ(Ask(request).status, c.status) << c.body;
        Client client(port_);
        for (char byte : request) {
            if (!client.Send(std::string(1, byte))) {
                break; // refused before the end
            }
            std::this_thread::sleep_for(std::chrono::microseconds(300));
        }
        EXPECT_EQ(client.Read().status, c.status) << c.body;
    }
    Stop();
}

TEST_F(Httpd, RefusesBodiesThatAreTooLarge) {
    Start();
    for (const char* length : {"1048577", "99999999999"}) {
        Client client(port_);
        ASSERT_TRUE(client.Send(Get("/hello.txt", std::string("Content-Length: ") + length + "\r\n", "POST")));
        Response response = client.Read();
        EXPECT_EQ(response.status, 413) << length;
        EXPECT_EQ(response.Header("connection"), "close");
    }
    for (size_t chunk : {1u, 65536u}) { // one byte a chunk: the frames count too
        Client client(port_);
        ASSERT_TRUE(client.Send(Get("/hello.txt", "Transfer-Encoding: chunked\r\n", "POST")));
        std::ostringstream piece;
        while (piece.tellp() < 65536) {
            piece << std::hex << chunk << "\r\n" << std::string(chunk, 'x') << "\r\n";
        }
        size_t sent = 0;
        while (sent < (4 << 20) && client.Send(piece.str())) {
            sent += piece.str().size();
        }
        EXPECT_EQ(client.Read().status, 413) << chunk;
    }
    EXPECT_TRUE(DescriptorsAreBack());
    ExpectAlive();
    Stop();
}

TEST_F(Httpd, AnswersAnExpectationAtOnce) {
    Start();
    Client client(port_);
    ASSERT_TRUE(client.Send(Get("/hello.txt", "Expect: 100-continue\r\nContent-Length: 100000\r\n", "PUT")));
    Response response = client.Read(); // the body is not sent before the answer
    EXPECT_EQ(response.status, 405);
    EXPECT_EQ(response.Header("connection"), "close");
    client.Close();
    Stop();
}

// ---- slow clients ------------------------------------------------------------------------------------------------

TEST_F(Httpd, ServesATrickledRequest) {
    Start({"--request-timeout-ms", "10000", "--idle-timeout-ms", "10000"});
    Client client(port_);
    for (int round = 0; round < 2; round++) {
        ASSERT_TRUE(client.Trickle(Get("/hello.txt", "Range: bytes=1-3\r\n"), 3));
        Response response = client.Read();
        EXPECT_EQ(response.status, 206);
        EXPECT_EQ(response.body, "ell");
    }
    Stop();
}

TEST_F(Httpd, CutsOffARequestThatIsTrickledTooSlowly) {
    Start({"--request-timeout-ms", "300"});
    const std::string requests[] = {
        Get("/hello.txt", "X: " + std::string(1000, 'x') + "\r\n"),
        Get("/hello.txt", "Content-Length: 1000\r\n") + std::string(1000, 'x'),
        Get("/hello.txt") + Get("/hello.txt", "X: " + std::string(1000, 'x') + "\r\n"),
    };
    for (const std::string& request : requests) {
        size_t quick = request.find("X: ") != std::string::npos ? 20 : request.size() - 1000;
        if (request.find("GET", 1) != std::string::npos) {
            quick = request.find("GET", 1);
        }
        Client client(port_);
        Clock::time_point start = Clock::now();
        ASSERT_TRUE(client.Send(request.substr(0, quick)));
        std::thread sender([&] { client.Trickle(request.substr(quick), 20); });
        Response response = client.Read();
        if (request.find("GET", 1) != std::string::npos) {
            EXPECT_EQ(response.status, 200);
            response = client.Read();
        }
        EXPECT_EQ(response.status, 408);
        EXPECT_GE(MillisecondsSince(start), 290);
        EXPECT_LT(MillisecondsSince(start), 5000) << "every byte must not buy more time";
        EXPECT_TRUE(client.AtEnd());
        client.Reset();
        sender.join();
    }
    EXPECT_TRUE(DescriptorsAreBack());
    Stop();
}

TEST_F(Httpd, ClosesConnectionsThatStayIdle) {
    Start({"--idle-timeout-ms", "2000"});
    Client silent(port_);
    Client used(port_);
    Clock::time_point start = Clock::now();
    ASSERT_TRUE(used.Send(Get("/hello.txt")));
    EXPECT_EQ(used.Read().status, 200);
    EXPECT_TRUE(silent.AtEnd());
    EXPECT_TRUE(used.AtEnd());
    EXPECT_GE(MillisecondsSince(start), 1990);
    EXPECT_LT(MillisecondsSince(start), 30000);
    EXPECT_TRUE(DescriptorsAreBack());
    Stop();
}

TEST_F(Httpd, KeepsConnectionsThatAreUsedInTime) {
    Start({"--idle-timeout-ms", "1000", "--request-timeout-ms", "1000"});
    int used = 0;
    for (int tries = 0; used < 8 && tries < 20; tries++) {
        Clock::time_point before = Clock::now();
        Client client(port_);
        for (used = 0; used < 8; used++) {
            Sleep(250);
            Clock::time_point asked = Clock::now();
            bool sent = client.Send(Get("/hello.txt"));
            std::string body = client.Read().body;
            if (MillisecondsSince(before) > 800) {
                break; // this machine stood still, and it was not used in time: once more
            }
            ASSERT_TRUE(sent);
            ASSERT_EQ(body, "hello\n") << "timeouts of earlier requests must not add up";
            before = asked;
        }
    }
    EXPECT_EQ(used, 8) << "was never used in time";
    Stop();
}

TEST_F(Httpd, CutsOffAClientThatNeverReads) {
    MakeHugeFile("huge.bin", 256 << 20);
    Start({"--write-timeout-ms", "300"});
    Client client(port_, 4096);
    ASSERT_TRUE(client.Send(Get("/huge.bin")));
    std::string received;
    ASSERT_GT(client.Receive(received, 1), 0) << "the server has the connection and the file open";
    EXPECT_TRUE(DescriptorsAreBack(30000));
    EXPECT_TRUE(client.ReadToEnd(received));
    EXPECT_LT(received.size(), size_t{256} << 20);
    ExpectAlive();
    Stop();
}

TEST_F(Httpd, ServesASlowClientThatMakesProgress) {
    const size_t size = 128 << 20; // much more than the buffers of both sockets hold
    MakeHugeFile("huge.bin", size);
    Start({"--write-timeout-ms", "600", "--request-timeout-ms", "600"});
    size_t total = 0;
    int64_t longest = 0;
    int tries = 0;
    do { // again if it was too slow, as this machine stood still, and was cut off
        Client client(port_, 1 << 20);
        ASSERT_TRUE(client.Send(Get("/huge.bin")));
        total = 0;
        longest = 0;
        std::string received;
        Clock::time_point start = Clock::now();
        Clock::time_point before = start;
        while (total < size && client.Receive(received, 1 << 20) > 0) {
            longest = std::max<int64_t>(longest, MillisecondsSince(before));
            before = Clock::now();
            total += received.size();
            received.clear();
            if (MillisecondsSince(start) < 1300) {
                Sleep(10);
            }
        }
        longest = std::max<int64_t>(longest, MillisecondsSince(before));
        EXPECT_TRUE(total < size || MillisecondsSince(start) > 1200) << "it is meant to take longer than the timeout";
    } while (total < size && longest > 480 && ++tries < 20);
    EXPECT_GE(total, size);
    Stop();
}

// ---- many clients ------------------------------------------------------------------------------------------------

void RaiseDescriptorLimit() {
    rlimit limit;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ASSERT_GT(limit.rlim_cur, 2200u) << "the hard limit of descriptors is too low for this test";
}

TEST_P(HttpdThreads, AThousandIdleConnectionsDoNotStopTheNext) {
    RaiseDescriptorLimit();
    Start({"--request-timeout-ms", "300000", "--idle-timeout-ms", "300000"}); // however long a thousand take
    std::vector<std::unique_ptr<Client>> idle;
    for (int i = 0; i < 1000; i++) {
        idle.push_back(std::make_unique<Client>(port_));
        ASSERT_TRUE(idle.back()->connected()) << i;
        if (i % 3 == 1) {
            ASSERT_TRUE(idle.back()->Send("GET /hel")); // and some have begun to say something
        }
    }
    ASSERT_TRUE(Eventually([&] { return Descriptors() == descriptors_ + 1000; }));
    Clock::time_point start = Clock::now();
    ExpectAlive();
    EXPECT_LT(MillisecondsSince(start), 2000);
    for (size_t i = 0; i < 1000; i++) {
        ASSERT_TRUE(idle[i]->Send(i % 3 == 1 ? Get("/hello.txt").substr(8) : Get("/hello.txt")));
        ASSERT_EQ(idle[i]->Read().body, "hello\n") << i;
    }
    idle.clear();
    EXPECT_TRUE(DescriptorsAreBack());
    Stop();
}

TEST_P(HttpdThreads, RefusesConnectionsBeyondItsLimit) {
    Start({"--max-connections", "5"});
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 5; i++) {
        clients.push_back(std::make_unique<Client>(port_));
        ASSERT_TRUE(clients.back()->Send(Get("/hello.txt")));
        ASSERT_EQ(clients.back()->Read().status, 200);
    }
    for (int i = 0; i < 20; i++) {
        Client beyond(port_);
        beyond.Send(Get("/hello.txt"));
        Response response = beyond.Read();
        ASSERT_EQ(response.status, 503);
        EXPECT_EQ(response.Header("connection"), "close");
        EXPECT_TRUE(response.whole);
        EXPECT_TRUE(beyond.AtEnd());
    }
    for (int i = 0; i < 5; i++) { // clients within the limit do not notice
        ASSERT_TRUE(clients[static_cast<size_t>(i)]->Send(Get("/hello.txt")));
        ASSERT_EQ(clients[static_cast<size_t>(i)]->Read().status, 200);
    }
    clients.pop_back();
    EXPECT_TRUE(Eventually([&] { return Ask(Get("/hello.txt")).status == 200; }));

    // A crowd far beyond the limit: every client gets an answer or is closed, none is kept waiting.
    clients.clear();
    for (int i = 0; i < 300; i++) {
        clients.push_back(std::make_unique<Client>(port_));
        clients.back()->Send(Get("/hello.txt", "Connection: close\r\n"));
    }
    for (auto& client : clients) {
        std::string reply;
        EXPECT_TRUE(client->ReadToEnd(reply));
    }
    clients.clear();
    EXPECT_TRUE(DescriptorsAreBack());
    ExpectAlive();
    Stop();
}

TEST_P(HttpdThreads, ConnectionsThatComeAtOnceDoNotExceedItsLimit) {
    Start({"--max-connections", "5"});
    std::vector<std::unique_ptr<Client>> clients;
    ASSERT_TRUE(process_->Signal(SIGSTOP)); // when it goes on, all its threads accept
    for (int i = 0; i < 60; i++) {
        clients.push_back(std::make_unique<Client>(port_));
        ASSERT_TRUE(clients.back()->Send(Get("/hello.txt")));
    }
    ASSERT_TRUE(process_->Signal(SIGCONT));
    int answered = 0;
    for (auto& client : clients) {
        int status = client->Read().status;
        answered += status == 200;
        EXPECT_TRUE(status == 200 || status == 503 || status == 0) << status;
    }
    EXPECT_EQ(answered, 5) << "no connection has ended";
    clients.clear();
    EXPECT_TRUE(DescriptorsAreBack());
    ExpectAlive();
    Stop();
}

// Its limit of connections, where none is given, leaves each of them a descriptor for its file.
TEST_F(Httpd, KeepsDescriptorsForEachOfItsThreads) {
    MakeHugeFile("huge.bin", 64 << 20);
    Start({"--threads", "16"}, [] {
        rlimit few = {200, 200};
        setrlimit(RLIMIT_NOFILE, &few);
    });
    std::vector<std::unique_ptr<Client>> downloads;
    std::string received;
    do {
        ASSERT_LT(downloads.size(), 100u) << "each has two descriptors";
        downloads.push_back(std::make_unique<Client>(port_, 4096));
        ASSERT_TRUE(downloads.back()->Send(Get("/huge.bin")));
        received.clear();
        ASSERT_GE(downloads.back()->Receive(received, 15), 15);
    } while (received == "HTTP/1.1 200 OK");
    EXPECT_EQ(received, "HTTP/1.1 503 Se");
    ASSERT_TRUE(downloads.back()->ReadToEnd(received));
    EXPECT_NE(received.find("\r\nRetry-After: "), std::string::npos) << "it is the limit that it tells of";
    EXPECT_GT(downloads.size(), 30u);
    downloads.clear();
    EXPECT_TRUE(DescriptorsAreBack());
    Stop();
}

TEST_P(HttpdThreads, OutlivesRunningOutOfDescriptors) {
    Start({"--max-connections", "1000"}, [] {
        rlimit few = {40, 40};
        setrlimit(RLIMIT_NOFILE, &few);
    });
    std::vector<std::unique_ptr<Client>> clients;
    clients.push_back(std::make_unique<Client>(port_));
    ASSERT_TRUE(clients[0]->Send(Get("/hello.txt")));
    ASSERT_EQ(clients[0]->Read().status, 200); // so it has been accepted
    for (int i = 1; i < 100; i++) {
        clients.push_back(std::make_unique<Client>(port_));
        ASSERT_TRUE(clients.back()->connected()); // by the kernel; many wait there to be accepted
    }
    // Also the last one, which a thread that has just begun may have for a moment only.
    EXPECT_TRUE(Eventually([&] {
        return Descriptors(40) == 40 && clients[0]->Send(Get("/hello.txt")) && clients[0]->Read().status == 503;
    })) << "no descriptor is left for the file";
    for (size_t i = 0; i < 50; i++) {
        clients[i]->Close();
    }
    ASSERT_TRUE(clients[99]->Send(Get("/hello.txt")));
    for (size_t i = 50; i < 90; i++) {
        clients[i]->Close();
    }
    EXPECT_EQ(clients[99]->Read().body, "hello\n") << "it is accepted when there is room";
    clients.clear();
    EXPECT_TRUE(DescriptorsAreBack());
    ExpectAlive();
    Stop();
}

// ---- the end -----------------------------------------------------------------------------------------------------

// For tests that do something between the signal and the end, on a machine where all may take long.
const std::vector<std::string> kNoHurry = {"--shutdown-timeout-ms", "60000"};

TEST_P(HttpdThreads, FinishesASlowDownloadAfterSigterm) {
    MakeHugeFile("huge.bin", 16 << 20);
    Start(kNoHurry);
    Client idle(port_);
    Client client(port_, 65536);
    ASSERT_TRUE(client.Send(Get("/huge.bin")));
    std::string received;
    ASSERT_GT(client.Receive(received, 1000), 0);
    ASSERT_TRUE(process_->Signal(SIGTERM));
    EXPECT_TRUE(idle.AtEnd()) << "idle connections are closed at once";
    EXPECT_TRUE(Eventually([&] { return !Client(port_).connected(); })) << "nothing more is accepted";
    EXPECT_EQ(process_->Wait(milliseconds(100)), Process::kStillRunning) << "it waits for the download";
    size_t total = received.size();
    ssize_t count;
    do {
        received.clear();
        count = client.Receive(received, 1 << 20);
        total += received.size();
    } while (count > 0);
    EXPECT_EQ(count, 0);
    EXPECT_GT(total, size_t{16} << 20);
    client.Close();
    EXPECT_EQ(process_->Wait(), 0);
}

TEST_P(HttpdThreads, AnswersARequestThatIsHalfReadWhenSigtermComes) {
    Start(kNoHurry);
    Client client(port_);
    ASSERT_TRUE(client.Send(Get("/hello.txt") + "GET /hello.txt HTT"));
    EXPECT_EQ(client.Read().status, 200);
    ASSERT_TRUE(process_->Signal(SIGTERM));
    Sleep(200);
    ASSERT_TRUE(client.Send("P/1.1\r\nHost: a\r\n\r\n"));
    Response response = client.Read();
    EXPECT_EQ(response.body, "hello\n");
    EXPECT_EQ(response.Header("connection"), "close");
    client.Close();
    EXPECT_EQ(process_->Wait(), 0);
}

TEST_P(HttpdThreads, AnswersRequestsThatComeTogetherWithSigterm) {
    Start(kNoHurry);
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 20; i++) {
        clients.push_back(std::make_unique<Client>(port_));
        ASSERT_TRUE(clients.back()->Send(Get("/hello.txt")));
        ASSERT_EQ(clients.back()->Read().status, 200);
    }
    ASSERT_TRUE(process_->Signal(SIGSTOP)); // when it goes on it finds everything at once
    for (size_t i = 0; i < 20; i++) {
        std::string request = Get("/hello.txt");
        ASSERT_TRUE(clients[i]->Send(i % 2 == 0 ? request : request.substr(0, 10)));
    }
    ASSERT_TRUE(process_->Signal(SIGTERM));
    ASSERT_TRUE(process_->Signal(SIGCONT));
    Sleep(100);
    for (size_t i = 0; i < 20; i++) {
        if (i % 2 == 1) {
            ASSERT_TRUE(clients[i]->Send(Get("/hello.txt").substr(10)));
        }
        Response response = clients[i]->Read();
        EXPECT_EQ(response.body, "hello\n") << i;
        if (i % 2 == 1) { // the others may have been answered before the signal was seen
            EXPECT_EQ(response.Header("connection"), "close") << i;
        }
        clients[i]->Close();
    }
    EXPECT_EQ(process_->Wait(), 0);
}

TEST_P(HttpdThreads, EndsAtOnceWithIdleConnections) {
    Start();
    std::vector<std::unique_ptr<Client>> idle;
    for (int i = 0; i < 50; i++) {
        idle.push_back(std::make_unique<Client>(port_));
        if (i % 2 == 0) {
            ASSERT_TRUE(idle.back()->Send(Get("/hello.txt")));
            ASSERT_EQ(idle.back()->Read().status, 200);
        }
    }
    ASSERT_TRUE(Eventually([&] { return Descriptors() == descriptors_ + 50; }));
    Sleep(100); // after the last answer, all its threads have come to wait
    Clock::time_point start = Clock::now();
    ASSERT_TRUE(process_->Signal(SIGINT));
    EXPECT_EQ(process_->Wait(), 0);
    EXPECT_LT(MillisecondsSince(start), 1500);
    for (auto& client : idle) {
        EXPECT_TRUE(client->AtEnd());
    }
}

TEST_P(HttpdThreads, GivesUpOnAClientThatKeepsItFromEnding) {
    MakeHugeFile("huge.bin", 256 << 20);
    Start();
    Client client(port_, 4096);
    ASSERT_TRUE(client.Send(Get("/huge.bin")));
    std::string received;
    ASSERT_GT(client.Receive(received, 100), 0);
    Clock::time_point start = Clock::now();
    ASSERT_TRUE(process_->Signal(SIGTERM));
    EXPECT_EQ(process_->Wait(milliseconds(60000)), 0);
    EXPECT_GE(MillisecondsSince(start), 4900) << "it had five seconds";
    EXPECT_LT(MillisecondsSince(start), 8000);
}

TEST_P(HttpdThreads, EndsAtASignalThatComesAtOnce) {
    for (int signal : {SIGINT, SIGTERM}) {
        Start();
        Clock::time_point start = Clock::now();
        Stop(signal);
        EXPECT_LT(MillisecondsSince(start), 1500);
    }
}

// ---- access log --------------------------------------------------------------------------------------------------

std::vector<std::string> LinesOf(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    std::string line;
    while (std::getline(file, line)) {
        lines.push_back(line);
    }
    return lines;
}

TEST_F(Httpd, WritesAnAccessLog) {
    std::string log = top_ + "/access.log";
    Start({"--access-log", log});
    Ask(Get("/hello.txt"));
    Ask(Get("/hello.txt", "", "HEAD"), true);
    Ask(Get("/none?\"<script>\\"));
    Ask("GET /hello.txt HTTP/1.0\r\nRange: bytes=0-1\r\n\r\n");
    Ask("nonsense\r\n\r\n");
    Ask(Get("/" + std::string(8000, 'x')));
    ASSERT_TRUE(Eventually([&] { return LinesOf(log).size() == 6; }, 5000)) << "it is written once a second";
    const char* patterns[] = {
        "\"GET /hello\\.txt HTTP/1\\.1\" 200 6",
        "\"HEAD /hello\\.txt HTTP/1\\.1\" 200 0",
        "\"GET /none\\?\\\\x22<script>\\\\x5c HTTP/1\\.1\" 404 [0-9]+",
        "\"GET /hello\\.txt HTTP/1\\.0\" 206 2",
        "\"-\" 400 [0-9]+",
        "\"GET /x+ HTTP/1\\.1\" 404 [0-9]+",
    };
    std::string front =
        "127\\.0\\.0\\.1 - - \\[[0-9]{2}/[A-Z][a-z]{2}/20[0-9]{2}:[0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4}\\] ";
    std::vector<std::string> lines = LinesOf(log);
    for (size_t i = 0; i < 6; i++) {
        EXPECT_TRUE(Matches(lines[i], front + patterns[i])) << lines[i];
    }
    Ask(Get("/hello.txt"));
    Stop();
    EXPECT_EQ(LinesOf(log).size(), 7u) << "the rest is written at the end";
}

TEST_F(Httpd, WritesTheAccessLogToStandardOutput) {
    Start({"--access-log", "-"});
    Ask(Get("/hello.txt"));
    EXPECT_NE(process_->ReadLine().find("\"GET /hello.txt HTTP/1.1\" 200 6"), std::string::npos);
    Stop();
}

TEST_F(Httpd, KeepsServingWhenItsLogIsNotRead) {
    Start({"--access-log", "-"});
    Client client(port_);
    for (int i = 0; i < 20000; i++) { // more than the pipe and both buffers hold
        ASSERT_TRUE(client.Send(Get("/none?" + std::string(200, 'x'))));
        ASSERT_EQ(client.Read().status, 404) << i;
    }
    Stop();
}

// ---- starting ----------------------------------------------------------------------------------------------------

TEST_F(Httpd, SaysThatThereIsNoBackend) {
    for (int error : {ENOSYS, EPERM}) {
        Process httpd({EXAMPLES_DIR "/httpd", "--port", "0", "--root", root_}, [=] {
            RefuseSystemCall(SYS_io_uring_setup, error);
            setenv("FIBERRT_BACKEND", "uring", 1);
        });
        EXPECT_EQ(httpd.Wait(), 2);
        EXPECT_EQ(httpd.ReadOutput(), "");
        EXPECT_EQ(httpd.ReadErrors(),
                  "httpd: there is no backend for I/O here: see fiber_backend_name in fiberrt.h.\n");
    }
}

TEST_F(Httpd, RefusesToStartWithBadOptions) {
    Start();
    const std::vector<std::vector<std::string>> bad = {
        {"--port", "x"},
        {"--port", "65536"},
        {"--port", "-1"},
        {"--root"},
        {"--root", root_ + "/none"},
        {"--root", root_ + "/hello.txt"},
        {"--host", "nohost"},
        {"--host", "192.0.2.1"},
        {"--max-connections", "0"},
        {"--what"},
        {"extra"},
        {"--idle-timeout-ms", "1x"},
        {"--threads", "0"},
        {"--threads", "65"},
        {"--threads", "two"},
        {"--shutdown-timeout-ms", "0"},
        {"--port", std::to_string(port_)},
        {"--access-log", root_ + "/none/log"},
    };
    for (std::vector<std::string> arguments : bad) {
        arguments.insert(arguments.begin(), EXAMPLES_DIR "/httpd");
        if (arguments[1] != "--port") {
            arguments.insert(arguments.begin() + 1, {"--port", "0"});
        }
        Process httpd(arguments);
        EXPECT_EQ(httpd.Wait(), 1) << arguments.back();
        EXPECT_NE(httpd.ReadErrors(), "") << arguments.back();
    }
    Stop();
}

TEST_F(Httpd, SaysWhichThreadsItTakes) {
    Process httpd({EXAMPLES_DIR "/httpd", "--threads", "-2"});
    EXPECT_EQ(httpd.Wait(), 1);
    EXPECT_EQ(httpd.ReadErrors(), "httpd: --threads takes a number from 1 to 64\n");
}

// Two servers with SO_REUSEPORT would each get a part of the connections.
TEST_F(Httpd, SharesItsPortWithNoOtherServer) {
    for (const char* ours : {"1", "2"}) {
        Start({"--threads", ours});
        for (const char* others : {"1", "2"}) {
            Process httpd({EXAMPLES_DIR "/httpd", "--port", std::to_string(port_), "--threads", others});
            EXPECT_EQ(httpd.Wait(), 1) << ours << " " << others;
            EXPECT_EQ(httpd.ReadErrors(), "httpd: cannot listen: Address already in use\n");
        }
        Stop();
    }
}

// For a server that ends without a descriptor to open, or with threads that are stuck: LeakSanitizer cannot look then.
void SearchForNoLeaks() { setenv("LSAN_OPTIONS", "detect_leaks=0", 1); }

// For a server that is to end for lack of descriptors.
void LeaveDescriptors(rlim_t count) {
    rlimit few = {count, count};
    setrlimit(RLIMIT_NOFILE, &few);
    SearchForNoLeaks();
}

TEST_F(Httpd, DoesNotStartWithoutAllOfItsListeners) {
    Process httpd({EXAMPLES_DIR "/httpd", "--port", "0", "--root", root_, "--threads", "64"},
                  [] { LeaveDescriptors(40); });
    EXPECT_EQ(httpd.Wait(), 1);
    EXPECT_EQ(httpd.ReadOutput(), "") << "it does not say that it listens";
    EXPECT_EQ(httpd.ReadErrors(), "httpd: cannot listen: Too many open files\n");
}

TEST_F(Httpd, DoesNotStartWithoutABackendForEachThread) {
    Process httpd({EXAMPLES_DIR "/httpd", "--port", "0", "--root", root_, "--threads", "64"},
                  [] { LeaveDescriptors(90); }); // the listeners are open then
    EXPECT_EQ(httpd.Wait(), 1);
    EXPECT_EQ(httpd.ReadOutput(), "");
    EXPECT_EQ(httpd.ReadErrors(), "httpd: cannot do I/O on every thread: Too many open files\n");
}

TEST_F(Httpd, DoesNotStartWithoutAllOfItsThreads) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer needs more addresses than the limit that makes threads fail";
#endif
    Process httpd({EXAMPLES_DIR "/httpd", "--port", "0", "--root", root_, "--threads", "64"}, [] {
        rlimit stack = {256 << 20, RLIM_INFINITY}; // of each thread
        rlimit addresses = {rlim_t{4} << 30, rlim_t{4} << 30};
        if (setrlimit(RLIMIT_STACK, &stack) != 0) {
            stack.rlim_max = stack.rlim_cur;
            setrlimit(RLIMIT_STACK, &stack);
        }
        setrlimit(RLIMIT_AS, &addresses);
    });
    EXPECT_EQ(httpd.Wait(), 1) << "those that have been started do not keep it";
    EXPECT_EQ(httpd.ReadOutput(), "");
    EXPECT_EQ(httpd.ReadErrors(), "httpd: cannot start a thread: Resource temporarily unavailable\n");
}

// ---- several threads ---------------------------------------------------------------------------------------------

class HttpdSpread : public Httpd {
protected:
    using Connections = std::vector<std::unique_ptr<Client>>;

    // The processor time of each of the server's threads in nanoseconds.
    std::map<int, int64_t> RunTimes() const {
        std::map<int, int64_t> times;
        std::error_code error;
        std::string tasks = "/proc/" + std::to_string(process_->pid()) + "/task";
        for (auto& entry : std::filesystem::directory_iterator(tasks, error)) {
            std::ifstream file(entry.path() / "schedstat");
            int64_t time;
            if (file >> time) {
                times[std::stoi(entry.path().filename())] = time;
            }
        }
        return times;
    }

    // Which thread serves a connection: asks for things until one of them has clearly worked more than all the others.
    int ThreadOf(Client& client) const {
        const int batch = 20;
        std::string requests;
        for (int i = 0; i < batch; i++) {
            requests += Get("/hello.txt");
        }
        std::map<int, int64_t> before = RunTimes();
        for (int tries = 0; tries < 1000; tries++) {
            if (!client.Send(requests)) {
                return -1;
            }
            for (int i = 0; i < batch; i++) {
                if (client.Read().status != 200) {
                    return -1;
                }
            }
            int busiest = -1;
            int64_t most = 0, second = 0;
            for (auto [thread, time] : RunTimes()) {
                int64_t worked = time - before[thread];
                if (worked > most) {
                    busiest = thread;
                    std::swap(worked, most);
                }
                second = std::max(second, worked);
            }
            if (most > 100000 && most > 3 * second) {
                return busiest;
            }
        }
        return -1;
    }

    Connections Connect(int count) const {
        Connections clients;
        for (int i = 0; i < count; i++) {
            clients.push_back(std::make_unique<Client>(port_));
            EXPECT_TRUE(clients.back()->Send(Get("/hello.txt")));
            EXPECT_EQ(clients.back()->Read().body, "hello\n") << i; // and so the next one finds this one counted
        }
        return clients;
    }
};

#define NEEDS_RUN_TIMES()                                                                   \
    if (RunTimes().empty()) {                                                               \
        GTEST_SKIP() << "this kernel does not report the run times of threads (schedstat)"; \
    }

TEST_F(HttpdSpread, EveryThreadServesItsShareOfTheConnections) {
    Start({"--threads", "4"});
    NEEDS_RUN_TIMES();
    Connections clients = Connect(64);
    std::map<int, int> served;
    for (auto& client : clients) {
        int thread = ThreadOf(*client);
        ASSERT_NE(thread, -1);
        served[thread]++;
    }
    EXPECT_EQ(served.size(), 4u);
    for (auto [thread, count] : served) {
        EXPECT_GE(count, 10) << thread << ": none has more than eight fewer than the others, or it would get the next";
    }
    clients.clear();
    EXPECT_TRUE(DescriptorsAreBack());
    Stop();
}

TEST_F(HttpdSpread, ACrowdedThreadHandsConnectionsOverToAnIdleOne) {
    Start({"--threads", "2"});
    NEEDS_RUN_TIMES();
    Connections crowd = Connect(64);
    int idle = -1; // the thread that loses its connections
    int left = 0;
    for (auto& client : crowd) {
        int thread = ThreadOf(*client);
        ASSERT_NE(thread, -1);
        idle = idle == -1 ? thread : idle;
        if (thread == idle) {
            client->Close();
        } else {
            left++;
        }
    }
    ASSERT_GE(left, 28) << "the other thread has half of them";
    ASSERT_TRUE(Eventually([&] { return Descriptors() == descriptors_ + left; }));
    // The kernel gives half of these to the other thread, unless all of 16 throws of a coin show the same side.
    Connections more = Connect(16);
    for (size_t i = 0; i < more.size(); i++) {
        EXPECT_EQ(ThreadOf(*more[i]), idle) << i;
    }
    more.clear();
    crowd.clear();
    EXPECT_TRUE(DescriptorsAreBack());
    Stop();
}

TEST_F(HttpdSpread, EndsInOrderWithConnectionsOnAllThreads) {
    MakeHugeFile("huge.bin", 8 << 20);
    Start({"--threads", "3", kNoHurry[0], kNoHurry[1]});
    Connections idle = Connect(20);
    Connections downloads;
    std::string received;
    for (int i = 0; i < 9; i++) {
        downloads.push_back(std::make_unique<Client>(port_, 65536));
        ASSERT_TRUE(downloads.back()->Send(Get("/huge.bin")));
        ASSERT_GT(downloads.back()->Receive(received, 1000), 0);
    }
    ASSERT_TRUE(process_->Signal(SIGTERM));
    for (auto& client : idle) {
        EXPECT_TRUE(client->AtEnd());
    }
    EXPECT_EQ(process_->Wait(milliseconds(50)), Process::kStillRunning) << "it waits for the downloads";
    for (auto& client : downloads) {
        std::string rest;
        EXPECT_TRUE(client->ReadToEnd(rest));
        EXPECT_GT(rest.size(), (size_t{8} << 20) - 1000);
        client->Close();
    }
    EXPECT_EQ(process_->Wait(), 0);
}

// Connections that come and go all the time, so that some are between two threads when the signal comes. Each request
// that was read is answered whole, and the server ends in time.
TEST_F(HttpdSpread, EndsWhileConnectionsComeAndGo) {
    for (int round = 0; round < 10; round++) {
        Start({"--threads", "3", kNoHurry[0], kNoHurry[1]});
        std::atomic<bool> ended{false};
        std::atomic<int> answers{0};
        std::atomic<int> torn{0};
        auto ask = [&] {
            while (!ended) {
                Connections clients;
                for (int i = 0; i < 12; i++) {
                    clients.push_back(std::make_unique<Client>(port_));
                    clients.back()->Send(Get("/hello.txt"));
                }
                if (!clients.back()->connected()) {
                    Sleep(1); // and leave it the processors for its end
                }
                for (auto& client : clients) {
                    Response response = client->Read();
                    answers += response.status == 200;
                    torn += response.status != 0 && (response.status != 200 || response.body != "hello\n");
                }
            }
        };
        std::thread one(ask), other(ask);
        EXPECT_TRUE(Eventually([&] { return answers >= 100 + 10 * round; }));
        Clock::time_point start = Clock::now();
        EXPECT_TRUE(process_->Signal(SIGTERM));
        EXPECT_EQ(process_->Wait(), 0) << process_->ReadErrors(milliseconds(100));
        EXPECT_LT(MillisecondsSince(start), 30000) << "nothing kept it from ending";
        ended = true;
        one.join();
        other.join();
        EXPECT_EQ(torn, 0);
    }
}

// The server's listening socket, copied from it with the kernel's permission; -1 with errno if that is not possible.
int TakeListener(pid_t pid) {
    int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    int found = -1;
    for (int number = 3; process >= 0 && found < 0 && number < 100; number++) {
        int fd = static_cast<int>(syscall(SYS_pidfd_getfd, process, number, 0));
        int listens = 0;
        socklen_t length = sizeof listens;
        if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens) {
            found = fd;
        } else if (fd >= 0) {
            close(fd);
        } else if (errno != EBADF) {
            break;
        }
    }
    int error = errno;
    if (process >= 0) {
        close(process);
    }
    errno = error;
    return found;
}

TEST_F(HttpdSpread, EndsInOrderWhenOneListenerFails) {
    MakeHugeFile("huge.bin", 8 << 20);
    Start({"--threads", "3", kNoHurry[0], kNoHurry[1]});
    Connections idle = Connect(10);
    Connections downloads;
    std::string received;
    for (int i = 0; i < 4; i++) {
        downloads.push_back(std::make_unique<Client>(port_, 65536));
        ASSERT_TRUE(downloads.back()->Send(Get("/huge.bin")));
        ASSERT_GT(downloads.back()->Receive(received, 1000), 0);
    }
    int listener = TakeListener(process_->pid());
    if (listener < 0) {
        GTEST_SKIP() << "no socket of the server is available: " << strerror(errno);
    }
    EXPECT_EQ(shutdown(listener, SHUT_RDWR), 0);
    close(listener);
    for (auto& client : idle) {
        EXPECT_TRUE(client->AtEnd());
    }
    for (auto& client : downloads) {
        std::string rest;
        EXPECT_TRUE(client->ReadToEnd(rest));
        EXPECT_GT(rest.size(), (size_t{8} << 20) - 1000);
        client->Close();
    }
    EXPECT_EQ(process_->Wait(), 1);
    EXPECT_EQ(process_->ReadErrors(), "httpd: accept: invalid argument or handle\n");
}

// The server's own threads but the first.
std::vector<pid_t> OtherThreads(pid_t pid) {
    std::vector<pid_t> threads;
    std::error_code error;
    for (auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", error)) {
        pid_t thread = std::stoi(entry.path().filename());
        std::string name;
        std::ifstream(entry.path() / "comm") >> name;
        if (thread != pid && name == "httpd") { // the kernel's threads for a ring have other names
            threads.push_back(thread);
        }
    }
    return threads;
}

bool IsInWaitForIo(pid_t process, pid_t thread) {
    std::string path = "/proc/" + std::to_string(process) + "/task/" + std::to_string(thread) + "/syscall";
    long number = -1;
    std::ifstream(path) >> number;
#ifdef SYS_epoll_wait
    if (number == SYS_epoll_wait) {
        return true;
    }
#endif
    return number == SYS_io_uring_enter || number == SYS_epoll_pwait;
}

// Stops one thread for good, as a file system that never answers would. The thread must be in a system call: elsewhere
// it might hold a lock of malloc or of a sanitizer that the others need. If it is elsewhere, it runs on.
bool StopsInWaitForIo(pid_t process, pid_t thread) {
    int status;
    if (ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0 || waitpid(thread, &status, __WALL) != thread) {
        return false;
    }
    bool stopped = IsInWaitForIo(process, thread);
    if (!stopped) {
        ptrace(PTRACE_CONT, thread, nullptr, nullptr);
    }
    return stopped;
}

TEST_F(HttpdSpread, EndsInTimeThoughThreadsAreStuck) {
    Start({"--threads", "5"}, SearchForNoLeaks);
    std::vector<pid_t> threads = OtherThreads(process_->pid());
    ASSERT_GE(threads.size(), 4u);
    for (pid_t thread : threads) {
        if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
            GTEST_SKIP() << "a thread cannot be stopped by ptrace: " << strerror(errno);
        }
        ASSERT_TRUE(Eventually([&] { return StopsInWaitForIo(process_->pid(), thread); }));
    }
    Clock::time_point start = Clock::now();
    ASSERT_TRUE(process_->Signal(SIGTERM));
    for (pid_t thread : threads) {
        EXPECT_TRUE(Eventually([&] { return waitpid(thread, nullptr, __WALL | WNOHANG) == thread; }));
    }
    EXPECT_EQ(process_->Wait(), 0);
    EXPECT_GE(MillisecondsSince(start), 4900) << "they had the time that all have";
    EXPECT_LT(MillisecondsSince(start), 14000) << "and not each of them once more";
}

// ---- load --------------------------------------------------------------------------------------------------------

class HttpdLoad : public HttpdThreads {
protected:
    static constexpr int kConnections = 50;

    // Asks for a file `rounds` times on each of fifty connections at once. Returns how many answers were right.
    int Run(const std::vector<std::unique_ptr<Client>>& clients, int rounds, const std::string& path,
            const std::string& body) {
        int right = 0;
        std::vector<int> left(clients.size(), rounds);
        std::vector<std::string> received(clients.size());
        std::vector<pollfd> entries;
        size_t response_size = 0;
        const std::string request = Get(path);
        for (auto& client : clients) {
            if (!client->Send(request)) {
                return right;
            }
            entries.push_back({client->fd(), POLLIN, 0});
        }
        int running = static_cast<int>(clients.size());
        while (running > 0) {
            if (poll(entries.data(), entries.size(), 10000) <= 0) {
                ADD_FAILURE() << "no answer for ten seconds";
                return right;
            }
            for (size_t i = 0; i < entries.size(); i++) {
                if (entries[i].fd < 0 || entries[i].revents == 0) {
                    continue;
                }
                if (clients[i]->Receive(received[i], 65536) <= 0) {
                    ADD_FAILURE() << "the server ended the connection";
                    return right;
                }
                if (response_size == 0) {
                    size_t end = received[i].find("\r\n\r\n");
                    response_size = end == std::string::npos ? 0 : end + 4 + body.size();
                }
                if (response_size == 0 || received[i].size() < response_size) {
                    continue;
                }
                right += received[i].rfind("HTTP/1.1 200 OK\r\n", 0) == 0 && received[i].size() == response_size &&
                         received[i].compare(response_size - body.size(), body.size(), body) == 0;
                received[i].clear();
                if (--left[i] > 0) {
                    if (!clients[i]->Send(request)) {
                        return right;
                    }
                } else {
                    entries[i].fd = -1;
                    running--;
                }
            }
        }
        return right;
    }

    std::vector<std::unique_ptr<Client>> Connect() {
        std::vector<std::unique_ptr<Client>> clients;
        for (int i = 0; i < kConnections; i++) {
            clients.push_back(std::make_unique<Client>(port_));
        }
        return clients;
    }
};

INSTANTIATE_TEST_SUITE_P(OfThreads, HttpdLoad, testing::Values(1, 3), testing::PrintToStringParamName());

TEST_P(HttpdLoad, TwentyThousandRequestsLeaveNothingBehind) {
    std::string text = Pattern(3000);
    WriteFile("page.bin", text);
    Start();
    // Many requests on few connections and few requests on many: nothing is left of either.
    auto load = [&](int requests, int rounds) {
        std::vector<std::unique_ptr<Client>> clients = Connect();
        ASSERT_EQ(Run(clients, requests, "/page.bin", text), requests * kConnections);
        clients.clear();
        for (int round = 0; round < rounds; round++) {
            clients = Connect();
            ASSERT_EQ(Run(clients, 5, "/page.bin", text), 5 * kConnections);
            clients.clear();
        }
    };
    load(50, 5); // warms up
    ASSERT_TRUE(DescriptorsAreBack());
    int64_t before = ResidentKib();
    ASSERT_GT(before, 0);
    load(400, 40);
    EXPECT_TRUE(DescriptorsAreBack());
    EXPECT_LE(ResidentKib(), before + 512 * GetParam()) << "KiB resident; each thread keeps its own stacks";
    Stop();
}

TEST_P(HttpdLoad, TheAccessLogHasEveryRequest) {
    std::string log = top_ + "/access.log";
    Start({"--access-log", log});
    std::vector<std::unique_ptr<Client>> clients = Connect();
    ASSERT_EQ(Run(clients, 400, "/hello.txt", "hello\n"), 400 * kConnections);
    clients.clear();
    Stop();
    std::vector<std::string> lines = LinesOf(log);
    EXPECT_EQ(lines.size(), size_t{400} * kConnections);
    const std::string tail = "\"GET /hello.txt HTTP/1.1\" 200 6";
    for (const std::string& line : lines) {
        ASSERT_TRUE(line.rfind("127.0.0.1 - - [", 0) == 0 && line.size() > tail.size() &&
                    line.compare(line.size() - tail.size(), tail.size(), tail) == 0)
            << line;
    }
}

// ---- metrics ---------------------------------------------------------------------------------------------------------

TEST_P(HttpdThreads, AnswersWithMetricsWhereAskedTo) {
    WriteFile("metrics", "a file");
    Start({"--metrics", "/metrics"});
    Response metrics = Ask(Get("/metrics"));
    EXPECT_EQ(metrics.status, 200);
    EXPECT_EQ(metrics.Header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    EXPECT_EQ(metrics.body.rfind("# TYPE ", 0), 0u) << metrics.body;
    EXPECT_TRUE(metrics.body.ends_with("# EOF\n")) << metrics.body;
    Response head = Ask(Get("/metrics", "", "HEAD"), true);
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.body, "");
    EXPECT_EQ(Ask(Get("/metrics/")).status, 404);
    EXPECT_EQ(Ask(Get("/hello.txt")).body, "hello\n");
    EXPECT_TRUE(DescriptorsAreBack());
    Stop();
    Start();
    EXPECT_EQ(Ask(Get("/metrics")).body, "a file");
    Stop();
}

// ---- pages from a database -------------------------------------------------------------------------------------

#if FIBERRT_TEST_SQLITE
class HttpdPages : public HttpdThreads {
protected:
    void SetUp() override {
        Httpd::SetUp();
        file_ = top_ + "/pages.db";
        ASSERT_EQ(sqlite3_open(file_.c_str(), &database_), SQLITE_OK);
        Execute("PRAGMA synchronous = OFF"); // no lock is held while a busy disk writes
        Execute("CREATE TABLE pages(path TEXT PRIMARY KEY, type TEXT, body BLOB)");
        Execute("INSERT INTO pages VALUES('notes/one', 'text/plain', 'from the database'),"
                "('hello.txt', 'text/plain', 'hidden by the file'), ('bytes', 'image/png', x'00010203'),"
                "('empty', 'text/plain', ''), ('null', 'text/plain', NULL), ('untyped', NULL, 'x'),"
                "('split', 'text/plain' || char(13, 10) || 'Set-Cookie: a=b', 'x')");
    }
    void TearDown() override {
        sqlite3_close(database_);
        Httpd::TearDown();
    }
    void Execute(const char* statement) {
        char* error = nullptr;
        ASSERT_EQ(sqlite3_exec(database_, statement, nullptr, nullptr, &error), SQLITE_OK) << error;
    }

    std::string file_;
    sqlite3* database_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(OfThreads, HttpdPages, testing::Values(1, 3), testing::PrintToStringParamName());

TEST_P(HttpdPages, AnswersWithThemWhereThereIsNoFile) {
    Start({"--pages", file_});
    Response page = Ask(Get("/notes/one"));
    EXPECT_EQ(page.status, 200);
    EXPECT_EQ(page.Header("content-type"), "text/plain");
    EXPECT_EQ(page.body, "from the database");
    EXPECT_EQ(Ask(Get("/bytes")).body, std::string("\0\1\2\3", 4));
    EXPECT_EQ(Ask(Get("/hello.txt")).body, "hello\n");
    for (const char* name : {"/empty", "/null"}) {
        Response empty = Ask(Get(name));
        EXPECT_EQ(empty.status, 200) << name;
        EXPECT_EQ(empty.body, "") << name;
    }
    Response head = Ask(Get("/notes/one", "", "HEAD"), true);
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.Header("content-length"), "17");
    EXPECT_EQ(Ask(Get("/notes/two")).status, 404);
    EXPECT_EQ(Ask(Get("/x'%20OR%201=1--")).status, 404);
    EXPECT_EQ(Ask(Get("/untyped")).status, 500);
    EXPECT_EQ(Ask(Get("/split")).status, 500);
    EXPECT_TRUE(DescriptorsAreBack());
    Stop();
}

// Another process has locked the database: only requests for a page wait.
TEST_P(HttpdPages, ALongQueryDoesNotHoldUpTheOthers) {
    Start({"--pages", file_});
    Execute("BEGIN EXCLUSIVE");
    std::vector<std::unique_ptr<Client>> waiting;
    for (int i = 0; i < 10; i++) {
        waiting.push_back(std::make_unique<Client>(port_));
        ASSERT_TRUE(waiting.back()->Send(Get("/notes/one")));
    }
    for (int i = 0; i < 30; i++) {
        ExpectAlive();
    }
    for (auto& client : waiting) {
        EXPECT_TRUE(client->IsSilent(0));
    }
    Execute("UPDATE pages SET body = 'newer' WHERE path = 'notes/one'");
    Execute("COMMIT");
    for (auto& client : waiting) {
        Response page = client->Read();
        EXPECT_EQ(page.status, 200);
        EXPECT_EQ(page.body, "newer");
    }
    Stop();
}

TEST_P(HttpdPages, ABrokenDatabaseIsAnErrorOfTheServer) {
    WriteFile("../broken.db", "this is no database, however long it may be taken for one");
    Start({"--pages", top_ + "/broken.db"});
    EXPECT_EQ(Ask(Get("/notes/one")).status, 500);
    ExpectAlive();
    Stop();
    process_ = std::make_unique<Process>(
        std::vector<std::string>{EXAMPLES_DIR "/httpd", "--port", "0", "--pages", top_ + "/none.db"});
    EXPECT_EQ(process_->Wait(milliseconds(60000)), 1);
}
#endif

} // namespace
