#include "base/status.h"

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/check.h"

namespace tandem {

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
  StatusCode code = StatusCode::internal;
  if (errno_value == ENOENT || errno_value == ENOTDIR) code = StatusCode::not_found;
  if (errno_value == EACCES || errno_value == EPERM) code = StatusCode::permission_denied;
  if (errno_value == ENOMEM || errno_value == ENOSPC) code = StatusCode::resource_exhausted;
  // std::generic_category is thread-safe, which strerror is not.
  return error(code, "{}: {}", what, std::generic_category().message(errno_value));
}

void abort_on_missing_value(const Status& status) {
  TANDEM_CHECK(false, "Result has no value: {} ({})", status.message(), to_string(status.code()));
  __builtin_unreachable();
}

}  // namespace tandem
