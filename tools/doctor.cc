// SPDX-License-Identifier: MIT OR Apache-2.0
// fiberrt-doctor: explains which features of this machine the library can use, and how it works without the others.
//
// The program is linked with the library's own objects and calls the same code as the library does: to choose the
// backend, to probe io_uring, to find the cost of guard pages and the room for mappings. It reads limits, sysctls and
// /proc only to explain the answers.
#include "doctor.h"

#include "core/fiber.h"
#include "core/mappings.h"
#include "core/stack_pool.h"
#include "fiberrt.h"
#include "findings.h"
#include "backend/selection.h"
#include "backend/uring.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifdef FIBERRT_HAVE_URING
#include <liburing.h>
#endif
#ifdef FIBERRT_HAVE_EV
#include "backend/libev.h"
#endif

using namespace fiberrt;

namespace {

constexpr int64_t unknown = -1;
constexpr int64_t unlimited = -2;

// --- Values read from the system -------------------------------------------------------------------------------------

std::string system_root; // a prefix for every path that is read

std::string read_file(const char* path) {
    std::string text;
    FILE* file = fopen((system_root + path).c_str(), "re");
    if (!file) return text;
    char part[4096];
    for (size_t got; (got = fread(part, 1, sizeof part, file)) > 0;) text.append(part, got);
    fclose(file);
    return text;
}

int64_t number_in(const char* path) {
    std::string text = read_file(path);
    return text.empty() ? unknown : strtoll(text.c_str(), nullptr, 10);
}

// The number that follows a word at the beginning of a line.
int64_t number_after(const char* path, const std::string& word, int base = 10) {
    std::string text = '\n' + read_file(path);
    size_t at = text.find('\n' + word);
    return at == std::string::npos ? unknown : strtoll(text.c_str() + at + 1 + word.size(), nullptr, base);
}

int64_t limit(int resource) {
    rlimit found;
    if (getrlimit(__rlimit_resource_t(resource), &found) != 0) return unknown;
    return found.rlim_cur == RLIM_INFINITY ? unlimited : int64_t(found.rlim_cur);
}

std::string limit_in_words(int64_t value, const char* unit) {
    if (value == unlimited) return "unlimited";
    if (value == unknown) return "unknown";
    return std::to_string(value) + unit;
}

// Adds a limit as a number, or as the text "unlimited" or "unknown".
void limit_fact(Finding& finding, const char* name, int64_t value) {
    if (value >= 0) {
        finding.fact(name, value);
    } else {
        finding.fact(name, value == unlimited ? "unlimited" : "unknown");
    }
}

const utsname& kernel() {
    static utsname name = [] {
        utsname n = {};
        uname(&n);
        return n;
    }();
    return name;
}

std::string kernel_release() {
    std::string release = read_file("/proc/sys/kernel/osrelease");
    if (!release.empty() && release.back() == '\n') release.pop_back();
    return release.empty() ? kernel().release : release;
}

bool kernel_before(int major, int minor) {
    int have_major = 0, have_minor = 0;
    sscanf(kernel_release().c_str(), "%d.%d", &have_major, &have_minor);
    return have_major < major || (have_major == major && have_minor < minor);
}

std::string thousands(int64_t n) {
    std::string text = std::to_string(n);
    for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
    return text;
}

// ENOTSUP and EOPNOTSUPP are the same number on Linux; the library's documentation uses ENOTSUP.
const char* name_of(int error) { return error == ENOTSUP ? "ENOTSUP" : strerrorname_np(error); }

// --- The findings ----------------------------------------------------------------------------------------------------

Finding look_at_kernel() {
    Finding f{"kernel"};
    f.text = "Linux " + kernel_release() + ", " + kernel().machine + ".";
    f.fact("release", kernel_release()).fact("machine", kernel().machine);
    return f;
}

int64_t io_uring_disabled() { return number_in("/proc/sys/kernel/io_uring_disabled"); }

// Returns 2 if a seccomp filter is in force, which may forbid any system call.
int64_t seccomp_mode() { return number_after("/proc/self/status", "Seccomp:"); }

struct Refusal {
    const char* cause; // for programs
    std::string text;
};

bool has_group(int64_t group) {
    if (int64_t(getegid()) == group) return true;
    gid_t groups[1024];
    int count = getgroups(1024, groups);
    for (int i = 0; i < count; i++) {
        if (int64_t(groups[i]) == group) return true;
    }
    return false;
}

// The check that the kernel makes: CAP_SYS_ADMIN in the initial user namespace; that of a container does not count.
bool administers_system() {
    int64_t capabilities = number_after("/proc/self/status", "CapEff:", 16);
    unsigned long first = 1, outside = 1, count = 0;
    sscanf(read_file("/proc/self/uid_map").c_str(), "%lu %lu %lu", &first, &outside, &count);
    bool whole = first == 0 && outside == 0 && count == UINT32_MAX;
    return whole && capabilities != unknown && capabilities >> CAP_SYS_ADMIN & 1;
}

// Returns why the sysctl forbids io_uring to this process, or an empty string if it does not.
std::string forbidden_by_sysctl() {
    int64_t value = io_uring_disabled();
    if (value == 2) return "sysctl kernel.io_uring_disabled is 2.";
    if (value != 1) return "";
    if (administers_system()) return "";
    int64_t group = number_in("/proc/sys/kernel/io_uring_group");
    if (group < 0) return "sysctl kernel.io_uring_disabled is 1, and there is no kernel.io_uring_group.";
    if (has_group(group)) return "";
    return "sysctl kernel.io_uring_disabled is 1, and this user is not in kernel.io_uring_group, which is " +
           std::to_string(group) + ".";
}

Refusal why_forbidden() {
    std::string sysctl = forbidden_by_sysctl();
    if (!sysctl.empty()) {
        return {"sysctl", sysctl + (seccomp_mode() == 2 ? " A seccomp filter is in force as well." : "")};
    }
    if (seccomp_mode() == 2) {
        return {"seccomp", "a seccomp filter forbids it; containers have one by default (docker run --security-opt "
                           "seccomp=... changes it)."};
    }
    return {"security module", "no sysctl and no seccomp filter forbids it; a security module may."};
}

Refusal why_missing() {
    bool exists = io_uring_disabled() != unknown; // the sysctl is part of io_uring
    if (seccomp_mode() == 2 && exists) return {"seccomp", "the kernel has it, but a seccomp filter hides it."};
    if (seccomp_mode() == 2) {
        return {"kernel or seccomp", "the kernel has no io_uring, or the seccomp filter in force hides it."};
    }
    return {"kernel", "this kernel has no io_uring: Linux 5.11 or newer is needed, built with it."};
}

Refusal why_no_memory() {
    if (limit(RLIMIT_AS) != unlimited)
        return {"address space", "there is no address space left for a ring (ulimit -v)."};
    if (kernel_before(5, 12) && limit(RLIMIT_MEMLOCK) != unlimited) {
        return {"memlock", "before Linux 5.12 rings count as locked memory, and that is limited to " +
                               limit_in_words(limit(RLIMIT_MEMLOCK), " bytes (ulimit -l).")};
    }
    if (seccomp_mode() == 2)
        return {"memory or seccomp", "there is no memory for a ring, or the seccomp filter in force reports that."};
    return {"memory", "there is no memory for a ring; a container's limit counts too."};
}

Refusal why_refused(int error) {
    switch (error) {
    case -EPERM:
    case -EACCES: return why_forbidden();
    case -ENOSYS: return why_missing();
    case -ENOMEM: return why_no_memory();
    case -EMFILE: return {"descriptors", "this process may have no more descriptors (ulimit -n)."};
    case -ENFILE: return {"descriptors", "the system has no more descriptors (sysctl fs.file-max)."};
    default: return {"other", std::string("the kernel says: ") + strerror(-error) + "."};
    }
}

struct IoUring {
    bool built_in = false;
    int error = -ENOSYS;
    UringOffer offer;
    bool works() const { return error == 0 && offer.ext_arg && offer.nodrop; }
};

IoUring probe_io_uring() {
    IoUring out;
#ifdef FIBERRT_HAVE_URING
    out.built_in = true;
    out.error = uring_probe(&out.offer);
#endif
    return out;
}

Finding look_at_io_uring(const IoUring& ring) {
    Finding f{"io_uring", !ring.works()};
    f.fact("built_in", ring.built_in).fact("works", ring.works());
    f.fact("seccomp_mode", seccomp_mode());
    if (io_uring_disabled() != unknown) f.fact("io_uring_disabled", io_uring_disabled());
    if (!ring.built_in) {
        f.text = "This library was built without it.";
        f.fact("cause", "not built in");
        return f;
    }
    f.fact("error", ring.error ? name_of(-ring.error) : "");
    if (ring.error) {
        Refusal refusal = why_refused(ring.error);
        f.text = "Refused: " + refusal.text;
        f.fact("cause", refusal.cause);
    } else if (!ring.works()) {
        f.text = "Too old: it has no waits with a timeout (EXT_ARG) or may lose completions (no NODROP). Linux 5.11 is "
                 "needed. "
                 "The library does not use it.";
        f.fact("cause", "kernel");
    } else {
        f.text = "Works, including waits with a timeout (EXT_ARG). Each thread that does I/O gets its own ring.";
    }
    return f;
}

#ifdef FIBERRT_HAVE_URING
std::string names_of_flags(unsigned flags) {
    static constexpr struct {
        unsigned flag;
        const char* name;
    } known[] = {
        {IORING_SETUP_SINGLE_ISSUER, "SINGLE_ISSUER"}, {IORING_SETUP_DEFER_TASKRUN, "DEFER_TASKRUN"},
        {IORING_SETUP_COOP_TASKRUN, "COOP_TASKRUN"},   {IORING_SETUP_TASKRUN_FLAG, "TASKRUN_FLAG"},
        {IORING_SETUP_SUBMIT_ALL, "SUBMIT_ALL"},
    };
    std::string names;
    for (const auto& [flag, name] : known) {
        if (!(flags & flag)) continue;
        if (!names.empty()) names += ' ';
        names += name;
    }
    return names;
}

Finding look_at_flags(const UringOffer& offer) {
    Finding f{"io_uring_flags", !offer.best_flags};
    std::string names = names_of_flags(offer.flags);
    f.fact("flags", names);
    f.text = "Rings are set up with " + (names.empty() ? "none of the flags that the library prefers" : names) +
             (offer.best_flags ? ": the best flags." : "; the kernel lacks the better flags (Linux 6.1).");
    return f;
}

Finding look_at_doorbell(const UringOffer& offer) {
    Finding f{"doorbell", !offer.futex_op};
    f.fact("futex_op", offer.futex_op);
    f.text = offer.futex_op ? "Rings can wait on a futex: one thread wakes another by a single system call."
                            : "Rings cannot wait on a futex (Linux 6.7): each needs an eventfd, one more descriptor.";
    return f;
}
#endif

Finding look_at_threads(const IoUring& ring) {
    int64_t most = limit(RLIMIT_NPROC);
    Finding f{"threads", most == 0};
    limit_fact(f, "limit", most);
    f.text = "Processes and threads of this user: " + limit_in_words(most, "") + " (ulimit -u). ";
    if (ring.works()) {
        f.limited = !ring.offer.threads;
        f.fact("io_uring_threads", ring.offer.threads);
        f.text += ring.offer.threads
                      ? "The kernel may create threads for operations that block."
                      : "The kernel may create no threads for operations that block: the library does these "
                        "operations itself, and its thread blocks meanwhile.";
    } else if ((fiber_features() & FIBER_FEATURE_EV) != 0) {
        f.text += "With libev, a few threads of the library read and write files.";
    }
    return f;
}

Finding look_at_libev() {
    Finding f{"libev", (fiber_features() & FIBER_FEATURE_EV) == 0};
    f.fact("built_in", (fiber_features() & FIBER_FEATURE_EV) != 0);
#ifdef FIBERRT_HAVE_EV
    std::string version = std::to_string(ev_version_major()) + "." + std::to_string(ev_version_minor());
    f.fact("version", version);
    f.text = "Built in, version " + version + ": used where io_uring is not available.";
#else
    f.text = "This library was built without it: without io_uring, there is no I/O.";
#endif
    return f;
}

Finding look_at_wish(int error) {
    const char* wish = secure_getenv("FIBERRT_BACKEND");
    Finding f{"FIBERRT_BACKEND"};
    f.fact("value", wish ? wish : "");
    if (!wish || !*wish) {
        f.text = "Not set: the library chooses.";
    } else {
        f.limited = error != 0;
        f.text =
            std::string("Set to \"") + wish + "\"" + (error ? ", which is unavailable: calls that do I/O fail." : ".");
    }
    return f;
}

Finding look_at_backend(const Backend* backend, int error) {
    Finding f{"backend", !backend};
    f.fact("backend", backend ? backend->name : "");
    f.fact("error", error ? name_of(-error) : "");
    char sentence[512];
    backend_explain(sentence, sizeof sentence);
    f.text = sentence;
    if (!backend) f.text += std::string(" Calls that do I/O return -") + name_of(-error) + "; everything else works.";
    return f;
}

Finding look_at_memlock() {
    int64_t bytes = limit(RLIMIT_MEMLOCK);
    bool counts = kernel_before(5, 12);
    Finding f{"locked_memory", counts && bytes != unlimited};
    limit_fact(f, "limit", bytes);
    f.fact("counts_rings", counts);
    f.text = limit_in_words(bytes, " bytes") + " (ulimit -l). ";
    f.text += counts ? "Before Linux 5.12 rings count as locked memory, some 64 KiB each, for unprivileged users."
                     : "Since Linux 5.12 rings do not count as locked memory, and the library locks no memory itself.";
    return f;
}

enum class Guards { none, light, mappings };

constexpr int64_t with_guard = FIBER_STACK_DEFAULT + FIBER_GUARD_SIZE_DEFAULT; // address space of one stack

// Takes a stack as a fiber would, to see which kind of guard it gets.
Guards probe_guards() {
    StackPool pool;
    uint8_t stack_class = StackPool::class_for(FIBER_STACK_DEFAULT);
    Guards kind = !pool.take(stack_class) ? Guards::none : pool.guard_mappings() ? Guards::mappings : Guards::light;
    pool.release();
    return kind;
}

Finding look_at_guards(Guards guards) {
    Finding f{"guard_pages", guards != Guards::light};
    switch (guards) {
    case Guards::light:
        f.fact("kind", "light");
        f.text = "Light guards (MADV_GUARD_INSTALL): each costs no mapping, and 128 bytes of page table.";
        break;
    case Guards::mappings:
        f.fact("kind", "mprotect");
        f.text = "No light guards (Linux 6.13): each is made by mprotect and costs two of the process's mappings. When "
                 "the mappings run out, a fiber waits for a stack or is refused one, as its FIBER_GUARD_... flag says.";
        break;
    case Guards::none:
        f.fact("kind", "none");
        f.text = "There is no memory for even one stack of 256 KiB.";
        break;
    }
    return f;
}

Finding look_at_mappings(Guards guards) {
    int64_t most = system_root.empty() ? mappings_limit() : number_in("/proc/sys/vm/max_map_count");
    int64_t room = mappings_room(most);
    int64_t by_mprotect = room / StackPool::mappings_per_guard;
    int64_t light = fibers.most;
    int64_t here = guards == Guards::light ? light : guards == Guards::mappings ? by_mprotect : 0;
    Finding f{"mappings", here < 10'000};
    f.fact("max_map_count", most).fact("fibers", here).fact("fibers_with_light_guards", light);
    f.fact("fibers_with_mprotect_guards", by_mprotect);
    f.text = "vm.max_map_count is " + thousands(most) + ": room for " + thousands(by_mprotect) +
             " fibers with guards by mprotect, less the program's other mappings; with light guards it is no limit, "
             "and there can be " +
             thousands(light) + " fibers if there is memory for them. Here: " + thousands(here) + ".";
    return f;
}

Finding look_at_overcommit() {
    int64_t mode = number_in("/proc/sys/vm/overcommit_memory");
    Finding f{"overcommit", mode == 2};
    limit_fact(f, "mode", mode);
    f.text = "vm.overcommit_memory is " + limit_in_words(mode, ". ");
    if (mode == 2) {
        int64_t free =
            (number_after("/proc/meminfo", "CommitLimit:") - number_after("/proc/meminfo", "Committed_AS:")) * 1024;
        int64_t fibers = free > 0 ? free / with_guard : 0;
        f.fact("fibers", fibers);
        f.text += "Each stack counts in full from its first use, with its guard: there is room for " +
                  thousands(fibers) + " stacks of 256 KiB, or for more that are smaller (fiber_attr_set_stack_size).";
    } else {
        f.text += "Only the touched pages of a stack count.";
    }
    return f;
}

Finding look_at_address_space() {
    int64_t most = limit(RLIMIT_AS);
    Finding f{"address_space", most != unlimited};
    limit_fact(f, "limit", most);
    if (most < 0) {
        f.text = "Unlimited (ulimit -v).";
        return f;
    }
    int64_t used = number_in("/proc/self/statm") * int64_t(sysconf(_SC_PAGESIZE));
    int64_t fibers = most > used ? (most - used) / with_guard : 0;
    f.fact("fibers", fibers);
    f.text =
        "Limited to " + thousands(most) + " bytes (ulimit -v): at most " + thousands(fibers) +
        " fibers with stacks of 256 KiB and guards of 64 KiB. The library then reserves at most 16 MiB in advance.";
    return f;
}

Finding look_at_open_files() {
    int64_t most = limit(RLIMIT_NOFILE);
    Finding f{"open_files", most >= 0 && most < 1024};
    limit_fact(f, "limit", most);
    f.text =
        limit_in_words(most, "") + " (ulimit -n). Each connection takes one, and each thread that does I/O one or two.";
    return f;
}

Finding look_at_huge_pages() {
    std::string text = read_file("/sys/kernel/mm/transparent_hugepage/enabled");
    size_t open = text.find('['), close = text.find(']');
    std::string mode = open < close && close != std::string::npos ? text.substr(open + 1, close - open - 1) : "unknown";
    Finding f{"huge_pages"};
    f.fact("mode", mode);
    f.text = "Transparent huge pages: " + mode +
             ". The library turns them off for stacks (MADV_NOHUGEPAGE), so that a fiber takes only the pages that it "
             "touches.";
    return f;
}

Findings look_at_all() {
    IoUring ring = probe_io_uring();
    int error;
    const Backend* backend = backend_find(&error);
    Guards guards = probe_guards();
    Findings all;
    all.push_back(look_at_kernel());
    all.push_back(look_at_io_uring(ring));
#ifdef FIBERRT_HAVE_URING
    if (ring.works()) {
        all.push_back(look_at_flags(ring.offer));
        all.push_back(look_at_doorbell(ring.offer));
    }
#endif
    all.push_back(look_at_libev());
    all.push_back(look_at_wish(error));
    all.push_back(look_at_backend(backend, error));
    all.push_back(look_at_threads(ring));
    all.push_back(look_at_open_files());
    all.push_back(look_at_memlock());
    all.push_back(look_at_guards(guards));
    all.push_back(look_at_mappings(guards));
    all.push_back(look_at_address_space());
    all.push_back(look_at_overcommit());
    all.push_back(look_at_huge_pages());
    return all;
}

// --- The program -----------------------------------------------------------------------------------------------------

constexpr const char* usage =
    "Usage: fiberrt-doctor [--json]\n"
    "\n"
    "Reports which features of this machine libfiberrt can use in this environment, and how the library works without\n"
    "the others: io_uring or libev, guard pages and the number of fibers, limits and settings.\n"
    "\n"
    "  --json     print the report as JSON, for programs\n"
    "  --help     print this text\n"
    "  --version  print the library's version\n"
    "\n"
    "Exit status: 0 if the library can use everything, 1 if something is limited, 2 if the arguments are wrong or the\n"
    "report could not be written.\n";

int print(const std::string& text, int status) {
    bool written = fwrite(text.data(), 1, text.size(), stdout) == text.size() && fflush(stdout) == 0;
    if (!written) perror("fiberrt-doctor");
    return written ? status : 2;
}

std::string version_text() {
    int version = fiber_version();
    return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
}

} // namespace

int doctor(int argc, char** argv, const char* root) {
    system_root = root;
    std::string option = argc > 1 ? argv[1] : "";
    if (argc == 2 && option == "--help") return print(usage, 0);
    if (argc == 2 && option == "--version") return print("fiberrt-doctor " + version_text() + "\n", 0);
    bool json = option == "--json";
    if (argc > 2 || (argc == 2 && !json)) {
        fprintf(stderr, "fiberrt-doctor: unknown argument: %s\n%s", argv[argc - 1], usage);
        return 2;
    }
    Findings findings = look_at_all();
    std::string limited;
    for (const Finding& finding : findings) {
        if (!finding.limited) continue;
        if (!limited.empty()) limited += ", ";
        limited += finding.name;
    }
    std::string verdict = "Everything that the library can use is available.";
    if (!limited.empty()) verdict = "Limited: " + limited + ". The lines above say how the library deals with that.";
    auto show = json ? as_json : as_text;
    return print(show(findings, version_text().c_str(), verdict), limited.empty() ? 0 : 1);
}
