#include "gpu/cuda/base/late_library.h"

#include <dlfcn.h>

namespace tandem::cuda {
namespace {

std::string last_error() {
  const char* const text = ::dlerror();
  return text == nullptr ? "it lacks a function" : text;
}

}  // namespace

LateLibrary::LateLibrary(const char* file) : handle_(::dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr) missing_ = last_error();
}

void* LateLibrary::address_of(const char* name) {
  if (!missing_.empty()) return nullptr;
  void* const address = ::dlsym(handle_, name);
  if (address == nullptr) missing_ = last_error();
  return address;
}

}  // namespace tandem::cuda
