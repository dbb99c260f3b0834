// SPDX-License-Identifier: MIT OR Apache-2.0
// examples_test.cc - runs the smaller examples as a user would and checks their output.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "examples_servers.h"
#include "subprocess.h"

using fiberrt_test::Matches;
using fiberrt_test::milliseconds;
using fiberrt_test::Process;
using fiberrt_test::RefuseSystemCall;
using fiberrt_test::SmallHttp;
using fiberrt_test::SmallPostgres;

namespace {

std::string Example(const char* name) { return std::string(EXAMPLES_DIR "/") + name; }

// An example that always prints the same.
void ExpectOutput(const char* name, const std::string& output) {
    Process example({Example(name)});
    EXPECT_EQ(example.ReadOutput(), output);
    EXPECT_EQ(example.Wait(), 0) << example.ReadErrors();
}

// An example whose output depends on times: a busy machine may stop it between two of them.
void ExpectOutputOnce(const std::vector<std::string>& command, const std::string& output) {
    std::string last;
    for (int attempt = 0; attempt < 10 && last != output; attempt++) {
        Process example(command);
        last = example.ReadOutput();
        EXPECT_EQ(example.Wait(), 0) << example.ReadErrors();
    }
    EXPECT_EQ(last, output);
}

TEST(Hello, Greets) { ExpectOutput("hello", "hello, world\n"); }

TEST(Join, PrintsTheResults) {
    ExpectOutput("join", "\"one fish two fish\": 4 words\n\"red fish\": 2 words\n\"\": 0 words\n");
}

TEST(Deadline, LimitsTheTimeOfABlock) { ExpectOutput("deadline", "in time: done\ntoo late: timed out\n"); }

TEST(Scope, TheFirstFailureCancelsTheOthers) {
    ExpectOutput("scope", "one: done\ntwo: failed\nthree: the calling fiber is cancelled\n"
                          "the first failure: Input/output error\n");
}

TEST(Channel, SendsNumbersThroughTwoFibers) { ExpectOutput("channel", "1\n4\n9\n16\n25\n"); }

TEST(Select, ServesJobsUntilItIsStopped) {
    Process select({Example("select")});
    std::string output = select.ReadOutput();
    EXPECT_TRUE(Matches(output, "job 1\n(idle\n)*job 2\n(idle\n)*job 3\n(idle\n)*stopped\n")) << output;
    EXPECT_EQ(select.Wait(), 0) << select.ReadErrors();
}

TEST(Mailbox, AnswersLettersAndAnInterrupt) {
    ExpectOutput("mailbox", "wanted 4, got 4\nwanted 5, got 5\nwanted 3, got 1\nkeeper: what is left is 0\n");
}

TEST(Generator, EndsByItselfAndIsAbandoned) {
    ExpectOutput("generator", "0 1 1 2 3 5 8 13 21 34 55 89 (the end)\n"
                              "0 1 1 2 3 5 8 13 21 34 55 89 144 233 377 610 987 1597 2584 4181 ...\n");
}

TEST(Mutex, LosesNoMoney) { ExpectOutput("mutex", "the balance is 1000\n"); }

TEST(Cond, PaysOutWhenTheBalanceIsHighEnough) {
    ExpectOutput("cond", "100: paid out\n500: paid out\n1000: the calling fiber is cancelled\n");
}

TEST(Bank, LosesNoMoneyWhenRunAlone) { ExpectOutput("bank", "the balance is 350\n"); }

TEST(Cords, AnswerQuestionsOnTwoThreads) { ExpectOutput("cords", "the sum is 20\n"); }

TEST(Pool, CountsPrimes) { ExpectOutput("pool", "1229 primes below 10000\n"); }

TEST(Offload, LetsTheOtherFiberRun) {
    ExpectOutputOnce({Example("offload")}, "the answer is 70, and the other fiber ran meanwhile\n");
}

TEST(SignalMask, IsEachFibersOwn) {
    ExpectOutput("signal_mask", "one: USR1 -\ntwo: - USR2\none: USR1 -\ntwo: - USR2\nmain: - -\n");
}

TEST(Sums, AddsUp) { ExpectOutput("sums", "45000\n"); }

TEST(Race, IsWonByTheFastestOrEndsInTime) {
    ExpectOutputOnce({Example("race"), "60000"}, "found by 2\n");
    Process impatient({Example("race"), "1"});
    EXPECT_EQ(impatient.ReadOutput(), "not found in time\n");
    EXPECT_EQ(impatient.Wait(), 0);
}

TEST(Ticker, EchoesInputWhileItTicksAndEndsWithTheInput) {
    Process ticker({Example("ticker"), "50"});
    for (const std::string& text : {std::string("first"), std::string("a byte \0 of 0", 14)}) {
        ASSERT_TRUE(ticker.Write(text + "\n"));
        std::string line;
        while ((line = ticker.ReadLine()).rfind("tick ", 0) == 0) {}
        EXPECT_EQ(line, "echo: " + text);
        EXPECT_TRUE(Matches(ticker.ReadLine(), "tick [0-9]+, [0-9]+ left out"));
    }
    ticker.CloseStdin();
    EXPECT_EQ(ticker.Wait(), 0) << ticker.ReadErrors();
}

// Reads "listening on 127.0.0.1:PORT" from an example that serves. Returns the port, or 0.
int PortOf(Process& server) {
    std::string line = server.ReadLine();
    EXPECT_EQ(line.rfind("listening on 127.0.0.1:", 0), 0u) << line << (line.empty() ? server.ReadErrors() : "");
    return atoi(line.substr(line.rfind(':') + 1).c_str());
}

TEST(EchoAndDial, TextsOfAnySizeComeBack) {
    Process server({Example("echo"), "0"});
    std::string address = "127.0.0.1:" + std::to_string(PortOf(server));
    for (const std::string& text : {std::string("a few words"), std::string(60000, 'x'), std::string("")}) {
        Process client({Example("dial"), address, text});
        EXPECT_EQ(client.ReadOutput(), text + "\n");
        EXPECT_EQ(client.Wait(), 0) << client.ReadErrors();
    }
    EXPECT_EQ(server.Wait(milliseconds(0)), Process::kStillRunning);
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
    int fd() const { return fd_; }

private:
    int fd_;
    std::string text_;
};

TEST(Dial, ReportsThatNoServerListens) {
    Port dead(false);
    Process client({Example("dial"), dead.text(), "text"});
    EXPECT_EQ(client.Wait(), 1);
    EXPECT_EQ(client.ReadErrors(), std::string("dial: ") + strerror(ECONNREFUSED) + "\n");
}

TEST(FirstAddress, ConnectsToTheOneThatListens) {
    Port dead(false), good(true), other(true);
    Process client({Example("first_address"), dead.text(), good.text(), other.text()});
    EXPECT_EQ(client.Wait(), 0) << client.ReadErrors();
    // On a machine with much to do the third may be faster than the second.
    std::string line = client.ReadOutput();
    EXPECT_TRUE(line == "connected to " + good.text() + "\n" || line == "connected to " + other.text() + "\n") << line;
}

TEST(FirstAddress, ReportsTheFirstFailure) {
    Port one(false), two(false);
    Process client({Example("first_address"), one.text(), two.text()});
    EXPECT_EQ(client.Wait(), 1);
    EXPECT_EQ(client.ReadErrors(), std::string("first_address: ") + strerror(ECONNREFUSED) + "\n");
}

// A client of a server that echoes.
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
    int fd() const { return fd_; }
    std::string Ask(const std::string& text) const {
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

TEST(Graceful, LetsOpenConnectionsFinishAndAcceptsNoMore) {
    Process server({Example("graceful"), "0", "600000"});
    const int port = PortOf(server);
    Client client(port);
    ASSERT_TRUE(client.connected());
    EXPECT_EQ(client.Ask("one"), "one");
    EXPECT_TRUE(server.Signal(SIGTERM));
    while (Client(port).connected()) std::this_thread::sleep_for(milliseconds(2));
    EXPECT_EQ(client.Ask("two"), "two");
    EXPECT_EQ(server.ReadLine(), "all served");
    EXPECT_EQ(server.Wait(), 0);
}

TEST(Graceful, CutsOffConnectionsAfterTheGrace) {
    Process server({Example("graceful"), "0", "100"});
    Client client(PortOf(server));
    EXPECT_EQ(client.Ask("one"), "one");
    EXPECT_TRUE(server.Signal(SIGINT));
    EXPECT_EQ(server.ReadLine(), "the rest was cut off");
    EXPECT_EQ(server.Wait(), 0);
}

// The servers, with libev, whose calls are system calls: accept4 fails with an error.
class ServerThatCannotAccept : public testing::TestWithParam<std::vector<std::string>> {
protected:
    static std::vector<std::string> Command() {
        std::vector<std::string> command = GetParam();
        command[0] = Example(command[0].c_str());
        return command;
    }
    static auto Refuse(int error) {
        return [error] {
            RefuseSystemCall(SYS_accept4, error);
            setenv("FIBERRT_BACKEND", "ev", 1);
        };
    }
    static bool HasNoBackend(Process& server, const std::string& errors) {
        return server.Wait(milliseconds(0)) == 1 && errors == GetParam()[0] + ": not supported here\n";
    }
};

TEST_P(ServerThatCannotAccept, GoesOnWhenOneConnectionFails) {
    Process server(Command(), Refuse(EPROTO));
    Client client(PortOf(server));
    if (server.Wait(milliseconds(200)) != Process::kStillRunning && HasNoBackend(server, server.ReadErrors())) {
        GTEST_SKIP() << "the library was built without libev";
    }
    EXPECT_EQ(server.Wait(milliseconds(0)), Process::kStillRunning);
    if (GetParam()[0] == "graceful") {
        EXPECT_TRUE(server.Signal(SIGTERM));
        EXPECT_EQ(server.ReadLine(), "all served");
        EXPECT_EQ(server.Wait(), 0);
    }
}

TEST_P(ServerThatCannotAccept, EndsWhenItCanAcceptNoMoreConnections) {
    Process server(Command(), Refuse(EACCES));
    Client client(PortOf(server));
    EXPECT_EQ(server.Wait(), 1);
    const std::string errors = server.ReadErrors();
    if (HasNoBackend(server, errors)) {
        GTEST_SKIP() << "the library was built without libev";
    }
    EXPECT_EQ(errors, GetParam()[0] + ": " + strerror(EACCES) + "\n");
}

INSTANTIATE_TEST_SUITE_P(Of, ServerThatCannotAccept,
                         testing::Values(std::vector<std::string>{"echo", "0"},
                                         std::vector<std::string>{"graceful", "0", "600000"},
                                         std::vector<std::string>{"forward", "0", "127.0.0.1:9"}),
                         [](const auto& info) { return info.param[0]; });

TEST(Command, PrintsTheOutputAndExitsAsTheCommandDoes) {
    Process command({Example("command"), "60000", "sh", "-c", "echo out; echo err >&2; printf rest; exit 3"});
    EXPECT_EQ(command.ReadOutput(), "| out\n| err\n| rest");
    EXPECT_EQ(command.Wait(), 3);
    Process killed({Example("command"), "60000", "sh", "-c", "kill -KILL $$"});
    EXPECT_EQ(killed.Wait(), 128 + SIGKILL);
    Process none({Example("command"), "60000", "/no/such/command"});
    EXPECT_EQ(none.Wait(), 125);
    EXPECT_NE(none.ReadErrors().find(strerror(ENOENT)), std::string::npos);
}

// The command's own child processes, which keep its output open, end too.
TEST(Command, EndsTheCommandInTime) {
    for (const char* text :
         {"sh -c 'exec sleep 1000' & wait", "trap '' TERM; while :; do sleep 0.1; done", "sleep 1000 & exit 0"}) {
        Process command({Example("command"), "100", "sh", "-c", text});
        EXPECT_EQ(command.ReadOutput(), "the time is over\n");
        EXPECT_EQ(command.Wait(), 124);
    }
}

TEST(Command, EndsTheCommandAtASignal) {
    Process command(
        {Example("command"), "600000", "sh", "-c", "trap 'echo end; exit' TERM; echo begin; sleep 1000 & wait"});
    EXPECT_EQ(command.ReadLine(), "| begin");
    EXPECT_TRUE(command.Signal(SIGINT));
    EXPECT_EQ(command.Wait(), 125);
}

TEST(Command, RefusesALimitThatIsNoNumber) {
    for (const char* limit : {"-1", "1s", "99999999999999999999"}) {
        Process command({Example("command"), limit, "sleep", "1000"});
        EXPECT_EQ(command.Wait(), 125) << limit;
    }
}

TEST(Supervisor, RestartsWorkersWithLongerAndLongerPauses) {
    Process supervisor({Example("supervisor"), "0", "3"});
    EXPECT_EQ(supervisor.ReadOutput(), "one is done\ntwo failed, again in 10 ms\ntwo failed, again in 20 ms\n"
                                       "two failed, again in 40 ms\ntwo is done\n");
    EXPECT_EQ(supervisor.Wait(), 0);
}

TEST(Supervisor, GivesUpAndCancelsTheOthers) {
    Process supervisor({Example("supervisor"), "5", "1000000"});
    std::string output = supervisor.ReadOutput();
    EXPECT_EQ(supervisor.Wait(), 1);
    EXPECT_NE(output.find("gave up: Input/output error\n"), std::string::npos) << output;
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
    EXPECT_NE(errors.find("copy: 0 bytes were written, and 0 lost\n"), std::string::npos) << errors;
    EXPECT_NE(errors.find(strerror(ENOSPC)), std::string::npos) << errors;
    Process none({Example("copy"), folder + "/none", to});
    EXPECT_EQ(none.Wait(), 1);
    EXPECT_NE(none.ReadErrors().find(strerror(ENOENT)), std::string::npos);
    EXPECT_EQ(content(to), "shorter");
    unlink(from.c_str());
    unlink(to.c_str());
    rmdir(folder.c_str());
}

TEST(Forward, CopiesBothDirectionsOfAConnection) {
    Port far(true);
    Process forward({Example("forward"), "0", far.text()});
    Client client(PortOf(forward));
    ASSERT_TRUE(client.connected());
    timeval limit = {60, 0};
    setsockopt(far.fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    int server = accept(far.fd(), nullptr, nullptr);
    ASSERT_GE(server, 0);
    setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    char text[16] = {};
    EXPECT_EQ(send(client.fd(), "there", 5, MSG_NOSIGNAL), 5);
    EXPECT_EQ(recv(server, text, 5, MSG_WAITALL), 5);
    EXPECT_STREQ(text, "there");
    EXPECT_EQ(shutdown(client.fd(), SHUT_WR), 0);
    EXPECT_EQ(recv(server, text, sizeof text, 0), 0); // that direction alone has ended
    EXPECT_EQ(send(server, "and back", 8, MSG_NOSIGNAL), 8);
    EXPECT_EQ(close(server), 0);
    EXPECT_EQ(recv(client.fd(), text, 9, MSG_WAITALL), 8);
    EXPECT_STREQ(text, "and back");
    EXPECT_EQ(forward.Wait(milliseconds(0)), Process::kStillRunning);
}

TEST(Listen, RefusesAnArgumentThatIsNotAPort) {
    for (const char* port : {"", "x", "80x", "-1", "65536"}) {
        Process server({Example("echo"), port});
        EXPECT_EQ(server.Wait(), 1);
        EXPECT_EQ(server.ReadErrors(), std::string("cannot listen: ") + port + " is no port\n");
    }
}

TEST(Examples, RefuseBadArguments) {
    for (const char* name :
         {"echo", "graceful", "dial", "first_address", "copy", "forward", "command", "supervisor", "ticker"}) {
        Process example({Example(name)});
        EXPECT_NE(example.Wait(), 0) << name;
        EXPECT_EQ(example.ReadErrors().rfind(std::string("usage: ") + name, 0), 0u);
    }
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
    const std::string expected = "began bread\nbegan salt\nended salt\nended bread\nended tea\n";
    std::string rest;
    for (int attempt = 0; attempt < 5 && rest != expected; attempt++) { // a busy machine may bake the bread too late
        Process embed({path_});
        ASSERT_TRUE(embed.Write("3000 tea\n"));
        EXPECT_EQ(embed.ReadLine(), "began tea");
        ASSERT_TRUE(embed.Write("1000 bread\n1 salt\n"));
        embed.CloseStdin();
        rest = embed.ReadOutput();
        EXPECT_EQ(embed.Wait(), 0);
    }
    EXPECT_EQ(rest, expected);
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

// Containers forbid io_uring in one of these ways. Examples that do I/O, if FIBERRT_BACKEND allows no other backend,
// end with the error; the others need none.
TEST(Examples, EndIfThereIsNoBackend) {
    for (int error : {ENOSYS, EPERM}) {
        const std::vector<std::vector<std::string>> with_io = {
            {"echo", "0"}, {"ticker", "1000"}, {"graceful", "0", "0"}, {"copy", "-", "-"}};
        for (std::vector<std::string> command : with_io) {
            std::string name = std::exchange(command[0], Example(command[0].c_str()));
            Process example(command, [=] {
                RefuseSystemCall(SYS_io_uring_setup, error);
                setenv("FIBERRT_BACKEND", "uring", 1);
            });
            example.CloseStdin();
            EXPECT_EQ(example.Wait(), 1) << name;
            EXPECT_NE(example.ReadErrors().find("not supported here\n"), std::string::npos) << name;
        }
        for (const char* name : {"hello", "generator", "mailbox"}) {
            Process example({Example(name)}, [=] { RefuseSystemCall(SYS_io_uring_setup, error); });
            EXPECT_EQ(example.Wait(), 0) << name << " does no I/O and needs no ring";
        }
    }
}

#if FIBERRT_TEST_PQ
// The server answers no query before it has a hundred.
TEST(Pq, AsksAHundredQueriesAtOnce) {
    SmallPostgres server(100);
    server.Start();
    Process pq({Example("pq"), "host=127.0.0.1 sslmode=disable gssencmode=disable user=test dbname=test port=" +
                                   std::to_string(server.port())});
    EXPECT_EQ(pq.ReadOutput(), "100 of 100 answers are right\n");
    EXPECT_EQ(pq.Wait(), 0) << pq.ReadErrors();
    server.Stop();
}

TEST(Pq, ReportsThatThereIsNoServer) {
    Port dead(false);
    std::string port = dead.text().substr(dead.text().find(':') + 1);
    Process pq({Example("pq"), "host=127.0.0.1 port=" + port});
    EXPECT_EQ(pq.ReadOutput(), "0 of 100 answers are right\n");
    EXPECT_EQ(pq.Wait(), 1);
    EXPECT_NE(pq.ReadErrors().find("Connection refused"), std::string::npos);
}
#endif

#if FIBERRT_TEST_CURL
// Runs crawl. The first pages are answered only when `together` have been asked for. Returns the exit code.
int Crawl(size_t together, const std::string& path, const std::string& pages, const std::string& fibers,
          const std::string& limit, const std::string& output) {
    SmallHttp server(together);
    server.Start();
    Process crawl({Example("crawl"), "http://127.0.0.1:" + std::to_string(server.port()) + path, pages, fibers, limit});
    EXPECT_EQ(crawl.ReadOutput(), output);
    int code = crawl.Wait();
    server.Stop();
    return code;
}

TEST(Crawl, FetchesAThousandPages) {
    EXPECT_EQ(Crawl(50, "/", "1000", "50", "600000", "1000 pages with 500500 bytes, 0 too late, 0 failed\n"), 0);
}

TEST(Crawl, LimitsTheTimeOfAPage) {
    EXPECT_EQ(Crawl(0, "/silent", "7", "3", "100", "0 pages with 0 bytes, 7 too late, 0 failed\n"), 0);
}

TEST(Crawl, CountsPagesThatAreNotThere) {
    EXPECT_EQ(Crawl(0, "/none", "2", "1", "600000", "0 pages with 0 bytes, 0 too late, 2 failed\n"), 1);
}
#endif

} // namespace
