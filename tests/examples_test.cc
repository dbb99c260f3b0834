// SPDX-License-Identifier: MIT OR Apache-2.0
// examples_test.cc - runs the smaller examples as a user would and checks their output.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "subprocess.h"

using fiberrt_test::Clock;
using fiberrt_test::Matches;
using fiberrt_test::milliseconds;
using fiberrt_test::MillisecondsSince;
using fiberrt_test::Process;
using fiberrt_test::RefuseSystemCall;

namespace {

std::string Example(const char* name) { return std::string(EXAMPLES_DIR "/") + name; }

TEST(Hello, Greets) {
    Process hello({Example("hello")});
    EXPECT_EQ(hello.ReadOutput(), "hello, world\n");
    EXPECT_EQ(hello.Wait(), 0);
}

TEST(Race, IsWonByTheFastestOrEndsInTime) {
    Process race({Example("race"), "60000"});
    EXPECT_EQ(race.ReadOutput(), "found by 2\n45000\n");
    EXPECT_EQ(race.Wait(), 0);
    Process impatient({Example("race"), "1"});
    EXPECT_EQ(impatient.ReadOutput(), "not found in time\n45000\n");
    EXPECT_EQ(impatient.Wait(), 0);
}

TEST(Generator, EndsByItselfAndIsAbandoned) {
    Process generator({Example("generator")});
    EXPECT_EQ(generator.ReadOutput(), "up to 100: 0 1 1 2 3 5 8 13 21 34 55 89\n"
                                      "the generator ended\n"
                                      "the first 20: 0 1 1 2 3 5 8 13 21 34 55 89 144 233 377 610 987 1597 2584 4181\n"
                                      "the generator was abandoned\n");
    EXPECT_EQ(generator.Wait(), 0);
}

TEST(SignalMask, IsEachFibersOwn) {
    Process masks({Example("signal_mask")});
    EXPECT_EQ(masks.ReadOutput(), "one: blocked: USR1\ntwo: blocked: USR2\nplain: blocked: none\n"
                                  "one: blocked: USR1\ntwo: blocked: USR2\nplain: blocked: none\n"
                                  "main: blocked: none\nchanges between equal masks: 0\n");
    EXPECT_EQ(masks.Wait(), 0);
}

TEST(Ticker, EchoesLinesWhileItTicksAndEndsAtTheEndOfInput) {
    Process ticker({Example("ticker"), "--interval-ms", "50"});
    for (int i = 0; i < 3; i++) {
        std::string text = "line " + std::to_string(i);
        ASSERT_TRUE(ticker.Write(text + "\n"));
        std::string line;
        int ticks = 0;
        while ((line = ticker.ReadLine()).rfind("tick ", 0) == 0) {
            ticks++;
        }
        EXPECT_EQ(line, "echo: " + text);
        EXPECT_LT(ticks, 20);
        std::this_thread::sleep_for(milliseconds(150));
    }
    ticker.CloseStdin();
    EXPECT_EQ(ticker.Wait(), 0);
    std::string rest = ticker.ReadOutput();
    EXPECT_TRUE(Matches(rest, "(tick [0-9]+ at [0-9]{2}:[0-9]{2}:[0-9]{2}(, [0-9]+ left out)?\n)+")) << rest;
}

TEST(Ticker, TicksAtItsIntervalAndEndsAfterItsLastTick) {
    Clock::time_point start = Clock::now();
    Process ticker({Example("ticker"), "--interval-ms", "100", "--ticks", "4"});
    std::string output = ticker.ReadOutput(); // standard input stays open all the time
    EXPECT_EQ(ticker.Wait(), 0);
    EXPECT_GE(MillisecondsSince(start), 400);
    EXPECT_TRUE(Matches(output, "tick 1 at .*\ntick 2 at .*\ntick 3 at .*\ntick 4 at .*\n")) << output;
}

TEST(Ticker, EchoesALastLineWithoutNewlineAndManyLinesAtOnce) {
    Process ticker({Example("ticker"), "--interval-ms", "60000"});
    ASSERT_TRUE(ticker.Write("one\n\nthree\nlast"));
    ticker.CloseStdin();
    EXPECT_EQ(ticker.ReadOutput(), "echo: one\necho: \necho: three\necho: last\n");
    EXPECT_EQ(ticker.Wait(), 0);
}

TEST(Ticker, EchoesALineLongerThanItsBufferInPieces) {
    Process ticker({Example("ticker"), "--interval-ms", "60000"});
    std::string text(10000, 'x');
    ASSERT_TRUE(ticker.Write(text + "\n"));
    ticker.CloseStdin();
    std::string output = ticker.ReadOutput();
    EXPECT_EQ(ticker.Wait(), 0);
    EXPECT_EQ(static_cast<size_t>(std::count(output.begin(), output.end(), 'x')), text.size());
    EXPECT_EQ(output.compare(0, 7, "echo: x"), 0);
}

TEST(Ticker, ReadsFromAFile) {
    std::string path = testing::TempDir() + "ticker_input_" + std::to_string(getpid());
    FILE* file = fopen(path.c_str(), "w");
    ASSERT_NE(file, nullptr);
    fputs("from a file\n", file);
    fclose(file);
    Process ticker({Example("ticker"), "--interval-ms", "60000"}, [&] {
        int fd = open(path.c_str(), O_RDONLY);
        dup2(fd, 0);
    });
    EXPECT_EQ(ticker.ReadOutput(), "echo: from a file\n");
    EXPECT_EQ(ticker.Wait(), 0);
    unlink(path.c_str());
}

TEST(Ticker, RefusesBadOptions) {
    for (const char* bad : {"--interval-ms=0", "--interval-ms=x", "--ticks=-1", "--what"}) {
        Process ticker({Example("ticker"), bad});
        EXPECT_EQ(ticker.Wait(), 1) << bad;
        EXPECT_NE(ticker.ReadErrors(), "") << bad;
    }
}

TEST(Echo, DemoTalksToItself) {
    Process echo({Example("echo")});
    std::string output = echo.ReadOutput();
    EXPECT_EQ(echo.Wait(), 0) << echo.ReadErrors();
    for (const char* text : {"one", "two", "three"}) {
        std::string line = std::string("sent \"") + text + "\", received \"" + text + "\"\n";
        EXPECT_NE(output.find(line), std::string::npos) << output;
    }
    EXPECT_NE(output.find("the server was cancelled\n"), std::string::npos) << output;
}

TEST(Echo, ServerAndClientInTwoProcesses) {
    Process server({Example("echo"), "server"});
    std::string line = server.ReadLine();
    ASSERT_EQ(line.rfind("listening on 127.0.0.1:", 0), 0u) << line;
    std::string port = line.substr(line.rfind(':') + 1);

    std::string large(60000, 'x');
    for (const std::string& text : {std::string("a few words"), large, std::string("")}) {
        Process client({Example("echo"), "client", "127.0.0.1", port, text});
        EXPECT_EQ(client.ReadOutput(), text + "\n");
        EXPECT_EQ(client.Wait(), 0);
    }
    EXPECT_EQ(server.Wait(milliseconds(0)), Process::kStillRunning);
}

TEST(Echo, ClientReportsThatNobodyListens) {
    std::string port;
    {
        Process server({Example("echo"), "server"});
        std::string line = server.ReadLine();
        port = line.substr(line.rfind(':') + 1);
    }
    Process client({Example("echo"), "client", "127.0.0.1", port, "text"});
    EXPECT_EQ(client.Wait(), 1);
    EXPECT_NE(client.ReadErrors(), "");
}

TEST(Echo, RefusesBadArguments) {
    const std::vector<std::vector<std::string>> bad = {
        {"serve"}, {"server", "70000"}, {"server", "x"}, {"client", "a"}};
    for (std::vector<std::string> arguments : bad) {
        arguments.insert(arguments.begin(), Example("echo"));
        Process echo(arguments);
        EXPECT_EQ(echo.Wait(), 1);
        EXPECT_NE(echo.ReadErrors().find("usage: echo"), std::string::npos);
    }
}

// A socket on a port of loopback: one that listens, or only keeps the port, so that connections are refused.
class Port {
public:
    explicit Port(bool listens) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address = Loopback(0);
        socklen_t length = sizeof address;
        EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length), 0);
        if (listens) {
            EXPECT_EQ(listen(fd_, 8), 0);
        }
        text_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    }
    ~Port() { close(fd_); }
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;

    static sockaddr_in Loopback(int port) {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<uint16_t>(port));
        return address;
    }
    const std::string& text() const { return text_; }
    std::string number() const { return text_.substr(text_.find(':') + 1); }
    int fd() const { return fd_; }

private:
    int fd_;
    std::string text_;
};

TEST(FirstAddress, ConnectsToTheOneThatListens) {
    Port dead(false), good(true), other(true);
    Process client({Example("first_address"), dead.text(), good.text(), other.text()});
    EXPECT_EQ(client.Wait(), 0) << client.ReadErrors();
    // On a machine with much to do the third may be faster than the second.
    std::string line = client.ReadOutput();
    EXPECT_TRUE(line == "connected to " + good.text() + "\n" || line == "connected to " + other.text() + "\n") << line;
}

TEST(FirstAddress, TellsWhyIfThereIsNone) {
    Port one(false), two(false);
    Process client({Example("first_address"), one.text(), two.text()});
    EXPECT_EQ(client.Wait(), 1);
    EXPECT_EQ(client.ReadErrors(), std::string("first_address: ") + strerror(ECONNREFUSED) + "\n");
}

TEST(FirstAddress, RefusesBadArguments) {
    for (const char* bad : {"127.0.0.1", "localhost:80", "127.0.0.1:0", "127.0.0.1:70000", ":80"}) {
        Process client({Example("first_address"), bad});
        EXPECT_EQ(client.Wait(), 1) << bad;
        EXPECT_NE(client.ReadErrors().find("usage: first_address"), std::string::npos) << bad;
    }
}

TEST(Supervisor, StartsWorkersAgainWithLongerAndLongerPauses) {
    Process supervisor({Example("supervisor"), "0", "4"});
    std::string failed = "worker 1 failed (" + std::string(strerror(EIO)) + "), again in ";
    EXPECT_EQ(supervisor.ReadOutput(), "worker 0 is done\n" + failed + "10 ms\n" + failed + "20 ms\n" + failed +
                                           "40 ms\n" + failed + "40 ms\nworker 1 is done\n");
    EXPECT_EQ(supervisor.Wait(), 0);
}

TEST(Supervisor, GivesUpAndCancelsTheOthers) {
    Process supervisor({Example("supervisor"), "6", "1000000"});
    std::string output = supervisor.ReadOutput();
    EXPECT_EQ(supervisor.Wait(), 1);
    EXPECT_NE(output.find(" is given up\n"), std::string::npos) << output;
}

TEST(Mailbox, LettersAreAnsweredAndAnInterruptBetweenThemToo) {
    Process mailbox({Example("mailbox")});
    EXPECT_EQ(mailbox.ReadOutput(), "wanted 4, got 4\nwanted 5, got 5\nwanted 3, got 1\n"
                                    "keeper: what is left is 0\n");
    EXPECT_EQ(mailbox.Wait(), 0) << mailbox.ReadErrors();
}

// A client of graceful: the text that it sends comes back in capital letters.
class Client {
public:
    explicit Client(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address = Port::Loopback(port);
        timeval limit = {60, 0};
        setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    }
    ~Client() { close(fd_); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    bool connected() const { return connected_; }
    std::string Ask(const std::string& text) {
        char reply[64];
        if (send(fd_, text.data(), text.size(), MSG_NOSIGNAL) < 0) {
            return "";
        }
        ssize_t length = recv(fd_, reply, text.size(), MSG_WAITALL);
        return length > 0 ? std::string(reply, static_cast<size_t>(length)) : "";
    }

private:
    int fd_;
    bool connected_ = false;
};

TEST(Graceful, LetsWhoIsServedFinishAndAcceptsNobodyElse) {
    Process server({Example("graceful"), "--grace-ms", "600000"});
    std::string line = server.ReadLine();
    ASSERT_EQ(line.rfind("listening on 127.0.0.1:", 0), 0u) << line << server.ReadErrors();
    const int port = atoi(line.substr(line.rfind(':') + 1).c_str());
    Client client(port);
    ASSERT_TRUE(client.connected());
    EXPECT_EQ(client.Ask("one\n"), "ONE\n");
    EXPECT_TRUE(server.Signal(SIGTERM));
    EXPECT_EQ(server.ReadLine(), "ending, with 1 open");
    EXPECT_FALSE(Client(port).connected());
    EXPECT_EQ(client.Ask("two\n"), "TWO\n");
    EXPECT_EQ(server.ReadLine(), "1 served, none cut off");
    EXPECT_EQ(server.Wait(), 0);
}

TEST(Graceful, CutsOffWhoDoesNotFinishWithinTheGrace) {
    Process server({Example("graceful"), "--grace-ms", "100"});
    std::string line = server.ReadLine();
    ASSERT_EQ(line.rfind("listening on 127.0.0.1:", 0), 0u) << line << server.ReadErrors();
    Client client(atoi(line.substr(line.rfind(':') + 1).c_str()));
    EXPECT_EQ(client.Ask("one\n"), "ONE\n");
    EXPECT_TRUE(server.Signal(SIGINT));
    EXPECT_EQ(server.ReadLine(), "ending, with 1 open");
    EXPECT_EQ(server.ReadLine(), "0 served, the rest cut off");
    EXPECT_EQ(server.Wait(), 0);
}

// The server's accept4 fails in some way for good, and a client is there.
class GracefulThatCannotAccept : public Process {
public:
    explicit GracefulThatCannotAccept(int error)
        : Process({Example("graceful")}, [=] {
              RefuseSystemCall(SYS_accept4, error);
              setenv("FIBERRT_BACKEND", "ev", 1); // whose calls are system calls
          }) {
        std::string line = ReadLine();
        EXPECT_EQ(line.rfind("listening on 127.0.0.1:", 0), 0u) << line;
        client_ = std::make_unique<Client>(atoi(line.substr(line.rfind(':') + 1).c_str()));
    }

private:
    std::unique_ptr<Client> client_;
};

constexpr int kNoBackend = 2; // a library without libev

TEST(Graceful, EndsWhenItCanAcceptNobodyAnyMore) {
    GracefulThatCannotAccept server(ENOTSOCK);
    const int status = server.Wait();
    if (status == kNoBackend) GTEST_SKIP() << "the library was built without libev";
    EXPECT_EQ(status, 1);
    std::string errors = server.ReadErrors();
    EXPECT_NE(errors.find(strerror(ENOTSOCK)), std::string::npos) << errors;
}

TEST(Graceful, DoesNotEndWhenOneConnectionFails) {
    GracefulThatCannotAccept server(EPROTO);
    const int status = server.Wait(milliseconds(200));
    if (status == kNoBackend) GTEST_SKIP() << "the library was built without libev";
    EXPECT_EQ(status, Process::kStillRunning);
    EXPECT_TRUE(server.Signal(SIGTERM));
    EXPECT_EQ(server.ReadLine(), "ending, with 0 open");
    EXPECT_EQ(server.ReadLine(), "0 served, none cut off");
    EXPECT_EQ(server.Wait(), 0);
}

TEST(Deadline, PrintsWhatTheCommandPutsOutAndEndsWithItsStatus) {
    Process deadline({Example("deadline"), "--ms", "60000", "sh", "-c", "echo out; echo err >&2; printf rest; exit 3"});
    EXPECT_EQ(deadline.ReadOutput(), "| out\n| err\n| rest");
    EXPECT_EQ(deadline.Wait(), 3);
    Process killed({Example("deadline"), "sh", "-c", "kill -KILL $$"});
    EXPECT_EQ(killed.Wait(), 128 + SIGKILL);
    Process none({Example("deadline"), "/no/such/command"});
    EXPECT_EQ(none.Wait(), 125);
    EXPECT_NE(none.ReadErrors().find(strerror(ENOENT)), std::string::npos);
}

// The command may not have come so far.
constexpr char kTimeIsOver[] = "(\\| begun\n)?the time is over: the command was ended\n";

// Also ends its child processes, which would keep its output open.
TEST(Deadline, EndsTheCommandInTime) {
    for (bool without_pidfd : {false, true}) {
        const char* command = "sh -c 'echo begun; exec sleep 1000' & wait";
        Process deadline({Example("deadline"), "--ms", "100", "sh", "-c", command}, [=] {
            if (without_pidfd) RefuseSystemCall(SYS_pidfd_open, ENOSYS);
        });
        std::string output = deadline.ReadOutput();
        EXPECT_TRUE(Matches(output, kTimeIsOver)) << output;
        EXPECT_EQ(deadline.Wait(), 124);
    }
}

TEST(Deadline, KillsACommandThatDoesNotHear) {
    Process deadline({Example("deadline"), "--ms", "100", "--grace-ms", "100", "sh", "-c",
                      "trap '' TERM; echo begun; while :; do sleep 0.1; done"});
    std::string output = deadline.ReadOutput();
    EXPECT_TRUE(Matches(output, kTimeIsOver)) << output;
    EXPECT_EQ(deadline.Wait(), 124);
}

// As of a command that has changed its user.
TEST(Deadline, SaysIfItMayNotEndTheCommand) {
    Process deadline({Example("deadline"), "--ms", "50", "--grace-ms", "50", "sleep", "2"}, [] {
        RefuseSystemCall(SYS_kill, EPERM);
        RefuseSystemCall(SYS_pidfd_send_signal, EPERM);
    });
    EXPECT_EQ(deadline.Wait(), 125);
    EXPECT_NE(deadline.ReadErrors().find(strerror(EACCES)), std::string::npos);
}

TEST(Deadline, EndsTheCommandAtASignal) {
    for (int signal : {SIGINT, SIGTERM}) {
        Process deadline({Example("deadline"), "--ms", "600000", "sh", "-c",
                          "trap 'echo ending; exit 0' TERM; sh -c 'echo begun; exec sleep 1000' & wait"});
        EXPECT_EQ(deadline.ReadLine(), "| begun");
        EXPECT_TRUE(deadline.Signal(signal));
        EXPECT_EQ(deadline.ReadLine(), "| ending");
        EXPECT_EQ(deadline.ReadLine(), strsignal(signal) + std::string(": the command was ended"));
        EXPECT_EQ(deadline.Wait(), 128 + signal);
    }
}

TEST(Copy, CopiesFilesAndStandardStreams) {
    std::string folder = testing::TempDir() + "fiberrt_copy_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    std::string from = folder + "/from", to = folder + "/to", text;
    for (int i = 0; i < 100000; i++) text += std::to_string(i) + "\n";
    std::ofstream(from) << text;
    auto content = [](const std::string& path) {
        std::ostringstream all;
        all << std::ifstream(path).rdbuf();
        return all.str();
    };
    EXPECT_EQ(Process({Example("copy"), from, to}).Wait(), 0);
    EXPECT_TRUE(content(to) == text);
    std::ofstream(from) << "shorter";
    EXPECT_EQ(Process({Example("copy"), from, to}).Wait(), 0);
    EXPECT_EQ(content(to), "shorter");
    Process filter({Example("copy"), "-", "-"});
    EXPECT_TRUE(filter.Write("some words"));
    filter.CloseStdin();
    EXPECT_EQ(filter.ReadOutput(), "some words");
    EXPECT_EQ(filter.Wait(), 0);
    Process full({Example("copy"), from, "/dev/full"});
    EXPECT_EQ(full.Wait(), 1);
    std::string errors = full.ReadErrors();
    EXPECT_NE(errors.find(": 0 bytes were written, and 0 more had been taken.\n"), std::string::npos) << errors;
    EXPECT_NE(errors.find(strerror(ENOSPC)), std::string::npos) << errors;
    Process none({Example("copy"), folder + "/none", to});
    EXPECT_EQ(none.Wait(), 1);
    EXPECT_NE(none.ReadErrors().find(strerror(ENOENT)), std::string::npos);
    EXPECT_EQ(content(to), "shorter");
    EXPECT_EQ(Process({Example("copy"), from}).Wait(), 2);
    unlink(from.c_str());
    unlink(to.c_str());
    rmdir(folder.c_str());
}

TEST(Copy, ForwardsBothDirectionsOfAConnection) {
    auto limit = [](int fd) {
        timeval minute = {60, 0};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof minute);
    };
    Port far(true);
    Process copy({Example("copy"), "forward", "0", far.number(), "once"});
    std::string line = copy.ReadLine();
    ASSERT_TRUE(Matches(line, "forwarding 127.0.0.1:[0-9]+")) << line;
    sockaddr_in address = Port::Loopback(std::stoi(line.substr(line.find(':') + 1)));
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    limit(client);
    limit(far.fd());
    int server = accept(far.fd(), nullptr, nullptr);
    ASSERT_GE(server, 0);
    limit(server);
    char text[16] = {};
    EXPECT_EQ(send(client, "there", 5, MSG_NOSIGNAL), 5);
    EXPECT_EQ(recv(server, text, 5, MSG_WAITALL), 5);
    EXPECT_STREQ(text, "there");
    EXPECT_EQ(shutdown(client, SHUT_WR), 0);
    EXPECT_EQ(recv(server, text, sizeof text, 0), 0); // that direction alone has ended
    EXPECT_EQ(send(server, "and back", 8, MSG_NOSIGNAL), 8);
    EXPECT_EQ(close(server), 0);
    EXPECT_EQ(recv(client, text, 9, MSG_WAITALL), 8);
    EXPECT_STREQ(text, "and back");
    EXPECT_EQ(copy.Wait(), 0) << copy.ReadErrors();
    close(client);
}

// The three programs that run fibers in a loop of another making do the same.
class Embed : public testing::TestWithParam<const char*> {
protected:
    void SetUp() override {
        path_ = Example("embed_") + GetParam();
        if (access(path_.c_str(), X_OK) != 0) GTEST_SKIP() << "the example was built without " << GetParam();
    }
    std::string path_;
};

TEST_P(Embed, RunsErrandsAtTheSameTimeAndTheLoopGoesOn) {
    Process embed({path_});
    ASSERT_TRUE(embed.Write("3000 tea\n"));
    EXPECT_EQ(embed.ReadLine(), "began tea");
    ASSERT_TRUE(embed.Write("1000 bread\n1 salt\n"));
    embed.CloseStdin();
    std::string rest = embed.ReadOutput();
    EXPECT_EQ(rest, "began bread\nbegan salt\nended salt\nended bread\nended tea\n");
    EXPECT_EQ(embed.Wait(), 0);
}

TEST_P(Embed, SleepsWhenThereIsNothingToDoAndEndsWithTheInput) {
    Process embed({path_});
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_EQ(embed.Wait(milliseconds(0)), Process::kStillRunning);
    embed.CloseStdin();
    EXPECT_EQ(embed.Wait(), 0);
    EXPECT_EQ(embed.ReadOutput(), "");
}

INSTANTIATE_TEST_SUITE_P(In, Embed, testing::Values("poll", "libev", "glib"),
                         [](const auto& info) { return std::string(info.param); });

// Containers forbid io_uring in one of these ways. The examples that do I/O, if FIBERRT_BACKEND allows no other
// backend, say that there is no backend, and exit with 2.
TEST(Examples, SayThatThereIsNoBackend) {
    for (int error : {ENOSYS, EPERM}) {
        const std::vector<std::vector<std::string>> with_io = {{"echo"}, {"ticker"}, {"graceful"}, {"copy", "-", "-"}};
        for (std::vector<std::string> command : with_io) {
            std::string name = std::exchange(command[0], Example(command[0].c_str()));
            Process example(command, [=] {
                RefuseSystemCall(SYS_io_uring_setup, error);
                setenv("FIBERRT_BACKEND", "uring", 1);
            });
            example.CloseStdin();
            EXPECT_EQ(example.Wait(), 2) << name;
            EXPECT_NE(example.ReadErrors().find("no backend for I/O"), std::string::npos) << name;
        }
        for (const char* name : {"hello", "generator", "mailbox"}) {
            Process example({Example(name)}, [=] { RefuseSystemCall(SYS_io_uring_setup, error); });
            EXPECT_EQ(example.Wait(), 0) << name << " does no I/O and needs no ring";
        }
    }
}

} // namespace
