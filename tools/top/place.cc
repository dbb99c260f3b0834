// SPDX-License-Identifier: MIT OR Apache-2.0
#include "place.h"

#include "columns.h"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>

#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace top {

namespace {

std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> names;
    DIR* open = opendir(folder.c_str());
    if (!open) return names;
    while (const dirent* entry = readdir(open)) {
        if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    }
    closedir(open);
    return names;
}

std::optional<int> number(const std::string& text) {
    int value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
    return value;
}

std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::string target_of(const std::string& link) {
    char target[4096];
    ssize_t length = readlink(link.c_str(), target, sizeof target);
    return length < 0 ? "" : std::string(target, size_t(length));
}

std::string in_process(pid_t pid, const std::string& name) { return "/proc/" + std::to_string(pid) + '/' + name; }

// The descriptor at which the agent of a process listens: its thread has the number in its name. Without a value: there
// is no such thread.
std::optional<int> listener_of(pid_t pid) {
    constexpr std::string_view begin = "fiberrt@";
    for (const std::string& thread : names_in(in_process(pid, "task"))) {
        std::string name = first_line(in_process(pid, "task/" + thread + "/comm"));
        if (name.starts_with(begin)) return number(name.substr(begin.size()));
    }
    return std::nullopt;
}

// The path of the socket with this inode, in the network namespace of the process; empty: there is none.
std::string path_of_socket(pid_t pid, const std::string& inode) {
    std::ifstream table(in_process(pid, "net/unix"));
    std::string line;
    while (std::getline(table, line)) {
        char found[32];
        int path_at = 0;
        // Num: RefCount Protocol Flags Type St Inode Path
        if (sscanf(line.c_str(), "%*s %*s %*s %*s %*s %*s %31s %n", found, &path_at) == 1 && inode == found && path_at)
            return line.substr(size_t(path_at));
    }
    return "";
}

Place failure(const std::string& why) { return {"", false, why}; }

// The effective user of a process. Without a value: there is no such process.
std::optional<uid_t> user_of(pid_t pid) {
    std::ifstream status(in_process(pid, "status"));
    std::string line;
    unsigned effective;
    while (std::getline(status, line)) {
        if (sscanf(line.c_str(), "Uid: %*u %u", &effective) == 1) return uid_t(effective);
    }
    return std::nullopt;
}

std::string name_of(uid_t user) {
    const passwd* known = getpwuid(user);
    return known ? known->pw_name : '#' + std::to_string(user);
}

Place of_process(pid_t pid) {
    std::string who = "process " + std::to_string(pid);
    std::optional<uid_t> user = user_of(pid);
    if (!user) return failure("there is no " + who);
    if (*user != geteuid()) {
        return failure("you may not look at " + who + ": only its user may, and that is " + name_of(*user) +
                       ". Try: sudo -u '" + name_of(*user) + "' fiberrt-top " + std::to_string(pid));
    }
    std::optional<int> listener = listener_of(pid);
    if (!listener) {
        return failure(who + " has no agent: start it with the environment variable FIBERRT_TOP=DIRECTORY, or let it "
                             "call fiber_agent_start()");
    }
    std::string socket = target_of(in_process(pid, "fd/" + std::to_string(*listener)));
    if (socket.empty()) return failure("you may not look at " + who + ": " + strerror(errno));
    // "socket:[12345]"
    size_t open = socket.find('[');
    std::string inode = open == std::string::npos ? "" : socket.substr(open + 1, socket.size() - open - 2);
    std::string path = path_of_socket(pid, inode);
    if (path.empty()) return failure("the socket of " + who + "'s agent has no path");
    // In the process's own view of the file system, which is that of a container perhaps.
    std::string seen = in_process(pid, "root") + path;
    struct stat here, there;
    bool same = stat(path.c_str(), &here) == 0 && stat(seen.c_str(), &there) == 0 && here.st_dev == there.st_dev &&
                here.st_ino == there.st_ino;
    return {same ? path : seen, false, ""};
}

Place of_directory(const std::string& folder) {
    std::vector<std::string> sockets;
    for (const std::string& name : names_in(folder)) {
        struct stat status;
        std::string path = folder + '/' + name;
        if (lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) sockets.push_back(path);
    }
    if (sockets.size() == 1) return {sockets[0], false, ""};
    if (sockets.empty()) return failure("there is no socket in " + folder);
    std::string all;
    for (const std::string& path : sockets) all += "\n  " + plain(path);
    return failure("there are several sockets in " + folder + "; name one of them:" + all);
}

} // namespace

Place find_place(const std::string& named) {
    if (std::optional<int> pid = number(named)) return of_process(*pid);
    struct stat status;
    if (stat(named.c_str(), &status) != 0) return failure(named + ": " + strerror(errno));
    if (S_ISDIR(status.st_mode)) return of_directory(named);
    return {named, !S_ISSOCK(status.st_mode), ""};
}

std::vector<Candidate> processes_with_agent() {
    std::vector<Candidate> found;
    for (const std::string& name : names_in("/proc")) {
        std::optional<int> pid = number(name);
        if (!pid || user_of(*pid) != geteuid()) continue;
        if (listener_of(*pid)) found.push_back({*pid, first_line(in_process(*pid, "comm"))});
    }
    return found;
}

void add_thread_times(pid_t process, Sample& sample) {
    if (process <= 0 || uint64_t(process) != sample.pid) return;
    for (Cord& cord : sample.cords) {
        // Its first number is the time on a processor, in nanoseconds.
        std::ifstream file(in_process(process, "task/" + std::to_string(cord.thread) + "/schedstat"));
        uint64_t ns;
        if (file >> ns) cord.cpu_ns = ns;
    }
}

} // namespace top
