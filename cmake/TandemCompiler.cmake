# Language level, warnings, sanitizers and the compiler cache, for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(TANDEM_CCACHE ccache)
if(TANDEM_CCACHE)
  # Results of other clones are reused, because paths are hashed relative to the clone. The
  # sloppiness lets ccache look into precompiled headers and trust files that were just checked out.
  set(TANDEM_CCACHE ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${TANDEM_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TANDEM_CCACHE})
endif()

# CMake's default -O3 takes a sixth longer to compile and pays only for loops over many numbers
# (FAST and HOT, TandemTargets.cmake). Flags that the user has given are kept.
if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
endif()

add_library(tandem_options INTERFACE)
target_compile_options(tandem_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of overlaps in std::string concatenation that do not exist (GCC bug 105651).
  target_compile_options(tandem_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
target_include_directories(tandem_options INTERFACE "${PROJECT_SOURCE_DIR}")

if(TANDEM_SANITIZE STREQUAL "address")
  # Pointer checks are left out because they took more than half of the compile time, and
  # AddressSanitizer reports a null or foreign pointer anyway. The fuzzers have more checks.
  #
  # Release's flags come first and are then overridden, except for the tests' own sources, which are
  # compiled with exactly the release command (tandem_test_options).
  set(CMAKE_CXX_FLAGS_DEBUG "${CMAKE_CXX_FLAGS_RELEASE}")
  add_compile_options(-O1 -g1 -UNDEBUG -fsanitize=address,undefined
    -fno-sanitize=null,object-size,vptr,alignment,pointer-overflow,nonnull-attribute,returns-nonnull-attribute
    -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(TANDEM_SANITIZE STREQUAL "thread")
  # -Wno-tsan: gcc warns that tsan does not model atomic_thread_fence, which third-party headers use.
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
  add_link_options(-fsanitize=thread)
elseif(TANDEM_SANITIZE STREQUAL "fuzzer")
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "TANDEM_SANITIZE=fuzzer needs Clang: cmake --preset fuzz")
  endif()
  # Warnings that only Clang gives are not errors.
  target_compile_options(tandem_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-error>)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=null,object-size,vptr
    -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(NOT TANDEM_SANITIZE STREQUAL "")
  message(FATAL_ERROR "TANDEM_SANITIZE must be empty, address, thread or fuzzer, not '${TANDEM_SANITIZE}'")
endif()
