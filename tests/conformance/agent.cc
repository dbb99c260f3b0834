// SPDX-License-Identifier: MIT OR Apache-2.0
// The agent: it answers at a unix socket while cords hang, only to the owner of the process, and no client keeps it from
// the others. The metrics, which a program may also write itself.
#include "agent_client.h"
#include "conformance.h"
#include "cord_support.h"
#include "in_child.h"

#include <csignal>
#include <fcntl.h>
#include <set>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>

using namespace support;

namespace {

#define NEEDS_AN_AGENT() NOT_ON_SIM("has no agent")

constexpr const char *no_such_request = "error: there is no such request\n";

// An agent for as long as it is in scope.
class Agent {
public:
    explicit Agent(const char *name = "a.sock") : path_(folder_ / name) {
        EXPECT_EQ(fiber_agent_start(path_.c_str()), 0);
    }
    ~Agent() {
        if (!stopped_) stop();
    }
    void stop() {
        EXPECT_EQ(fiber_agent_stop(), 0);
        stopped_ = true;
    }
    const std::string &path() const { return path_; }
    const SocketFolder &folder() const { return folder_; }
    std::string ask(const std::string &request) const { return agent_ask(path_, request); }

private:
    SocketFolder folder_;
    std::string path_;
    bool stopped_ = false;
};

bool ends_with(const std::string &text, const std::string &end) {
    return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The metrics as the call writes them.
std::string metrics() {
    const int fd = ::memfd_create("metrics", MFD_CLOEXEC);
    EXPECT_EQ(fiber_metrics_write(fd), 0);
    std::string text(size_t(::lseek(fd, 0, SEEK_END)), '\0');
    EXPECT_EQ(::pread(fd, text.data(), text.size(), 0), ssize_t(text.size()));
    ::close(fd);
    return text;
}

mode_t mode_of(const std::string &path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mode : 0;
}

constexpr uid_t another_user = 65534;

} // namespace

TEST(Agent, ASimulationHasNone) {
    if (!simulated()) GTEST_SKIP() << "there is no simulation";
    EXPECT_EQ(fiber_agent_start("/tmp/fiberrt-agent-of-sim"), -ENOTSUP);
    EXPECT_EQ(fiber_agent_stop(), -ESRCH);
}

TEST(Agent, AnswersAndRemovesItsFile) {
    NEEDS_AN_AGENT();
    Agent agent;
    EXPECT_EQ(mode_of(agent.path()), S_IFSOCK | 0600u);
    self(); // so that there is a cord
    const std::string text = agent.ask("dump text\n");
    EXPECT_EQ(text.rfind("fiberrt ", 0), 0u) << text;
    EXPECT_NE(text.find("main flow"), std::string::npos) << text;
    EXPECT_TRUE(ends_with(agent.ask("metrics\n"), "# EOF\n"));
    agent.stop();
    EXPECT_EQ(mode_of(agent.path()), 0u);
    EXPECT_EQ(agent.ask("metrics\n"), "errno " + std::to_string(ENOENT));
    EXPECT_EQ(fiber_agent_stop(), -ESRCH);
}

TEST(Agent, IsOneAndMayStartAgain) {
    NEEDS_AN_AGENT();
    Agent agent;
    EXPECT_EQ(fiber_agent_start((agent.folder() / "b.sock").c_str()), -EBUSY);
    EXPECT_EQ(mode_of(agent.folder() / "b.sock"), 0u);
    agent.stop();
    for (int i = 0; i < 20; i++) {
        Agent again;
        EXPECT_TRUE(ends_with(again.ask("metrics\n"), "# EOF\n"));
    }
}

TEST(Agent, InADirectoryItsNameIsTheProcess) {
    NEEDS_AN_AGENT();
    SocketFolder folder;
    ASSERT_EQ(fiber_agent_start(folder.path().c_str()), 0);
    const std::string path = folder / (std::to_string(::getpid()) + ".sock").c_str();
    EXPECT_TRUE(ends_with(agent_ask(path, "metrics\n"), "# EOF\n"));
    EXPECT_EQ(fiber_agent_stop(), 0);
    EXPECT_EQ(mode_of(path), 0u);
}

TEST(Agent, ARelativePathIsThatOfTheStart) {
    NEEDS_AN_AGENT();
    SocketFolder folder;
    const int before = ::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    ASSERT_EQ(::chdir(folder.path().c_str()), 0);
    EXPECT_EQ(fiber_agent_start("a.sock"), 0);
    ASSERT_EQ(::fchdir(before), 0);
    ::close(before);
    EXPECT_EQ(mode_of(folder / "a.sock"), S_IFSOCK | 0600u);
    EXPECT_EQ(fiber_agent_stop(), 0);
    EXPECT_EQ(mode_of(folder / "a.sock"), 0u);
}

TEST(Agent, RefusesBadPaths) {
    NEEDS_AN_AGENT();
    SocketFolder folder;
    EXPECT_EQ(fiber_agent_start(nullptr), -EINVAL);
    EXPECT_EQ(fiber_agent_start(""), -EINVAL);
    EXPECT_EQ(fiber_agent_start("/nowhere/a.sock"), -ENOENT);
    // The longest path, and one byte more.
    std::string longest = folder.path() + "/";
    longest.append(107 - longest.size(), 'x');
    EXPECT_EQ(fiber_agent_start((longest + "x").c_str()), -ENAMETOOLONG);
    EXPECT_EQ(fiber_agent_start((folder.path() + std::string(5000, 'x')).c_str()), -ENAMETOOLONG);
    EXPECT_EQ(fiber_agent_start(longest.c_str()), 0);
    EXPECT_EQ(mode_of(longest), S_IFSOCK | 0600u);
    EXPECT_EQ(fiber_agent_stop(), 0);
    EXPECT_EQ(mode_of(longest), 0u);
    // A file of another kind stays as it is, and so does what a link names.
    const std::string other = folder / "other";
    ::close(::open(other.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    EXPECT_EQ(fiber_agent_start(other.c_str()), -EEXIST);
    ASSERT_EQ(::symlink(other.c_str(), (folder / "a.sock").c_str()), 0);
    EXPECT_EQ(fiber_agent_start((folder / "a.sock").c_str()), -EEXIST);
    EXPECT_EQ(mode_of(other), S_IFREG | 0600u);
}

TEST(Agent, TheUmaskChangesNothing) {
    NEEDS_AN_AGENT();
    const mode_t before = ::umask(0);
    Agent agent;
    EXPECT_EQ(::umask(before), 0u); // start has not changed it
    EXPECT_EQ(mode_of(agent.path()), S_IFSOCK | 0600u);
}

TEST(Agent, ReplacesTheFileOfAProcessThatHasEnded) {
    NEEDS_AN_AGENT();
    SocketFolder folder;
    const std::string path = folder / "a.sock";
    EXPECT_EQ(in_child([&] { return fiber_agent_start(path.c_str()) == 0 ? 7 : 1; }), 7); // by _exit: the file stays
    EXPECT_EQ(mode_of(path), S_IFSOCK | 0600u);
    ASSERT_EQ(fiber_agent_start(path.c_str()), 0);
    EXPECT_TRUE(ends_with(agent_ask(path, "metrics\n"), "# EOF\n"));
    // Another process must not replace this one's.
    EXPECT_EQ(in_child([&] { return -fiber_agent_start(path.c_str()); }), EADDRINUSE);
    EXPECT_TRUE(ends_with(agent_ask(path, "metrics\n"), "# EOF\n"));
    EXPECT_EQ(fiber_agent_stop(), 0);
}

TEST(Agent, TheChildOfAForkDoesNotServe) {
    NEEDS_AN_AGENT();
    NEEDS_AN_ALLOCATOR_THAT_KNOWS_FORKS();
    Agent agent;
    const std::string second = agent.folder() / "b.sock";
    const int result = in_child([&] {
        if (fiber_agent_stop() != -ESRCH) return 1;
        if (mode_of(agent.path()) != (S_IFSOCK | 0600u)) return 2;
        if (fiber_agent_start(second.c_str()) != 0) return 3;
        if (!ends_with(agent_ask(second, "metrics\n"), "# EOF\n")) return 4;
        if (fiber_agent_stop() != 0) return 5;
        return 0;
    });
    EXPECT_EQ(result, 0);
    EXPECT_TRUE(ends_with(agent.ask("metrics\n"), "# EOF\n"));
    // A child that outlives the agent holds no part of the socket: a client is refused.
    int to_child[2];
    int to_parent[2];
    ASSERT_EQ(::pipe2(to_child, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(to_parent, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        char byte;
        ::alarm(60);
        ::close(to_child[1]);
        ::close(to_parent[1]); // tells the parent that fork() has returned here, too
        ::_exit(int(::read(to_child[0], &byte, 1)));
    }
    ::close(to_child[0]);
    ::close(to_parent[1]);
    char none;
    EXPECT_EQ(::read(to_parent[0], &none, 1), 0);
    ::close(to_parent[0]);
    ASSERT_EQ(::rename(agent.path().c_str(), second.c_str()), 0);
    agent.stop();
    EXPECT_EQ(agent_ask(second, "metrics\n"), "errno " + std::to_string(ECONNREFUSED));
    ::close(to_child[1]);
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(Agent, OtherUsersAreRefused) {
    NEEDS_AN_AGENT();
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    Agent agent;
    ASSERT_EQ(::chmod(agent.folder().path().c_str(), 0755), 0);
    auto ask_as_another = [&](const char *answer) {
        return in_child([&] {
            if (::setresgid(another_user, another_user, another_user) != 0) return 1;
            if (::setresuid(another_user, another_user, another_user) != 0) return 2;
            return agent.ask("metrics\n") == answer ? 0 : 3;
        });
    };
    EXPECT_EQ(ask_as_another("errno 13"), 0); // EACCES, by the mode of the file
    ASSERT_EQ(::chmod(agent.path().c_str(), 0666), 0);
    EXPECT_EQ(ask_as_another("error: only the owner of the process may ask\n"), 0);
    EXPECT_TRUE(ends_with(agent.ask("metrics\n"), "# EOF\n"));
}

// Not even root is answered by a process of another user.
TEST(Agent, RootIsNoOwnerEither) {
    NEEDS_AN_AGENT();
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    Agent agent;
    EXPECT_TRUE(ends_with(agent.ask("metrics\n"), "# EOF\n"));
    ASSERT_EQ(::seteuid(another_user), 0); // of all threads
    const int result = in_child([&] {
        if (::seteuid(0) != 0) return 1;
        return agent.ask("metrics\n") == "error: only the owner of the process may ask\n" ? 0 : 2;
    });
    ASSERT_EQ(::seteuid(0), 0);
    EXPECT_EQ(result, 0);
}

TEST(Agent, AnswersWhileCordsHang) {
    NEEDS_AN_AGENT();
    NEEDS_THREADS();
    Agent agent;
    std::atomic<bool> stop{false};
    std::atomic<bool> spins{false};
    auto spin = [&] {
        spins = true;
        while (!stop) continue;
    };
    std::thread another([&] { run(spin); });
    while (!spins) std::this_thread::yield();
    // This thread's cord hangs in the client's system calls, and the other one in the loop.
    EXPECT_TRUE(ends_with(agent.ask("metrics\n"), "# EOF\n"));
    const std::string text = agent.ask("dump text\n");
    EXPECT_NE(text.find("running"), std::string::npos) << text;
    stop = true;
    another.join();
}

TEST(Agent, GarbageIsAnswered) {
    NEEDS_AN_AGENT();
    Agent agent;
    using namespace std::string_literals;
    const std::string bad[] = {"x\n",
                               "dump\n",
                               "dump  text\n",
                               " metrics\n",
                               "metrics \n",
                               "METRICS\n",
                               "metrics\0\n"s,
                               "\0\n"s,
                               "fiber\n",
                               "fiber \n",
                               "fiber x\n",
                               "fiber 99999999999999999999\n",
                               "fiber 1 2\n",
                               "fiber -1\n",
                               "\xff\xfe\n",
                               "metrics\r\n",
                               "GET / HTTP/1.1\r\n\r\n",
                               std::string(63, 'a') + "\n",
                               std::string(64, 'a'),
                               std::string(65, 'a'),
                               std::string(100000, 'a')};
    for (const std::string &request : bad) EXPECT_EQ(agent.ask(request), no_such_request) << request;
    EXPECT_EQ(agent.ask("\n"), "");
    EXPECT_TRUE(ends_with(agent.ask("metrics\nmetrics\n"), "# EOF\n")); // one answer for each connection
}

TEST(Agent, RequestsMayComeInPiecesAndEndWithTheirSender) {
    NEEDS_AN_AGENT();
    Agent agent;
    const int pieces = agent_connect(agent.path());
    ASSERT_GE(pieces, 0);
    for (const char *piece : {"me", "t", "rics", "\n"}) EXPECT_TRUE(agent_send(pieces, piece));
    EXPECT_TRUE(ends_with(agent_read_all(pieces), "# EOF\n"));
    const int half = agent_connect(agent.path());
    ASSERT_GE(half, 0);
    EXPECT_TRUE(agent_send(half, "metrics"));
    ASSERT_EQ(::shutdown(half, SHUT_WR), 0);
    EXPECT_TRUE(ends_with(agent_read_all(half), "# EOF\n"));
}

TEST(Agent, SilentClientsAreDroppedAndKeepNoOtherOut) {
    NEEDS_AN_AGENT();
    Agent agent;
    int silent[7];
    for (int &fd : silent) ASSERT_GE(fd = agent_connect(agent.path()), 0);
    EXPECT_TRUE(agent_send(silent[0], "metr"));
    for (int i = 0; i < 100; i++) EXPECT_TRUE(ends_with(agent.ask("metrics\n"), "# EOF\n"));
    for (int fd : silent) EXPECT_EQ(agent_read_all(fd), "");
    // More than it serves at once: the others wait in the kernel until these are dropped.
    int many[10];
    for (int &fd : many) ASSERT_GE(fd = agent_connect(agent.path()), 0);
    EXPECT_TRUE(ends_with(agent.ask("metrics\n"), "# EOF\n"));
    for (int fd : many) ::close(fd);
}

namespace {

// So many fibers that a dump of them has more text than a socket takes.
class LongText {
public:
    LongText() {
        for (fiber_t &fiber : all_) {
            EXPECT_EQ(fiber_new(
                          &fiber, nullptr, [](void *) -> void * { return nullptr; }, nullptr),
                      0);
            EXPECT_EQ(fiber_set_name(fiber, "a fiber that is never started"), 0);
        }
    }
    LongText(const LongText &) = delete;
    LongText &operator=(const LongText &) = delete;
    ~LongText() {
        for (fiber_t fiber : all_) EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        for (fiber_t fiber : all_) EXPECT_EQ(fiber_join(fiber, nullptr), 0);
    }

private:
    std::vector<fiber_t> all_ = std::vector<fiber_t>(4000);
};

} // namespace

TEST(Agent, ClientsThatTakeNothingAreDropped) {
    NEEDS_AN_AGENT();
    Agent agent;
    const LongText text;
    const int deaf = agent_connect(agent.path());
    ASSERT_GE(deaf, 0);
    EXPECT_TRUE(agent_send(deaf, "dump text\n"));
    EXPECT_TRUE(ends_with(agent.ask("metrics\n"), "# EOF\n")); // after the agent has given up on the first
    const std::string cut = agent_read_all(deaf);
    EXPECT_EQ(cut.find("(no end"), std::string::npos);
    EXPECT_FALSE(cut.empty());
    // The end of the agent does not wait for such a client.
    const int another = agent_connect(agent.path());
    ASSERT_GE(another, 0);
    EXPECT_TRUE(agent_send(another, "dump text\n"));
    pollfd begun = {another, POLLIN, 0};
    ASSERT_EQ(::poll(&begun, 1, 60000), 1);
    agent.stop();
    ::close(another);
}

// While the agent waits for a client that takes nothing, another one connects. Then this one has a second, too.
TEST(Agent, AClientThatHadToWaitHasTimeForItsRequest) {
    NEEDS_AN_AGENT();
    Agent agent;
    const LongText text;
    bool answered = false;
    for (int i = 0; i < 5 && !answered; i++) { // on a busy machine the second may be over
        const int deaf = agent_connect(agent.path());
        ASSERT_GE(deaf, 0);
        EXPECT_TRUE(agent_send(deaf, "dump text\n"));
        pollfd begun = {deaf, POLLIN, 0};
        ASSERT_EQ(::poll(&begun, 1, 60000), 1);
        const int late = agent_connect(agent.path());
        ASSERT_GE(late, 0);
        pollfd dropped = {deaf, 0, 0}; // the hang-up needs no request
        ASSERT_EQ(::poll(&dropped, 1, 60000), 1);
        for (int look = 0; look < 2; look++) EXPECT_TRUE(ends_with(agent.ask("metrics\n"), "# EOF\n"));
        agent_send(late, "metrics\n");
        answered = ends_with(agent_read_all(late), "# EOF\n");
        ::close(deaf);
    }
    EXPECT_TRUE(answered);
}

TEST(Agent, AThousandClients) {
    NEEDS_AN_AGENT();
    Agent agent;
    const int before = agent_connect(agent.path());
    EXPECT_EQ(::close(before), 0);
    for (int i = 0; i < 1000; i++) {
        const int fd = agent_connect(agent.path());
        ASSERT_GE(fd, 0);
        if (i % 3 != 0) {
            EXPECT_TRUE(agent_send(fd, i % 3 == 1 ? "metrics\n" : "x\n"));
        }
        ::close(fd); // without a look at the answer
    }
    EXPECT_TRUE(ends_with(agent.ask("metrics\n"), "# EOF\n"));
}

TEST(Metrics, CountTheFibersOfTheCord) {
    fiber_cord_t cord{};
    ASSERT_EQ(fiber_cord_self(&cord), 0);
    char label[64];
    std::snprintf(label, sizeof label, "{cord=\"0x%016llx\"", static_cast<unsigned long long>(cord.id));
    fiber_t sleeper{}, unborn{};
    ASSERT_EQ(fiber_new(
                  &unborn, nullptr, [](void *) -> void * { return nullptr; }, nullptr),
              0);
    ASSERT_EQ(fiber_spawn(
                  &sleeper, [](void *) -> void * { return pointer(fiber_sleep(FIBER_FOREVER)); }, nullptr),
              0);
    ASSERT_EQ(fiber_reschedule(), 0);
    const std::string text = metrics();
    EXPECT_TRUE(ends_with(text, "# EOF\n"));
    const std::string family = "fiberrt_fibers" + std::string(label);
    EXPECT_NE(text.find(family + ",state=\"new\"} 1\n"), std::string::npos) << text;
    EXPECT_NE(text.find(family + ",state=\"running\"} 1\n"), std::string::npos) << text;
    EXPECT_EQ(text.find(family + ",state=\"waiting\"} 0\n"), std::string::npos) << text;
    EXPECT_NE(text.find("fiberrt_cord_switches_total" + std::string(label) + "} "), std::string::npos) << text;
    for (fiber_t fiber : {sleeper, unborn}) {
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        EXPECT_EQ(fiber_join(fiber, nullptr), 0);
    }
}

TEST(Metrics, DifferentNamesHaveDifferentLabels) {
    const char *const names[] = {"\xff", "\\xff", "\\\xff",   "\\\\xff", "\\\\\xff",
                                 "\n",   "\\n",   "\\x5cxff", "\\x",     "\\"};
    std::vector<fiber_t> all;
    for (const char *name : names) {
        fiber_t fiber{};
        ASSERT_EQ(fiber_new(
                      &fiber, nullptr, [](void *) -> void * { return nullptr; }, nullptr),
                  0);
        EXPECT_EQ(fiber_set_name(fiber, name), 0);
        all.push_back(fiber);
    }
    const std::string text = metrics();
    std::set<std::string> labels;
    for (size_t at = 0; (at = text.find("\nfiberrt_named_fibers{name=", at)) != std::string::npos; at++) {
        const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
        EXPECT_TRUE(labels.insert(line.substr(0, line.rfind(' '))).second) << line;
    }
    EXPECT_GE(labels.size(), all.size());
    EXPECT_TRUE(labels.count("fiberrt_named_fibers{name=\"\\\\xff\"}")) << text; // of the byte
    for (fiber_t fiber : all) {
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        EXPECT_EQ(fiber_join(fiber, nullptr), 0);
    }
}

TEST(Metrics, CannotBeWritten) {
    EXPECT_EQ(fiber_metrics_write(-1), -EBADF);
    const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(fiber_metrics_write(full), -ENOSPC);
    ::close(full);
    Pipe pipe;
    ::close(pipe.read_end);
    pipe.read_end = -1;
    EXPECT_EQ(fiber_metrics_write(pipe.write_end), -EPIPE);
}
