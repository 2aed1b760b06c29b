#include "base/status.h"

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/check.h"
#include "base/limits/process_limits.h"

namespace tandem {

namespace {

struct ErrnoMeaning {
  StatusCode code;
  std::string_view remedy;  // "; ...", or nothing if the error's text is sufficient
};

// Decides who caused the error, and so which status a client gets.
ErrnoMeaning meaning_of(int errno_value) {
  switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
      return {StatusCode::not_found, ""};
    case EACCES:
      return {StatusCode::permission_denied, "; this process's user must be allowed to"};
    case EPERM:
      return {StatusCode::permission_denied, ""};
    case ELOOP:
      return {StatusCode::invalid_argument, "; its links lead in a circle, or are too many"};
    case ENAMETOOLONG:
    case EISDIR:
      return {StatusCode::invalid_argument, ""};
    case EMFILE:
      return {StatusCode::unavailable, "; raise ulimit -n, or lower max_connections"};
    case ENFILE:
      return {StatusCode::unavailable, "; raise the machine's fs.file-max"};
    case ESTALE:  // a network file system's file that has been replaced
      return {StatusCode::unavailable, ""};
    case ENOMEM:
    case ENOSPC:
      return {StatusCode::resource_exhausted, ""};
    default:
      return {StatusCode::internal, ""};
  }
}

}  // namespace

std::string_view to_string(StatusCode code) {
  switch (code) {
    case StatusCode::ok:
      return "ok";
    case StatusCode::invalid_argument:
      return "invalid argument";
    case StatusCode::unauthenticated:
      return "unauthenticated";
    case StatusCode::permission_denied:
      return "permission denied";
    case StatusCode::not_found:
      return "not found";
    case StatusCode::already_exists:
      return "already exists";
    case StatusCode::resource_exhausted:
      return "resource exhausted";
    case StatusCode::unavailable:
      return "unavailable";
    case StatusCode::cancelled:
      return "cancelled";
    case StatusCode::internal:
      return "internal";
    case StatusCode::fatal:
      return "fatal";
  }
  return "unknown";
}

Status Status::with_context(std::string_view context) const {
  if (ok()) return *this;
  return {code_, fmt::format("{}: {}", context, message_)};
}

Status errno_status(std::string_view what, int errno_value) {
  const ErrnoMeaning meaning = meaning_of(errno_value);
  // std::generic_category is thread-safe, unlike strerror.
  return error(meaning.code, "{}: {}{}{}", what, std::generic_category().message(errno_value),
               meaning.remedy, limit_remedy(errno_value));
}

void abort_on_missing_value(const Status& status) {
  TANDEM_CHECK(false, "Result has no value: {} ({})", status.message(), to_string(status.code()));
  __builtin_unreachable();
}

}  // namespace tandem
