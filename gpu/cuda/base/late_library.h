// A library that is looked for when it is needed, and not linked.
#pragma once

#include <string>

namespace tandem::cuda {

// Stays loaded to the process's end. One thread.
class LateLibrary {
 public:
  // Looks where the loader does.
  explicit LateLibrary(const char* file);

  // Sets `function` to the one of that name; it must be of that type.
  template <typename Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(address_of(name));
  }

  // What was missing first, the library or one of its functions; empty: all of it is there.
  const std::string& missing() const { return missing_; }

 private:
  void* address_of(const char* name);

  void* handle_ = nullptr;
  std::string missing_;
};

}  // namespace tandem::cuda
