// A shared library that is loaded when it is needed instead of linked.
#pragma once

#include <string>

namespace tandem::cuda {

// Stays loaded until the process ends. For use by one thread.
class LateLibrary {
 public:
  // Searches where the dynamic loader does.
  explicit LateLibrary(const char* file);

  // Sets `function` to the function of that name, which must have that type.
  template <typename Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(address_of(name));
  }

  // The first missing item, the library or one of its functions; empty if nothing is missing.
  const std::string& missing() const { return missing_; }

 private:
  void* address_of(const char* name);

  void* handle_ = nullptr;
  std::string missing_;
};

}  // namespace tandem::cuda
