// SPDX-License-Identifier: MIT OR Apache-2.0
// fiberrt-doctor: its statements are true, in the ordinary case and where something is refused or limited.
#include "subprocess.h"
#include "support.h"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

using fiberrt_test::Process;
using fiberrt_test::RefuseSystemCall;

namespace {

using InChild = std::function<void()>;

struct Answer {
    int status;
    std::string text;
};

Answer ask(std::vector<std::string> command, const InChild &in_child = nullptr) {
    Process process(command, in_child);
    Answer answer;
    answer.text = process.ReadOutput(std::chrono::milliseconds(60000));
    answer.status = process.Wait(std::chrono::milliseconds(60000));
    return answer;
}

// ---- JSON, as far as it is needed -----------------------------------------------------------------------------------

// Parses a JSON value: returns the text after it, or null.
const char *after_value(const char *at);
const char *skip(const char *at) { return at + std::strspn(at, " \n"); }
const char *after_string(const char *at) {
    if (*at++ != '"') return nullptr;
    while (*at != '"') {
        if (static_cast<unsigned char>(*at) < 0x20) return nullptr;
        if (*at == '\\' && !std::strchr("\"\\u", at[1])) return nullptr;
        at += *at == '\\' ? 2 : 1;
    }
    return at + 1;
}
const char *after_list(const char *at, bool object) {
    const char close = object ? '}' : ']';
    do {
        at = skip(at + 1);
        if (object) {
            at = after_string(at);
            if (!at || *(at = skip(at)) != ':') return nullptr;
            at = skip(at + 1);
        }
        at = after_value(at);
        if (!at) return nullptr;
        at = skip(at);
    } while (*at == ',');
    return *at == close ? at + 1 : nullptr;
}
const char *after_value(const char *at) {
    if (*at == '{' || *at == '[') return after_list(at, *at == '{');
    if (*at == '"') return after_string(at);
    for (const char *word : {"true", "false"})
        if (std::strncmp(at, word, std::strlen(word)) == 0) return at + std::strlen(word);
    const size_t digits = std::strspn(at, "-0123456789");
    return digits ? at + digits : nullptr;
}

class Report {
public:
    explicit Report(const InChild &in_child = nullptr, std::vector<std::string> doctor = {DOCTOR}) {
        std::vector<std::string> by_json = doctor;
        by_json.push_back("--json");
        Answer json = ask(by_json, in_child);
        status = json.status;
        json_ = json.text;
        const char *end = after_value(json_.c_str());
        EXPECT_TRUE(end && std::string(end) == "\n") << json_;
        Answer plain = ask(doctor, in_child);
        text = plain.text;
        EXPECT_EQ(plain.status, status);
        // 1 if and only if something is limited.
        EXPECT_EQ(json_.find("\"limited\": true") != std::string::npos, status == 1) << json_;
        EXPECT_TRUE(status == 0 || status == 1) << status;
        EXPECT_EQ(text.find("\nlimited ") != std::string::npos, status == 1) << text;
    }

    // A fact of a finding, as it is written in JSON.
    std::string fact(const std::string &finding, const std::string &name) const {
        const size_t begin = json_.find("{\"name\": \"" + finding + "\"");
        const size_t end = json_.find('\n', begin);
        const std::string key = "\"" + name + "\": ";
        const size_t at = json_.find(key, begin);
        if (begin == std::string::npos || at == std::string::npos || at > end) return "none";
        const char *value = json_.c_str() + at + key.size();
        return std::string(value, after_value(value));
    }
    std::string words(const std::string &finding, const std::string &name) const {
        const std::string value = fact(finding, name);
        return value.size() >= 2 && value[0] == '"' ? value.substr(1, value.size() - 2) : "not a text: " + value;
    }
    long number(const std::string &finding, const std::string &name) const {
        const std::string value = fact(finding, name);
        EXPECT_NE(std::isdigit(static_cast<unsigned char>(value[0])), 0) << finding << " " << name << ": " << value;
        return std::atol(value.c_str());
    }
    bool limited(const std::string &finding) const { return fact(finding, "limited") == "true"; }

    int status;
    std::string text;

private:
    std::string json_;
};

// ---- Facts ----------------------------------------------------------------------------------------------------------

std::string first_line(const char *path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

// The kernel's answer to a request for a ring: features, or -errno.
int64_t raw_ring(unsigned flags, int *fd = nullptr) {
    io_uring_params params = {};
    params.flags = flags;
    const long ring = ::syscall(SYS_io_uring_setup, 4, &params);
    if (ring < 0) return -errno;
    if (fd)
        *fd = static_cast<int>(ring);
    else
        ::close(static_cast<int>(ring));
    return params.features;
}

// As before, in a child in which something is limited.
int64_t raw_ring_in(const InChild &in_child) {
    const pid_t child = ::fork();
    if (child == 0) {
        in_child();
        const int64_t answer = raw_ring(0);
        ::_exit(answer < 0 ? static_cast<int>(-answer) : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return -WEXITSTATUS(status);
}

bool kernel_has_op(unsigned op) {
    int ring = -1;
    if (raw_ring(0, &ring) < 0) return false;
    alignas(io_uring_probe) char memory[sizeof(io_uring_probe) + 256 * sizeof(io_uring_probe_op)] = {};
    auto *probe = reinterpret_cast<io_uring_probe *>(memory);
    const long error = ::syscall(SYS_io_uring_register, ring, IORING_REGISTER_PROBE, probe, 256);
    ::close(ring);
    return error == 0 && op <= probe->last_op && (probe->ops[op].flags & IO_URING_OP_SUPPORTED);
}

// Whether madvise(MADV_GUARD_INSTALL) makes a page inaccessible.
bool light_guards() {
    void *page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const bool accepted = ::madvise(page, 4096, 102) == 0;
    support::Pipe pipe;
    const bool effective = ::write(pipe.write_end, page, 1) < 0 && errno == EFAULT;
    ::munmap(page, 4096);
    return accepted && effective;
}

InChild refuse_io_uring(int error) {
    return [error] { RefuseSystemCall(SYS_io_uring_setup, error); };
}

InChild limit_to(int resource, rlim_t value) {
    return [resource, value] {
        const rlimit limit = {value, value};
        if (::setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) ::_exit(126);
    };
}

InChild wish(const char *backend) {
    return [backend] { ::setenv("FIBERRT_BACKEND", backend, 1); };
}

class DoctorTest : public testing::Test {
protected:
    void SetUp() override { ::unsetenv("FIBERRT_BACKEND"); }
};

// The result of a program's first operation agrees with the doctor's report of the backend.
void expect_backend(const Report &report, const InChild &in_child) {
    const std::string error = report.words("backend", "error");
    const int told = std::atoi(ask({SUBJECT, "io"}, in_child).text.c_str());
    EXPECT_EQ(told == -ENOTSUP ? "ENOTSUP" : told < 0 ? strerrorname_np(-told) : "", error);
    EXPECT_EQ(report.words("backend", "backend").empty(), told < 0);
    EXPECT_EQ(report.limited("backend"), told < 0);
}

TEST_F(DoctorTest, DescribesThisMachine) {
    const Report report;
    utsname kernel = {};
    ASSERT_EQ(::uname(&kernel), 0);
    EXPECT_EQ(report.words("kernel", "release"), kernel.release);
    const int64_t features = raw_ring(0);
    const bool usable =
        HAVE_URING && features > 0 && (features & IORING_FEAT_EXT_ARG) && (features & IORING_FEAT_NODROP);
    EXPECT_EQ(report.fact("io_uring", "works"), usable ? "true" : "false");
    EXPECT_EQ(report.limited("io_uring"), !usable);
    EXPECT_EQ(report.fact("libev", "built_in"), HAVE_EV ? "true" : "false");
    if (usable) {
        const unsigned best = IORING_SETUP_SUBMIT_ALL | IORING_SETUP_TASKRUN_FLAG | (1u << 12) | (1u << 13);
        EXPECT_EQ(report.limited("io_uring_flags"), raw_ring(best) < 0);
        EXPECT_EQ(report.fact("doorbell", "futex_op"), kernel_has_op(51) ? "true" : "false");
    }
    EXPECT_EQ(report.words("backend", "backend"), usable ? "uring" : HAVE_EV ? "ev" : "");
    EXPECT_EQ(report.words("guard_pages", "kind"), light_guards() ? "light" : "mprotect");
    EXPECT_EQ(report.fact("mappings", "max_map_count"), first_line("/proc/sys/vm/max_map_count"));
    EXPECT_EQ(report.fact("overcommit", "mode"), first_line("/proc/sys/vm/overcommit_memory"));
    EXPECT_NE(
        first_line("/sys/kernel/mm/transparent_hugepage/enabled").find("[" + report.words("huge_pages", "mode") + "]"),
        std::string::npos);
    EXPECT_EQ(report.words("FIBERRT_BACKEND", "value"), "");
    rlimit files = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
    EXPECT_EQ(report.number("open_files", "limit"), static_cast<long>(files.rlim_cur));
    EXPECT_EQ(report.limited("open_files"), files.rlim_cur < 1024);
    expect_backend(report, nullptr);
}

// A filter is in force; the report can name its reason, unless the sysctl may be one as well.
class DoctorRefusalTest : public testing::TestWithParam<int> {};

TEST_P(DoctorRefusalTest, ByAFilter) {
    if (!HAVE_URING) GTEST_SKIP() << "the library was built without io_uring";
    const int error = GetParam();
    const Report report(refuse_io_uring(error));
    EXPECT_EQ(report.status, 1);
    EXPECT_TRUE(report.limited("io_uring"));
    EXPECT_EQ(report.fact("io_uring", "works"), "false");
    EXPECT_EQ(report.words("io_uring", "error"), strerrorname_np(error));
    EXPECT_EQ(report.number("io_uring", "seccomp_mode"), 2);
    const std::string sysctl = first_line("/proc/sys/kernel/io_uring_disabled");
    std::string cause = "other";
    if (error == EPERM || error == EACCES)
        cause = sysctl == "2" || (sysctl == "1" && ::geteuid() != 0) ? "sysctl" : "seccomp";
    if (error == ENOSYS) cause = sysctl.empty() ? "kernel or seccomp" : "seccomp";
    if (error == ENOMEM) cause = "memory or seccomp";
    if (error == EMFILE) cause = "descriptors";
    EXPECT_EQ(report.words("io_uring", "cause"), cause);
    if (cause == "seccomp") {
        EXPECT_NE(report.text.find("seccomp"), std::string::npos) << report.text;
    }
    EXPECT_EQ(report.fact("io_uring_flags", "flags"), "none") << "the kernel's choice is unknown";
    if (error != EMFILE) {
        EXPECT_EQ(report.words("backend", "backend"), HAVE_EV ? "ev" : "");
    }
    expect_backend(report, refuse_io_uring(error));
}

INSTANTIATE_TEST_SUITE_P(, DoctorRefusalTest, testing::Values(EPERM, ENOSYS, ENOMEM, EACCES, EMFILE),
                         [](const auto &info) { return std::string(strerrorname_np(info.param)); });

TEST_F(DoctorTest, AnUnknownBackend) {
    const Report report(wish("nonsense"));
    EXPECT_EQ(report.status, 1);
    EXPECT_EQ(report.words("FIBERRT_BACKEND", "value"), "nonsense");
    EXPECT_TRUE(report.limited("FIBERRT_BACKEND"));
    EXPECT_EQ(report.words("backend", "error"), "EINVAL");
    EXPECT_NE(report.words("backend", "text").find("nonsense"), std::string::npos) << report.words("backend", "text");
    expect_backend(report, wish("nonsense"));
}

TEST_F(DoctorTest, ABackendThatIsUnavailable) {
    auto impossible = [] {
        wish("uring")();
        refuse_io_uring(EPERM)();
    };
    const Report report(impossible);
    EXPECT_EQ(report.status, 1);
    EXPECT_TRUE(report.limited("FIBERRT_BACKEND"));
    EXPECT_EQ(report.words("backend", "error"), "ENOTSUP");
    expect_backend(report, impossible);
}

TEST_F(DoctorTest, ABackendByName) {
    if (!HAVE_EV) GTEST_SKIP() << "the library was built without libev";
    const Report report(wish("ev"));
    EXPECT_EQ(report.words("FIBERRT_BACKEND", "value"), "ev");
    EXPECT_FALSE(report.limited("FIBERRT_BACKEND"));
    EXPECT_EQ(report.words("backend", "backend"), "ev");
    expect_backend(report, wish("ev"));
}

#if FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN
#define NOT_WITH_A_SANITIZER() GTEST_SKIP() << "a sanitizer needs more mappings and address space"
#else
#define NOT_WITH_A_SANITIZER() (void)0
#endif

TEST_F(DoctorTest, AddressSpace) {
    NOT_WITH_A_SANITIZER();
    constexpr rlim_t most = rlim_t(256) << 20;
    const Report report(limit_to(RLIMIT_AS, most));
    EXPECT_EQ(report.number("address_space", "limit"), static_cast<long>(most));
    EXPECT_TRUE(report.limited("address_space"));
    EXPECT_EQ(report.status, 1);
    const long said = report.number("address_space", "fibers");
    const long were = std::atol(ask({SUBJECT, "fibers", "100000"}, limit_to(RLIMIT_AS, most)).text.c_str());
    EXPECT_LE(were, said * 102 / 100) << "of " << said;
    EXPECT_GE(were, said * 80 / 100) << "of " << said;
}

// Without MADV_GUARD_INSTALL: as many fibers as it says, and then a refusal.
TEST_F(DoctorTest, GuardPagesThatAreMappings) {
    NOT_WITH_A_SANITIZER();
    auto without_advice = [] { RefuseSystemCall(SYS_madvise, EINVAL); };
    const Report report(without_advice);
    EXPECT_EQ(report.words("guard_pages", "kind"), "mprotect");
    EXPECT_TRUE(report.limited("guard_pages"));
    const long said = report.number("mappings", "fibers");
    EXPECT_EQ(said, report.number("mappings", "fibers_with_mprotect_guards"));
    if (said > 100'000) GTEST_SKIP() << "vm.max_map_count allows " << said << " fibers here: too many to try";
    const long were = std::atol(ask({SUBJECT, "fibers", "200000"}, without_advice).text.c_str());
    EXPECT_NEAR(static_cast<double>(were), static_cast<double>(said), static_cast<double>(said) / 50);
}

TEST_F(DoctorTest, LockedMemory) {
    const Report report(limit_to(RLIMIT_MEMLOCK, 0));
    EXPECT_EQ(report.number("locked_memory", "limit"), 0);
    const int64_t answer = raw_ring_in(limit_to(RLIMIT_MEMLOCK, 0));
    if (HAVE_URING) {
        EXPECT_EQ(report.words("io_uring", "error"), answer < 0 ? strerrorname_np(static_cast<int>(-answer)) : "");
    }
    EXPECT_EQ(report.limited("locked_memory"), report.fact("locked_memory", "counts_rings") == "true");
}

TEST_F(DoctorTest, OpenFiles) {
    const Report report(limit_to(RLIMIT_NOFILE, 100));
    EXPECT_EQ(report.number("open_files", "limit"), 100);
    EXPECT_TRUE(report.limited("open_files"));
    EXPECT_EQ(report.status, 1);
}

TEST_F(DoctorTest, Processes) {
    const Report report(limit_to(RLIMIT_NPROC, 0));
    EXPECT_EQ(report.number("threads", "limit"), 0);
    EXPECT_TRUE(report.limited("threads"));
    EXPECT_EQ(report.status, 1);
    if (report.fact("io_uring", "works") == "true") {
        EXPECT_EQ(report.fact("threads", "io_uring_threads"), "false");
    }
}

// ---- Settings of the system that this machine need not have: under another root with its own /proc ------------------

class DoctorOfRootTest : public DoctorTest {
protected:
    void SetUp() override {
        DoctorTest::SetUp();
        for (const char *folder : {"", "/proc", "/proc/self", "/proc/sys", "/proc/sys/kernel", "/proc/sys/vm"})
            ASSERT_EQ(::mkdir((root_ + folder).c_str(), 0700), 0);
        write("proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\nSeccomp:\t0\n");
        write("proc/self/uid_map", "         0          0 4294967295\n");
        write("proc/sys/kernel/osrelease", "6.12.0-test\n");
        write("proc/sys/kernel/io_uring_disabled", "0\n");
        write("proc/sys/kernel/io_uring_group", "-1\n");
        write("proc/sys/vm/max_map_count", "65530\n");
        write("proc/sys/vm/overcommit_memory", "0\n");
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    void write(const std::string &name, const std::string &text) const {
        std::ofstream file(root_ + "/" + name);
        file << text;
        EXPECT_TRUE(file.good()) << name;
    }
    void remove(const std::string &name) const { EXPECT_EQ(::unlink((root_ + "/" + name).c_str()), 0); }
    Report report(const InChild &in_child = nullptr) const { return Report(in_child, {DOCTOR_OF_ROOT, root_}); }
    // The doctor's report where the kernel refuses a ring with that error. (The report does not know of the filter that
    // refuses it.)
    std::pair<std::string, std::string> why_refused(int error) const {
        const Report refused = report(refuse_io_uring(error));
        EXPECT_TRUE(refused.limited("io_uring"));
        return {refused.words("io_uring", "cause"), refused.words("io_uring", "text")};
    }
    void disabled(const char *value, const std::string &group) const {
        write("proc/sys/kernel/io_uring_disabled", value);
        write("proc/sys/kernel/io_uring_group", group);
    }

private:
    const std::string root_ = testing::TempDir() + "fiberrt-root-" + std::to_string(::getpid());
};

#define NEEDS_URING() \
    if (!HAVE_URING) GTEST_SKIP() << "the library was built without io_uring"

const std::string refused = "Refused: sysctl kernel.io_uring_disabled is ";

TEST_F(DoctorOfRootTest, IoUringDisabledForAll) {
    NEEDS_URING();
    disabled("2\n", "0\n");
    write("proc/self/status", "CapEff:\t000001ffffffffff\nSeccomp:\t0\n");
    EXPECT_EQ(why_refused(EPERM), std::make_pair(std::string("sysctl"), refused + "2."));
    EXPECT_EQ(report(refuse_io_uring(EPERM)).number("io_uring", "io_uring_disabled"), 2);
    write("proc/self/status", "Seccomp:\t2\n");
    EXPECT_EQ(why_refused(EPERM).second, refused + "2. A seccomp filter is in force as well.");
}

TEST_F(DoctorOfRootTest, IoUringDisabledExceptForAGroup) {
    NEEDS_URING();
    disabled("1\n", "-1\n");
    EXPECT_EQ(why_refused(EPERM),
              std::make_pair(std::string("sysctl"), refused + "1, and there is no kernel.io_uring_group."));
    disabled("1\n", "987654\n");
    EXPECT_EQ(why_refused(EPERM),
              std::make_pair(std::string("sysctl"),
                             refused + "1, and this user is not in kernel.io_uring_group, which is 987654."));
    disabled("1\n", std::to_string(::getegid()) + "\n"); // so it cannot be that
    EXPECT_EQ(why_refused(EPERM).first, "security module");
    write("proc/self/status", "Seccomp:\t2\n");
    EXPECT_EQ(why_refused(EPERM).first, "seccomp");
}

// The administrator is not affected, except inside a container.
TEST_F(DoctorOfRootTest, IoUringDisabledExceptForAdministrators) {
    NEEDS_URING();
    disabled("1\n", "-1\n");
    write("proc/self/status", "CapEff:\t0000000000200000\nSeccomp:\t0\n");
    EXPECT_EQ(why_refused(EPERM).first, "security module");
    write("proc/self/uid_map", "         0     100000      65536\n");
    EXPECT_EQ(why_refused(EPERM).first, "sysctl");
    write("proc/self/uid_map", "         0          0 4294967295\n");
    write("proc/self/status", "CapEff:\t000001ffffdfffff\nSeccomp:\t0\n"); // all others
    EXPECT_EQ(why_refused(EPERM).first, "sysctl");
}

TEST_F(DoctorOfRootTest, IoUringIsMissing) {
    NEEDS_URING();
    EXPECT_EQ(why_refused(ENOSYS).first, "kernel");
    write("proc/self/status", "Seccomp:\t2\n");
    EXPECT_EQ(why_refused(ENOSYS).first, "seccomp");
    remove("proc/sys/kernel/io_uring_disabled");
    EXPECT_EQ(why_refused(ENOSYS).first, "kernel or seccomp");
    EXPECT_EQ(why_refused(EPERM).first, "seccomp");
    write("proc/self/status", "Seccomp:\t0\n");
    EXPECT_EQ(why_refused(ENOSYS).first, "kernel");
}

TEST_F(DoctorOfRootTest, LockedMemoryOfOldKernels) {
    auto no_ring = [] {
        refuse_io_uring(ENOMEM)();
        limit_to(RLIMIT_MEMLOCK, 65536)();
    };
    if (HAVE_URING) {
        EXPECT_EQ(report(no_ring).words("io_uring", "cause"), "memory");
    }
    EXPECT_FALSE(report(no_ring).limited("locked_memory"));
    write("proc/sys/kernel/osrelease", "5.11.22-old\n");
    const Report old = report(no_ring);
    EXPECT_EQ(old.words("kernel", "release"), "5.11.22-old");
    EXPECT_TRUE(old.limited("locked_memory"));
    EXPECT_EQ(old.fact("locked_memory", "counts_rings"), "true");
    EXPECT_EQ(old.number("locked_memory", "limit"), 65536);
    if (HAVE_URING) {
        EXPECT_EQ(old.words("io_uring", "cause"), "memlock");
    }
    write("proc/sys/kernel/osrelease", "5.12.0\n");
    EXPECT_FALSE(report(no_ring).limited("locked_memory"));
}

TEST_F(DoctorOfRootTest, NoOvercommit) {
    EXPECT_FALSE(report().limited("overcommit"));
    EXPECT_EQ(report().number("overcommit", "mode"), 0);
    write("proc/sys/vm/overcommit_memory", "2\n");
    write("proc/meminfo", "MemTotal:  9 kB\nCommitLimit:     1024000 kB\nCommitted_AS:     256000 kB\n");
    const Report strict = report();
    EXPECT_TRUE(strict.limited("overcommit"));
    EXPECT_EQ(strict.number("overcommit", "fibers"), (1024000 - 256000) / 320);
    write("proc/meminfo", "CommitLimit:     1024000 kB\nCommitted_AS:     2560000 kB\n");
    EXPECT_EQ(report().number("overcommit", "fibers"), 0);
    write("proc/sys/vm/overcommit_memory", "1\n");
    EXPECT_FALSE(report().limited("overcommit"));
    remove("proc/sys/vm/overcommit_memory");
    EXPECT_EQ(report().words("overcommit", "mode"), "unknown");
}

TEST_F(DoctorOfRootTest, FewMappings) {
    NOT_WITH_A_SANITIZER();
    auto without_advice = [] { RefuseSystemCall(SYS_madvise, EINVAL); };
    EXPECT_FALSE(report(without_advice).limited("mappings"));
    write("proc/sys/vm/max_map_count", "8192\n");
    const Report few = report(without_advice);
    EXPECT_TRUE(few.limited("mappings"));
    EXPECT_EQ(few.number("mappings", "max_map_count"), 8192);
    EXPECT_LE(few.number("mappings", "fibers"), (8192 - 8192 / 16) / 2);
    EXPECT_GE(few.number("mappings", "fibers"), (8192 - 8192 / 16) / 2 - 500);
    write("proc/sys/vm/max_map_count", "10\n"); // less than the program has
    EXPECT_EQ(report(without_advice).number("mappings", "fibers"), 0);
}

TEST_F(DoctorTest, Usage) {
    EXPECT_EQ(ask({DOCTOR, "--help"}).status, 0);
    EXPECT_EQ(ask({DOCTOR, "--help"}).text.substr(0, 28), "Usage: fiberrt-doctor [--jso");
    const std::string version = std::to_string(FIBERRT_VERSION_MAJOR) + "." + std::to_string(FIBERRT_VERSION_MINOR) +
                                "." + std::to_string(FIBERRT_VERSION_PATCH);
    EXPECT_EQ(ask({DOCTOR, "--version"}).text, "fiberrt-doctor " + version + "\n");
    EXPECT_EQ(ask({DOCTOR, "--jsn"}).status, 2);
    EXPECT_EQ(ask({DOCTOR, "--json", "more"}).status, 2);
    EXPECT_EQ(ask({DOCTOR, ""}).status, 2);
    EXPECT_EQ(ask({DOCTOR}, [] { ::dup2(::open("/dev/full", O_WRONLY), 1); }).status, 2);
}

} // namespace
