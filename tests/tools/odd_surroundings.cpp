// odd_surroundings [deny=CALL|empty=FOLDER|file_bytes=N]... -- PROGRAM [ARG]...
// Becomes PROGRAM in an environment where system calls are refused with EPERM, as by a container's
// seccomp profile, where an empty folder is mounted over FOLDER, or where files are limited to N
// bytes. Exit status 77: this environment cannot be made here.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <string_view>

namespace {

constexpr int kImpossible = 77;

void write_file(const char* path, const std::string& text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = write(file, text.data(), text.size());
  close(file);
}

bool deny(const char* call) {
  const scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  const bool denied =
      filter != nullptr &&
      seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), seccomp_syscall_resolve_name(call), 0) == 0 &&
      seccomp_load(filter) == 0;
  seccomp_release(filter);
  return denied;
}

// Without root, mounting is possible in a new user namespace if the machine allows those.
bool make_empty(const char* folder) {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWNS | (user == 0 ? 0 : CLONE_NEWUSER)) != 0) return false;
  if (user != 0) {
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", std::to_string(user) + " " + std::to_string(user) + " 1");
    write_file("/proc/self/gid_map", std::to_string(group) + " " + std::to_string(group) + " 1");
  }
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder, "tmpfs", 0, "size=4k") == 0;
}

bool limit_files(const char* bytes) {
  const rlim_t most = strtoull(bytes, nullptr, 10);
  const rlimit limit{most, most};
  return setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

bool make(std::string_view what) {
  const std::size_t equals = what.find('=');
  if (equals == std::string_view::npos) return false;
  const char* const value = what.data() + equals + 1;  // an argument's end: zero-terminated
  const std::string_view kind = what.substr(0, equals);
  return kind == "deny"         ? deny(value)
         : kind == "empty"      ? make_empty(value)
         : kind == "file_bytes" ? limit_files(value)
                                : false;
}

}  // namespace

int main(int argc, char** argv) {
  int at = 1;
  for (; at < argc && std::string_view(argv[at]) != "--"; ++at) {
    if (make(argv[at])) continue;
    fprintf(stderr, "odd_surroundings: cannot make %s\n", argv[at]);
    return kImpossible;
  }
  if (at + 1 >= argc) return kImpossible;
  execv(argv[at + 1], argv + at + 1);
  perror(argv[at + 1]);
  return kImpossible;
}
