// Status and Result<T>: how a function reports bad input or a failed call.
//
// There are three kinds of failure: bad input or a failed call is a Status; scarcity that the
// caller plans for is an ordinary value; a broken invariant is TANDEM_CHECK (check.h).
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tandem {

enum class StatusCode {
  ok,
  invalid_argument,    // the input itself is wrong: HTTP 400
  unauthenticated,     // 401
  permission_denied,   // 403
  not_found,           // 404
  already_exists,      // 409
  resource_exhausted,  // a limit was reached; retrying later may work: 429
  unavailable,         // starting, draining or gone: 503
  cancelled,           // the caller gave up
  internal,            // this program's or the machine's fault: 500
  fatal,               // the device is lost or in an unknown state: the process must end
};

std::string_view to_string(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::ok; }
  explicit operator bool() const { return ok(); }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same failure with "context: " before its message; ok stays ok.
  Status with_context(std::string_view context) const;

 private:
  StatusCode code_ = StatusCode::ok;
  std::string message_;
};

// error(StatusCode::not_found, "no file {}", path)
template <typename... Args>
Status error(StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return {code, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return {StatusCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...)};
}

// A failed system call: "what: strerror(errno_value)", with the code that errno suggests.
Status errno_status(std::string_view what, int errno_value);

// A T, or the Status that explains its absence. Reading value() of a failure is a bug (aborts).
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design
  Result(Status status)                          // NOLINT: implicit by design
      : status_(!status.ok() ? std::move(status)
                             : Status(StatusCode::internal, "Result made from an ok Status")) {}

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }

  T& value() & { return require(); }
  const T& value() const& { return const_cast<Result*>(this)->require(); }
  T&& value() && { return std::move(require()); }
  T& operator*() & { return require(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(require()); }
  T* operator->() { return &require(); }
  const T* operator->() const { return &value(); }

 private:
  T& require();

  std::optional<T> value_;
  Status status_;
};

[[noreturn]] void abort_on_missing_value(const Status& status);

template <typename T>
T& Result<T>::require() {
  if (!value_) abort_on_missing_value(status_);
  return *value_;
}

#define TANDEM_CONCAT_INNER(a, b) a##b
#define TANDEM_CONCAT(a, b) TANDEM_CONCAT_INNER(a, b)

// Returns the failure from the function if `expr` (a Status) is one.
#define TANDEM_TRY(expr)                                                                           \
  do {                                                                                             \
    if (::tandem::Status tandem_try_status = (expr); !tandem_try_status) return tandem_try_status; \
  } while (false)

// TANDEM_ASSIGN(auto x, expr): returns the failure, or declares x from the Result's value.
#define TANDEM_ASSIGN(decl, expr) \
  TANDEM_ASSIGN_INNER(TANDEM_CONCAT(tandem_result_, __LINE__), decl, expr)
#define TANDEM_ASSIGN_INNER(result, decl, expr) \
  auto result = (expr);                         \
  if (!result) return result.status();          \
  decl = std::move(result).value()

}  // namespace tandem
